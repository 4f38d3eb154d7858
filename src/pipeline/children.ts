/**
 * Child processes of a run: started with the same loader as this one, their last stderr lines kept so that a crash can
 * be told with its cause, and killed when this process goes.
 */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { nodeOptions } from "../child-options.ts";
import { endWithParent } from "../end-with-parent.ts";
import { AgentRLError, type ErrorCode, failure } from "../errors.ts";
import { type Clock, realClock } from "./clock.ts";

const keptLines = 40;
const keptCharacters = 2_000;
/**
 * V8 lets a heap grow by half and more between two full collections: over an hour a rollout process stood anywhere between 420
 * and 670 MB. With 5 % it stands within 3 % of 505 MB (measured over ten minutes of the demo's configuration).
 */
const heapOptions = ["--heap-growing-percent=5"];

/** For the last lines of a process that has ended to arrive. */
const lastLinesMs = 500;

export interface ChildEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Child<To, From> {
  readonly name: string;
  /** A message to a child that is gone is lost: its end is handled where `ended` is awaited. */
  send(message: To): void;
  onMessage(handler: (message: From) => void): void;
  /** SIGKILL. */
  kill(): void;
  /** Last lines that it wrote to stderr. */
  lastLines(): string;
  /** Resolves with how it ended. */
  readonly ended: Promise<ChildEnd>;
}

/** One that is a process of this machine. */
export interface ChildProcessOf<To, From> extends Child<To, From> {
  readonly process: ChildProcess;
}

/** @param module URL of the child's entry file. */
export function startChild<To, From>(name: string, module: URL): ChildProcessOf<To, From> {
  const file = fileURLToPath(module);
  const child = fork(file, [], {
    execArgv: [...heapOptions, ...nodeOptions(file)],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    serialization: "json",
  });
  const lines: string[] = [];
  let partial = "";
  child.stderr?.setEncoding("utf8");
  child.stderr?.on("data", (text: string) => {
    const parts = (partial + text).split("\n");
    partial = (parts.pop() ?? "").slice(-keptCharacters);
    lines.push(...parts.map((line) => line.slice(0, keptCharacters)));
    lines.splice(0, Math.max(0, lines.length - keptLines));
  });
  const ended = new Promise<ChildEnd>((resolve) => {
    child.once("close", (code, signal) => resolve({ code, signal }));
    // What it has started itself may hold its stderr open long after.
    child.once("exit", (code, signal) => setTimeout(() => resolve({ code, signal }), lastLinesMs));
  });
  child.on("error", (error) => lines.push(`ipc: ${error.message}`));
  return {
    name,
    process: child,
    send: (message) => {
      if (child.connected) child.send(message as object);
    },
    onMessage: (handler) => child.on("message", (message) => handler(message as From)),
    kill: () => child.kill("SIGKILL"),
    lastLines: () => [...lines, partial].filter((line) => line !== "").join("\n"),
    ended,
  };
}

/** Stops the child, with a bound on how long that may take. */
export async function endChild(
  child: Pick<Child<{ type: "stop" }, never>, "send" | "kill" | "ended">,
  clock: Clock = realClock,
): Promise<void> {
  child.send({ type: "stop" });
  const kill = clock.after(3_000, () => child.kill());
  await child.ended;
  kill.cancel();
}

/** What a child failed in, as an error of this process. */
export function relayed(message: { message: string; code: string }, from: string): AgentRLError {
  const code = (message.code || "PIPELINE") as ErrorCode;
  // It may say already where it was found.
  return new AgentRLError(code, message.message, /^ {2}where:/m.test(message.message) ? {} : { where: from });
}

/** The child's side: what its work fails in ends the process, told to the supervisor and on stderr. */
export function failWith(
  send: (message: { type: "failed"; message: string; code: string }) => void,
): (error: unknown) => void {
  const fail = (error: unknown) => {
    console.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
    send({ type: "failed", ...failure(error) });
    process.exitCode = 1;
    process.disconnect();
  };
  process.on("uncaughtException", fail);
  return fail;
}

/** The child's side: typed messages from and to the supervisor. Exits when the supervisor is gone. */
export function connectToSupervisor<To, From>(handler: (message: To) => void): (message: From) => void {
  endWithParent();
  process.on("message", (message) => handler(message as To));
  process.on("disconnect", () => process.exit(3));
  // Ctrl-C reaches the whole process group; the supervisor decides what it means.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => {});
  return (message) => {
    if (process.connected) process.send?.(message);
  };
}
