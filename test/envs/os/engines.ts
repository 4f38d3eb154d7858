/**
 * The engines that this machine can run, and how a test says that one is left out. AGENTRL_REQUIRE_ENGINES lists engines
 * whose absence is a failure (bubblewrap stands for namespaces).
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { watch } from "node:fs/promises";
import { connect } from "node:net";
import { basename, dirname, join, resolve } from "node:path";
import { ownPodman, podmanIsHere } from "../../podman.ts";

const required = (process.env.AGENTRL_REQUIRE_ENGINES ?? "").split(",");
const root = process.getuid?.() === 0;

function skipped(engine: string, why: string, requirement: string): false {
  // Required only where it could run at all.
  if (required.includes(requirement) && root) throw new Error(`engine ${engine} is required: ${why}`);
  console.log(`skipped: os, engine ${engine}: ${why}`);
  return false;
}

const has = (program: string, ...args: string[]) => spawnSync(program, args).status === 0;

/** Namespaces need root, bubblewrap, and cgroups that may be written to. */
export function canUseNamespaces(): boolean {
  if (!root) return skipped("namespace", "not root", "bubblewrap");
  if (!has("bwrap", "--version")) return skipped("namespace", "no bwrap", "bubblewrap");
  if (!has("unshare", "--mount", "true")) return skipped("namespace", "mount namespaces are not allowed here", "");
  const groups = spawnSync("sh", [
    "-c",
    "d=/sys/fs/cgroup/pids; [ -d $d ] || d=/sys/fs/cgroup; mkdir $d/agentrl-try && rmdir $d/agentrl-try",
  ]);
  return groups.status === 0 || skipped("namespace", "no cgroup can be made here", "");
}

export interface ContainerService {
  socket: string;
  image: string;
  /** Runs podman on the service's own storage. */
  podman(...args: string[]): string;
  stop(): Promise<void>;
}

/** podman's Docker API over storage of its own, with an image made of this machine's packages; undefined where there is none. */
export async function startContainerService(): Promise<ContainerService | undefined> {
  if (!podmanIsHere("os, engine container")) return undefined;
  const podman = ownPodman();
  const { folder, env, storage } = podman;
  const script = resolve(import.meta.dirname, "../../../scripts/make-os-image.sh");
  const image = spawnSync("bash", ["-c", `${script} > ${folder}/image.tar`], { encoding: "utf8" });
  if (image.status !== 0) throw new Error(image.stderr);
  podman.run("import", join(folder, "image.tar"), "agentrl-os");
  const socket = join(folder, "podman.sock");
  const service = spawn("podman", [...storage, "system", "service", "--time=0", `unix://${socket}`], {
    env,
    cwd: folder,
  });
  let log = "";
  service.stderr.on("data", (chunk: Buffer) => {
    log += chunk.toString();
  });
  await answering(socket).catch((error: unknown) => {
    service.kill("SIGKILL");
    throw new Error(`podman's service did not start: ${log}`, { cause: error });
  });
  return {
    socket,
    image: "agentrl-os",
    podman: podman.run,
    async stop() {
      const ended = once(service, "exit");
      service.kill("SIGTERM");
      await ended;
      podman.remove();
    },
  };
}

/** Connects as soon as the socket is there and somebody listens on it. */
async function answering(socket: string): Promise<void> {
  const deadline = AbortSignal.timeout(30_000);
  const watching = new AbortController();
  const changes = watch(dirname(socket), { signal: AbortSignal.any([deadline, watching.signal]) });
  const appeared = (async () => {
    for await (const { filename } of changes) if (filename === basename(socket)) return;
  })();
  if (existsSync(socket)) {
    watching.abort();
    await appeared.catch(() => {});
  } else {
    await appeared;
  }
  for (;;) {
    const connection = connect(socket);
    try {
      await once(connection, "connect", { signal: deadline });
      return;
    } catch (error) {
      // Between its appearance and the first listen a socket refuses.
      if (deadline.aborted || (error as NodeJS.ErrnoException).code !== "ECONNREFUSED") throw error;
    } finally {
      connection.destroy();
    }
  }
}
