/**
 * The processes and shared-memory segments of one `agentrl` command, found from outside. They carry a mark in their
 * environment, which children inherit: so they are also found when their parent has been killed. Linux only.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const markVariable = "AGENTRL_TEST_MARK";
const cli = fileURLToPath(new URL("../bin/agentrl.js", import.meta.url));

export type Role = "supervisor" | "learner" | "rollout" | "other";

export interface RunProcess {
  pid: number;
  role: Role;
}

/** A name under which all processes of a run are found, however often it is resumed. */
export function newMark(): string {
  return `${process.pid}-${randomBytes(6).toString("hex")}`;
}

export interface Command {
  pid: number;
  process: ChildProcess;
  /** What it has printed so far, both streams. */
  output: () => string;
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** Starts `agentrl ARGS` as a process of its own. */
export function startCommand(args: readonly string[], mark: string): Command {
  const child = spawn(process.execPath, [cli, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, [markVariable]: mark },
  });
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => chunks.push(chunk));
  const ended = once(child, "close").then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as NodeJS.Signals | null,
  }));
  return { pid: child.pid!, process: child, output: () => Buffer.concat(chunks).toString(), ended };
}

/** Living processes with this mark. */
export function processesOf(mark: string): RunProcess[] {
  const wanted = `${markVariable}=${mark}`;
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const environment = readProc(name, "environ")?.split("\0");
      if (!environment?.includes(wanted) || hasEnded(name)) return [];
      return [{ pid: Number(name), role: roleOf(readProc(name, "cmdline") ?? "") }];
    });
}

/** Shared-memory segments that processes of these ids have created and that still have a name. None but on Linux. */
export function segmentsOf(supervisors: Iterable<number>): string[] {
  if (process.platform !== "linux") return [];
  const prefixes = [...supervisors].map((pid) => `agentrl-${pid}-`);
  return readdirSync("/dev/shm").filter((name) => prefixes.some((prefix) => name.startsWith(prefix)));
}

/** Waits until the processes are gone; resolves with those that are left after `timeoutMs`. */
export async function leftAfter(processes: readonly RunProcess[], timeoutMs: number): Promise<RunProcess[]> {
  await Promise.all(
    processes.map(async ({ pid }) => {
      // `tail --pid` waits for exactly this.
      const tail = spawn("tail", [`--pid=${pid}`, "-s", "0.05", "-f", "/dev/null"], { stdio: "ignore" });
      const limit = setTimeout(() => tail.kill(), timeoutMs);
      await once(tail, "exit");
      clearTimeout(limit);
    }),
  );
  return processes.filter(({ pid }) => !hasEnded(String(pid)));
}

/** Resident memory in bytes; null when the process is gone. */
export function residentBytes(pid: number): number | null {
  const line = /^VmRSS:\s+(\d+) kB/m.exec(readProc(String(pid), "status") ?? "");
  return line === null ? null : Number(line[1]) * 1024;
}

function roleOf(commandLine: string): Role {
  if (commandLine.includes("bin/agentrl.js")) return "supervisor";
  const entry = /pipeline\/(learner|rollout)\.[jt]s/.exec(commandLine);
  return (entry?.[1] as Role | undefined) ?? "other";
}

/** Ended, whether or not its parent has heard of it. */
function hasEnded(pid: string): boolean {
  const stat = readProc(pid, "stat");
  return stat === null || stat.slice(stat.lastIndexOf(")") + 2).startsWith("Z");
}

/** Null when the process has just ended, or is another user's. */
function readProc(pid: string, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return null;
  }
}
