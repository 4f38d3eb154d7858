/**
 * `agentrl bench controller`: many sessions at once through a controller and its workers, each in processes of their own.
 *
 * Overhead is the client's round trip less the time that the environment takes: client, controller, worker and host
 * process together, queueing included. Beside it stands the overhead of the same sessions sent straight to the workers:
 * what is more is the controller's. It is measured with a policy that thinks between turns, as a model does: sessions
 * without pause only measure how long their queue is. Throughput is measured without pause, beside the same sessions played
 * in this process.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Action, Environment } from "../env/environment.ts";
import { openRemoteEnvironment } from "../env/remote.ts";
import { AgentRLError } from "../errors.ts";
import { ownModule } from "../own-files.ts";
import { type ChildProcessOf, startChild } from "../pipeline/children.ts";
import type { ControllerProcessTask, FromControllerProcess } from "./controller-process.ts";
import { directEnvironment } from "./direct-environment.ts";
import { latencyEnvironment } from "./latency-environment.ts";

export interface ControllerBenchOptions {
  /** Sessions at once. @default 2000 */
  sessions?: number;
  /** @default 4 */
  workers?: number;
  /** @default 10 */
  turns?: number;
  /** Milliseconds that the environment takes over a turn. @default 50 */
  latencyMs?: number;
  /** Mean of the policy's time between turns, in milliseconds, evenly spread from 0 to twice that. @default 5000 */
  thinkMs?: number;
  /** Takes a line of the report at a time. @default standard output */
  print?: (line: string) => void;
}

export interface RunResult {
  played: number;
  /** Sessions that failed or ended otherwise than by their last turn. */
  lost: number;
  seconds: number;
  sessionsPerSecond: number;
  turnsPerSecond: number;
  /** Milliseconds of a turn beyond the environment's own. */
  overhead: { p50: number; p99: number; max: number };
}

export interface ControllerBenchReport {
  sessions: number;
  workers: number;
  turns: number;
  latencyMs: number;
  thinkMs: number;
  /** With a policy that thinks. */
  paced: RunResult;
  /** With a policy that thinks, straight to the workers. */
  direct: RunResult;
  /** Without pause. */
  saturated: RunResult;
  /** Without pause, in this process. */
  inProcess: RunResult;
}

type Process = ChildProcessOf<ControllerProcessTask, FromControllerProcess>;

export async function benchController(options: ControllerBenchOptions = {}): Promise<ControllerBenchReport> {
  const { sessions = 2000, workers = 4, turns = 10, latencyMs = 50, thinkMs = 5000 } = options;
  const print = options.print ?? ((line: string) => void process.stdout.write(`${line}\n`));
  const processes: Process[] = [];
  const start = (task: ControllerProcessTask) => {
    const child = startProcess(task.role);
    processes.push(child);
    return listening(child, task);
  };
  try {
    const url = await start({ role: "controller" });
    const concurrency = Math.ceil((sessions + 1) / workers);
    const worker = { role: "worker", controller: url, concurrency, processes: 1, latencyMs, turns } as const;
    const urls = await Promise.all(Array.from({ length: workers }, () => start(worker)));
    const remote = await openRemoteEnvironment({ controller: `${url}/api`, task: "latency" });
    print(`${sessions} sessions at once, ${turns} turns of ${latencyMs} ms; 1 controller, ${workers} workers`);
    print("                          lost  sessions/s   turns/s   overhead p50       p99       max");
    const run = { sessions, turns, latencyMs };
    const report = async (name: string, environment: Environment, think: number) => {
      const result = await play(environment, { ...run, thinkMs: think });
      print(line(name, result));
      return result;
    };
    // The first sessions compile everything.
    await play(remote, { ...run, sessions: Math.min(sessions, 200), thinkMs: 0 });
    const paced = await report(`thinking ${thinkMs} ms`, remote, thinkMs);
    const straight = directEnvironment(urls, remote);
    const direct = await report("  without controller", straight, thinkMs);
    await straight.close();
    const saturated = await report("without pause", remote, 0);
    await remote.close();
    const inProcess = await report("in this process", latencyEnvironment(latencyMs, turns), 0);
    return { sessions, workers, turns, latencyMs, thinkMs, paced, direct, saturated, inProcess };
  } finally {
    for (const child of processes) child.process.kill("SIGKILL");
    await Promise.all(processes.map((child) => child.ended));
  }
}

interface Load {
  sessions: number;
  turns: number;
  latencyMs: number;
  thinkMs: number;
}

async function play(environment: Environment, load: Load): Promise<RunResult> {
  const { sessions, turns, latencyMs, thinkMs } = load;
  const { indices } = environment.split("data");
  const overheads: number[] = [];
  const think = () => (thinkMs === 0 ? undefined : sleep(2 * thinkMs * Math.random()));
  let lost = 0;
  const begin = performance.now();
  const one = async (at: number) => {
    await think();
    const session = await environment.start("data", indices[at % indices.length]!, at);
    try {
      for (let turn = 1; ; turn++) {
        await think();
        const asked = performance.now();
        const { done, reward } = await session.step(wait);
        overheads.push(performance.now() - asked - latencyMs);
        if (!done) continue;
        if (turn !== turns || reward !== 1) lost++;
        return;
      }
    } finally {
      await session.close();
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: sessions }, (_, at) => one(at)));
  lost += ends.filter(({ status }) => status === "rejected").length;
  const seconds = (performance.now() - begin) / 1000;
  overheads.sort((a, b) => a - b);
  const at = (share: number) => overheads[Math.min(overheads.length - 1, Math.floor(share * overheads.length))] ?? NaN;
  return {
    played: sessions,
    lost,
    seconds,
    sessionsPerSecond: sessions / seconds,
    turnsPerSecond: overheads.length / seconds,
    overhead: { p50: at(0.5), p99: at(0.99), max: at(1) },
  };
}

const wait: Action = { text: "", calls: [{ id: "0", name: "wait", arguments: { note: "still here" } }] };

function line(name: string, { lost, sessionsPerSecond, turnsPerSecond, overhead }: RunResult): string {
  const ms = (value: number, width: number) => `${value.toFixed(1)} ms`.padStart(width);
  return [
    name.padEnd(22),
    String(lost).padStart(7),
    sessionsPerSecond.toFixed(0).padStart(11),
    turnsPerSecond.toFixed(0).padStart(9),
    ms(overhead.p50, 14),
    ms(overhead.p99, 9),
    ms(overhead.max, 9),
  ].join(" ");
}

function startProcess(name: string): Process {
  return startChild(name, ownModule("./controller-process", import.meta.url));
}

/** Starts it with its task and gives its URL. */
function listening(child: Process, task: ControllerProcessTask): Promise<string> {
  return new Promise((resolve, reject) => {
    const fail = (got: string) =>
      reject(new AgentRLError("ENVIRONMENT", `the benchmark's ${child.name} did not start`, { got }));
    child.onMessage((message) => {
      if (message.type === "failed") fail(message.message);
      else resolve(message.url);
    });
    void child.ended.then(() => fail(child.lastLines()));
    child.send(task);
  });
}
