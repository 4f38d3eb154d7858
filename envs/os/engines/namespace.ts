/**
 * Machines out of Linux namespaces: the host's programs behind an overlay, processes, network and files of their own, limits
 * by cgroups. bubblewrap makes the namespaces (as root with the overlay of namespace.sh); scripts enter them by nsenter.
 * Real commands at some 50 ms a machine; nothing is left when it is closed or this process dies.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AgentRLError } from "../../../src/errors.ts";
import type { OsSettings } from "../engine.ts";
import { initialEnvironment, type RunOptions, type RunResult, type Sandbox, type SandboxEngine } from "../sandbox.ts";
import { capture } from "./capture.ts";
import { type ControlGroup, makeControlGroup, removeOrphans } from "./cgroup.ts";
import { orShellGone, shellCommand } from "./shell.ts";

const setup = fileURLToPath(new URL("namespace.sh", import.meta.url));
/** MiB that a machine may write to its files. */
const DISK_MIB = 512;
const START_TIMEOUT_MS = 20_000;
/** For `timeout` to do its work before we do it. */
const GRACE_MS = 2000;

/** What root on a machine may do: as in a container, without what reaches the kernel or other machines. */
const capabilities = [
  "chown",
  "dac_override",
  "fowner",
  "fsetid",
  "kill",
  "setgid",
  "setuid",
  "setpcap",
  "net_bind_service",
  "audit_write",
  "setfcap",
];

export class NamespaceEngine implements SandboxEngine {
  readonly #settings: OsSettings;
  readonly #open = new Set<NamespaceSandbox>();

  /** @throws AgentRLError CONFIG where this host cannot make such machines. */
  constructor(settings: OsSettings) {
    this.#settings = settings;
    const lacking = (what: string, hint: string): never => {
      throw new AgentRLError("CONFIG", `os: engine "namespace" ${what}`, { where: "os", hint });
    };
    if (process.platform !== "linux") lacking("needs Linux", "use engine: embedded, or engine: container");
    for (const program of ["bwrap", "nsenter", "setpriv", "unshare", "timeout"]) {
      if (!onPath(program)) lacking(`needs the program ${program}`, "install the packages bubblewrap and util-linux");
    }
    if (process.getuid?.() !== 0) lacking("needs root", "run as root, or use engine: embedded or engine: container");
    removeOrphans();
    const group = makeControlGroup(limitsOf(settings));
    if (group === null)
      lacking(
        "needs cgroups that it may write to, for its limits",
        "mount /sys/fs/cgroup with the controllers pids and memory, writable",
      );
    void group!.remove();
  }

  async start(): Promise<Sandbox> {
    const sandbox = await NamespaceSandbox.start(this.#settings, () => this.#open.delete(sandbox));
    this.#open.add(sandbox);
    return sandbox;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((sandbox) => sandbox.close()));
  }
}

function limitsOf({ memory, processes }: OsSettings) {
  // A few more processes are the machine's own.
  return { memory: memory * 1024 * 1024, processes: processes + 4 };
}

function onPath(program: string): boolean {
  return (process.env.PATH ?? "").split(":").some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

class NamespaceSandbox implements Sandbox {
  readonly #machine: ChildProcess;
  readonly #group: ControlGroup;
  /** Of the machine's first process, as the host numbers it. */
  readonly #pid: number;
  readonly #onClose: () => void;
  #closed = false;

  private constructor(machine: ChildProcess, group: ControlGroup, pid: number, onClose: () => void) {
    this.#machine = machine;
    this.#group = group;
    this.#pid = pid;
    this.#onClose = onClose;
  }

  static async start(settings: OsSettings, onClose: () => void): Promise<NamespaceSandbox> {
    const group = makeControlGroup(limitsOf(settings));
    if (group === null) throw new Error("no control group could be made");
    const options = [
      "--die-with-parent",
      "--as-pid-1",
      "--unshare-pid",
      "--unshare-ipc",
      "--unshare-uts",
      "--unshare-net",
    ];
    const named = ["--hostname", "localhost", "--new-session", "--cap-drop", "ALL", "--info-fd", "3"];
    const machine = spawn("unshare", ["--mount", "sh", setup, String(DISK_MIB), ...options, ...named], {
      stdio: ["ignore", "pipe", "pipe", "pipe"],
      env: { PATH: process.env.PATH ?? initialEnvironment.PATH },
    });
    let errors = "";
    machine.stderr!.on("data", (chunk: Buffer) => {
      errors += chunk.toString();
    });
    let info = "";
    (machine.stdio[3] as NodeJS.ReadableStream).on("data", (chunk: Buffer) => {
      info += chunk.toString();
    });
    try {
      const ready = once(machine.stdout!, "data", { signal: AbortSignal.timeout(START_TIMEOUT_MS) });
      const ended = once(machine, "exit").then(([code]) => {
        throw new Error(`it ended with status ${code}`);
      });
      await Promise.race([ready, ended]);
      ended.catch(() => {});
      const { "child-pid": pid } = JSON.parse(info) as { "child-pid": number };
      return new NamespaceSandbox(machine, group, pid, onClose);
    } catch (cause) {
      machine.kill("SIGKILL");
      await group.remove();
      const why = errors.trim() || (cause instanceof Error ? cause.message : String(cause));
      throw new Error(`a machine could not be started: ${why}`, { cause });
    }
  }

  async run(script: string, { timeoutMs, outputBytes, fresh = false }: RunOptions): Promise<RunResult> {
    if (this.#closed) throw new Error("the machine is closed");
    if (this.#machine.exitCode !== null || this.#machine.signalCode !== null) throw new Error("the machine has ended");
    const seconds = (timeoutMs / 1000).toFixed(3);
    const command = ["timeout", "--signal=KILL", seconds, ...shellCommand(script, fresh)];
    let result = await this.#enter(command, { outputBytes, limitMs: timeoutMs });
    if (/^(?:nsenter: fork failed|timeout: fork system call failed)/.test(result.stderr)) {
      // Earlier scripts have left so many processes running that no other fits beside them.
      await this.#group.kill();
      result = await this.#enter(command, { outputBytes, limitMs: timeoutMs });
    }
    if (result.timedOut) await this.#group.kill();
    return orShellGone(result, (probe) => this.#enter(probe, { outputBytes: 0, limitMs: timeoutMs }));
  }

  /** Runs a command on the machine, under its limits. */
  #enter(command: string[], limits: { outputBytes: number; limitMs: number }): Promise<RunResult> {
    const join = 'while [ "$1" != -- ]; do echo $$ >"$1"; shift; done; shift; exec "$@"';
    const enter = ["nsenter", "-t", String(this.#pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "--"];
    const bounded = [
      "setpriv",
      `--bounding-set=-all,${capabilities.map((name) => `+${name}`).join(",")}`,
      "--inh-caps=-all",
      "--",
    ];
    const line = ["-c", join, "sh", ...this.#group.joins, "--", ...enter, ...bounded, ...command];
    return capture(spawn("sh", line, { stdio: ["ignore", "pipe", "pipe"], env: { ...initialEnvironment } }), {
      ...limits,
      graceMs: GRACE_MS,
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#machine.exitCode === null && this.#machine.signalCode === null) {
      const ended = once(this.#machine, "exit");
      // The first process of its namespace: with it all others end.
      this.#machine.kill("SIGKILL");
      await ended;
    }
    await this.#group.remove();
    this.#onClose();
  }
}
