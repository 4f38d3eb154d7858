/**
 * Machines that are containers, through the Docker API (Docker, or podman's service): any image, limits kept by the
 * runtime, no network. Every container carries a label that names its owner; one whose owner is no more is removed by the
 * next engine that starts, and ends by itself at the latest after some hours.
 */
import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { PassThrough, type Readable } from "node:stream";
import type Docker from "dockerode";
import { AgentRLError } from "../../../src/errors.ts";
import type { OsSettings } from "../engine.ts";
import { initialEnvironment, type RunOptions, type RunResult, type Sandbox, type SandboxEngine } from "../sandbox.ts";
import { Kept, KILLED, MOST_PRINTED } from "./capture.ts";
import { orShellGone, shellCommand } from "./shell.ts";

const LABEL = "agentrl.os.owner";
const LIFETIME_SECONDS = 6 * 3600;
/** For `timeout` to do its work before we do it. */
const GRACE_MS = 3000;
const KILL_ATTEMPTS = 20;
const capabilities = [
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "SETGID",
  "SETUID",
  "SETPCAP",
  "NET_BIND_SERVICE",
  "AUDIT_WRITE",
  "SETFCAP",
];

/** On the machine: a line for each time that everything was killed. */
const KILLS = "/run/kills";

/**
 * As the first process it reaps what is left behind, and outlives whatever is killed beside it. At SIGUSR1 it kills all
 * others by a command of its own, and it waits without one: there may be no room for a process more.
 */
const firstProcess = `trap 'kill -KILL -1; echo >>${KILLS}' USR1
mkfifo /run/idle && exec 3<>/run/idle
while ((SECONDS < ${LIFETIME_SECONDS})); do read -r -t 1 -u 3; done`;

export class ContainerEngine implements SandboxEngine {
  readonly #docker: Docker;
  readonly #settings: OsSettings;
  readonly #image: string;
  readonly #open = new Set<ContainerSandbox>();

  private constructor(docker: Docker, settings: OsSettings, image: string) {
    this.#docker = docker;
    this.#settings = settings;
    this.#image = image;
  }

  /** @throws AgentRLError CONFIG where the package, the service or the image is missing. */
  static async open(settings: OsSettings, endpoint: string | undefined): Promise<ContainerEngine> {
    const { image } = settings;
    if (image === undefined) {
      throw new AgentRLError("CONFIG", 'os: engine "container" needs an image', {
        where: "os, settings.image",
        expected: "the name of an image that has bash and coreutils",
        hint: "build envs/os/Containerfile, or make one with scripts/make-os-image.sh",
      });
    }
    const docker = await connect(endpoint);
    await docker
      .getImage(image)
      .inspect()
      .catch((cause: unknown) => {
        throw new AgentRLError("CONFIG", "os: the container service does not have this image", {
          where: "os, settings.image",
          got: image,
          hint: "build or load it first: nothing is fetched from a registry",
          cause,
        });
      });
    await removeOrphans(docker);
    return new ContainerEngine(docker, settings, image);
  }

  async start(): Promise<Sandbox> {
    const { memory, processes } = this.#settings;
    const container = await this.#docker.createContainer({
      Image: this.#image,
      Cmd: ["bash", "-c", firstProcess],
      Labels: { [LABEL]: ownLabel() },
      WorkingDir: initialEnvironment.HOME,
      Hostname: "localhost",
      Env: Object.entries(initialEnvironment).map(([name, value]) => `${name}=${value}`),
      StopSignal: "SIGKILL",
      HostConfig: {
        NetworkMode: "none",
        Memory: memory * 1024 * 1024,
        MemorySwap: memory * 1024 * 1024,
        // A few more are the machine's own.
        PidsLimit: processes + 4,
        CapDrop: ["ALL"],
        CapAdd: capabilities,
        SecurityOpt: ["no-new-privileges"],
        AutoRemove: true,
      },
    });
    const sandbox = new ContainerSandbox(container, () => this.#open.delete(sandbox));
    this.#open.add(sandbox);
    try {
      await container.start();
      return sandbox;
    } catch (error) {
      await sandbox.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((sandbox) => sandbox.close()));
  }
}

async function connect(endpoint = process.env.DOCKER_HOST ?? "/var/run/docker.sock"): Promise<Docker> {
  const { default: Dockerode } = await import("dockerode").catch((cause: unknown) => {
    throw new AgentRLError("CONFIG", 'os: engine "container" needs the package dockerode', {
      hint: "npm install dockerode",
      cause,
    });
  });
  const socket = endpoint.replace(/^unix:\/\//, "");
  const url = /^(?:http|https|tcp):/.test(endpoint) ? new URL(endpoint.replace(/^tcp:/, "http:")) : undefined;
  const docker =
    url === undefined
      ? new Dockerode({ socketPath: socket })
      : new Dockerode({ protocol: url.protocol === "https:" ? "https" : "http", host: url.hostname, port: url.port });
  await docker.ping().catch((cause: unknown) => {
    throw new AgentRLError("CONFIG", "os: the container service does not answer", {
      where: "os, endpoint",
      got: endpoint,
      expected: "the socket of Docker, or of `podman system service`",
      hint: "start it, or set endpoint (or DOCKER_HOST) to its socket",
      cause,
    });
  });
  return docker;
}

/** This process, so that one with the same number later is told apart. */
function ownLabel(): string {
  return `${hostname()} ${process.pid} ${startTime(process.pid)}`;
}

/** Field 22 of /proc/PID/stat; "" where there is none. */
function startTime(pid: number): string {
  const path = `/proc/${pid}/stat`;
  return existsSync(path) ? (readFileSync(path, "utf8").split(") ").at(-1)!.split(" ")[19] ?? "") : "";
}

async function removeOrphans(docker: Docker): Promise<void> {
  const found = await docker.listContainers({ all: true, filters: { label: [LABEL] } });
  const orphans = found.filter(({ Labels }) => {
    const [host, pid, started] = (Labels[LABEL] ?? "").split(" ");
    return host === hostname() && startTime(Number(pid)) !== started;
  });
  await Promise.all(orphans.map(({ Id }) => removeContainer(docker.getContainer(Id))));
}

async function removeContainer(container: Docker.Container): Promise<void> {
  await container.remove({ force: true }).catch((error: { statusCode?: number }) => {
    // 404: it is gone already. 409: its removal is under way.
    if (error.statusCode !== 404 && error.statusCode !== 409) throw error;
  });
}

/** The script has not begun: `timeout`, or the runtime before it, could not start a process. */
function hadNoRoom({ exitCode, stdout, stderr }: RunResult): boolean {
  const why = /fork system call failed|exec failed.*(?:temporarily unavailable|connection reset|EOF)/i;
  return (exitCode === 125 || exitCode === 126 || exitCode === 255) && why.test(`${stdout}${stderr}`);
}

class ContainerSandbox implements Sandbox {
  readonly #container: Docker.Container;
  readonly #onClose: () => void;
  #closed = false;
  #kills = 0;

  constructor(container: Docker.Container, onClose: () => void) {
    this.#container = container;
    this.#onClose = onClose;
  }

  async run(script: string, { timeoutMs, outputBytes, fresh = false }: RunOptions): Promise<RunResult> {
    if (this.#closed) throw new Error("the machine is closed");
    const seconds = (timeoutMs / 1000).toFixed(3);
    const command = ["timeout", "--signal=KILL", seconds, ...shellCommand(script, fresh)];
    let result = await this.#execute(command, timeoutMs, outputBytes);
    if (hadNoRoom(result)) {
      // Earlier scripts have left so many processes running that no other fits beside them.
      await this.#killAll();
      result = await this.#execute(command, timeoutMs, outputBytes);
    }
    if (result.timedOut || result.cut) await this.#killAll();
    return orShellGone(result, (probe) => this.#execute(probe, timeoutMs, 0));
  }

  /** Kills all but the first process, and waits until that has been done. */
  async #killAll(): Promise<void> {
    this.#kills++;
    await this.#container.kill({ signal: "SIGUSR1" });
    const done = `mapfile -t kills <${KILLS}; ((\${#kills[@]} >= ${this.#kills}))`;
    for (let attempt = 0; attempt < KILL_ATTEMPTS; attempt++) {
      if ((await this.#execute(["bash", "-c", done], 5000, 0)).exitCode === 0) return;
    }
    throw new Error("what runs on the machine could not be ended");
  }

  async #execute(command: string[], limitMs: number, outputBytes: number): Promise<RunResult> {
    const exec = await this.#container.exec({
      Cmd: command,
      AttachStdout: true,
      AttachStderr: true,
      WorkingDir: initialEnvironment.HOME,
    });
    const started = performance.now();
    const stream = await exec.start({ hijack: true, stdin: false });
    const kept = { stdout: new Kept(outputBytes), stderr: new Kept(outputBytes) };
    let stopped = false;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => end(), limitMs + GRACE_MS);
      const end = () => {
        stopped = true;
        clearTimeout(timer);
        stream.destroy();
        resolve();
      };
      const sinks = (["stdout", "stderr"] as const).map((name) => {
        const sink = new PassThrough();
        sink.on("data", (chunk: Buffer) => {
          kept[name].add(chunk);
          if (kept.stdout.printed + kept.stderr.printed > MOST_PRINTED) end();
        });
        return sink;
      }) as [PassThrough, PassThrough];
      this.#container.modem.demuxStream(stream as Readable & NodeJS.WritableStream, ...sinks);
      stream.on("error", (error) => (stopped ? undefined : reject(error)));
      stream.on("end", () => {
        clearTimeout(timer);
        resolve();
      });
    });
    const tookMs = performance.now() - started;
    const { ExitCode, Running } = await exec.inspect();
    const exitCode = Running || ExitCode === null ? KILLED : ExitCode;
    return {
      stdout: kept.stdout.text(),
      stderr: kept.stderr.text(),
      exitCode,
      timedOut: tookMs >= limitMs && exitCode === KILLED,
      cut: kept.stdout.cut || kept.stderr.cut,
    };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await removeContainer(this.#container);
    this.#onClose();
  }
}
