/** podman on storage of its own, for the tests that make images and containers: what they leave is gone with the folder. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const required = (process.env.AGENTRL_REQUIRE_ENGINES ?? "").split(",").includes("podman");

/** Whether the tests of `what` can use podman; where not, the reason is printed, or thrown where podman is required. */
export function podmanIsHere(what: string): boolean {
  const root = process.getuid?.() === 0;
  const there = root && spawnSync("podman", ["--version"]).status === 0;
  if (there) return true;
  const why = root ? "no podman" : "not root";
  // Required only where it could run at all.
  if (required && root) throw new Error(`${what}: podman is required: ${why}`);
  console.log(`skipped: ${what}: ${why}`);
  return false;
}

export interface Podman {
  /** For files of the tests' own. */
  folder: string;
  /** Of every podman process: its configuration. */
  env: NodeJS.ProcessEnv;
  /** First arguments of every podman process. */
  storage: readonly string[];
  /** Runs podman and returns what it printed. @throws Error with podman's words. */
  run(...args: string[]): string;
  /** Ends every container and removes everything. */
  remove(): void;
}

export function ownPodman(): Podman {
  const folder = mkdtempSync(join(tmpdir(), "agentrl-podman-"));
  const configuration = join(folder, "containers.conf");
  const version1 = spawnSync("test", ["-d", "/sys/fs/cgroup/pids"]).status === 0;
  const engine = [
    ...(version1 ? ['runtime="runc"'] : []),
    'cgroup_manager="cgroupfs"',
    'events_logger="file"',
    // Locks in shared memory would be those of every other podman of this machine as well.
    'lock_type="file"',
    `tmp_dir="${join(folder, "tmp")}"`,
  ];
  const limits = 'default_ulimits=["nofile=1024:1024","nproc=1000:1000"]';
  writeFileSync(configuration, ["[engine]", ...engine, "[containers]", limits, ""].join("\n"));
  const env = { ...process.env, CONTAINERS_CONF: configuration };
  const storage = ["--root", join(folder, "root"), "--runroot", join(folder, "run")];
  return {
    folder,
    env,
    storage,
    run(...args) {
      const result = spawnSync("podman", [...storage, ...args], { env, cwd: folder, encoding: "utf8" });
      if (result.status !== 0) throw new Error(`podman ${args[0]}: ${result.stderr}`);
      return result.stdout;
    },
    remove() {
      spawnSync("podman", [...storage, "system", "reset", "--force"], { env });
      endMonitors(folder);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** podman's monitors stay for minutes after their containers, and then write to the storage. */
function endMonitors(folder: string): void {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const [program, ...args] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      if (program!.endsWith("conmon") && args.some((arg) => arg.startsWith(folder)))
        process.kill(Number(pid), "SIGKILL");
    } catch {
      // It has ended since.
    }
  }
}
