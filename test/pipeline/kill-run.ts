/**
 * A real `agentrl train` in which a random process is killed at a random instant, up to three times, and which is resumed
 * until it has finished. Everything that is random follows from a seed; only the machine's timing does not.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, watch } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Rng } from "../../src/env/rng.ts";
import { readMetrics } from "../../src/observe/metrics.ts";
import { latestCheckpoint, readCheckpoint } from "../../src/pipeline/checkpoint.ts";
import { fromRanges } from "../../src/pipeline/messages.ts";
import {
  type Command,
  leftAfter,
  newMark,
  processesOf,
  type Role,
  segmentsOf,
  startCommand,
} from "../run-processes.ts";

/** Starts of one run, after which it is taken to make no progress. */
const maxStarts = 12;

/** How long an unbroken run takes, in ms: what "a random instant of it" is drawn from. */
export interface Pace {
  /** From the start of the command to the first step's line of metrics. */
  firstStep: number;
  step: number;
}

export interface KillPlan {
  seed: number;
  /** @param start 0 for the first start of the run, then one for each --resume. */
  configOf: (start: number) => string;
  out: string;
  steps: number;
  kills: number;
  pace: Pace;
}

export interface Kill {
  role: Role;
  /** Lines of metrics there were. */
  afterSteps: number;
  /** Which start of the run it hit. */
  start: number;
}

/** What a run has come to. */
export interface Outcome {
  kills: Kill[];
  /** Starts that it took: 1 for an unbroken run. */
  starts: number;
  /** Group numbers that the last checkpoint says are trained, in ascending order. */
  trainedGroups: number[];
  /** Steps of the metrics file. */
  steps: number[];
  /** SHA-256 of the final weights. */
  weights: string;
  /** What was left behind once all had ended. */
  left: { processes: string[]; segments: string[] };
  /** What the starts have printed. */
  output: string;
}

/** Plays the run without a kill, and takes its time. */
export async function unbrokenRun(config: string, out: string): Promise<Outcome & { pace: Pace }> {
  mkdirSync(out, { recursive: true });
  const mark = newMark();
  const began = performance.now();
  const command = startCommand(["train", config, "--out", out], mark);
  await linesReach(out, 1, command);
  const first = performance.now();
  await expectSuccess(command);
  const outcome = await outcomeOf(out, { kills: [], pids: [command.pid], mark, outputs: [command.output()] });
  const step = (performance.now() - first) / Math.max(1, outcome.steps.length - 1);
  return { ...outcome, pace: { firstStep: first - began, step } };
}

export async function killedRun(plan: KillPlan): Promise<Outcome> {
  const { seed, configOf, out, steps, pace } = plan;
  mkdirSync(out, { recursive: true });
  const rng = new Rng("killed run", seed);
  const mark = newMark();
  const kills: Kill[] = [];
  const pids: number[] = [];
  const outputs: string[] = [];
  let planned = plan.kills;
  for (let start = 0; start < maxStarts; start++) {
    const command = startCommand(["train", configOf(start), "--out", out, ...(start === 0 ? [] : ["--resume"])], mark);
    pids.push(command.pid);
    // Lines beyond those that there were when this start began: 0 is the time of setting up.
    for (let earliest = 0; planned > 0; planned--) {
      const before = linesOf(out);
      const later = earliest + rng.int(Math.max(1, steps - before - earliest));
      const wait = rng.next() * (later === 0 ? pace.firstStep : pace.step);
      const wanted = rng.pick<Role>(["supervisor", "learner", "rollout"]);
      if (!(await linesReach(out, before + later, command))) break;
      await Promise.race([delay(wait), command.ended]);
      const hit = strike(command, mark, wanted, rng);
      if (hit === null) break;
      kills.push({ role: hit, afterSteps: linesOf(out), start });
      if (hit === "supervisor") {
        planned--;
        break;
      }
      earliest = 1;
    }
    const { code } = await command.ended;
    outputs.push(command.output());
    if (code === 0) return outcomeOf(out, { kills, pids, mark, outputs });
    if (kills.length === 0) throw new Error(`Ended with ${code} although nothing was killed:\n${outputs.join("\n")}`);
  }
  throw new Error(`Not finished after ${maxStarts} starts (${JSON.stringify(kills)}):\n${outputs.join("\n---\n")}`);
}

/** Kills a process of the run; the supervisor where none of the wanted role lives. Null: the run has ended. */
function strike({ process: supervisor, pid }: Command, mark: string, wanted: Role, rng: Rng): Role | null {
  if (supervisor.exitCode !== null || supervisor.signalCode !== null) return null;
  const living = processesOf(mark).filter(({ role }) => role === wanted);
  const target = wanted === "supervisor" || living.length === 0 ? undefined : rng.pick(living);
  process.kill(target?.pid ?? pid, "SIGKILL");
  return target?.role ?? "supervisor";
}

async function outcomeOf(
  out: string,
  run: { kills: Kill[]; pids: number[]; mark: string; outputs: string[] },
): Promise<Outcome> {
  const { kills, pids, mark, outputs } = run;
  const processes = await leftAfter(processesOf(mark), 15_000);
  const folder = latestCheckpoint(join(out, "checkpoints"))!;
  const { state, modelFolder } = readCheckpoint(folder);
  return {
    kills,
    starts: pids.length,
    trainedGroups: fromRanges(state.trainedGroups),
    steps: readMetrics<{ step: number }>(join(out, "metrics.jsonl")).map(({ step }) => step),
    weights: createHash("sha256")
      .update(readFileSync(join(modelFolder, "model.safetensors")))
      .digest("hex"),
    left: { processes: processes.map(({ pid, role }) => `${role} ${pid}`), segments: segmentsOf(pids) },
    output: outputs.join("\n"),
  };
}

async function expectSuccess(command: Command): Promise<void> {
  const { code, signal } = await command.ended;
  if (code !== 0) throw new Error(`Ended with ${signal ?? code}:\n${command.output()}`);
}

/** Whole lines of the run's metrics file. */
function linesOf(out: string): number {
  const file = join(out, "metrics.jsonl");
  if (!existsSync(file)) return 0;
  return readFileSync(file, "utf8").split("\n").length - 1;
}

/** Waits for the metrics file to have so many lines. False: the run ended before. */
async function linesReach(out: string, lines: number, command: Command): Promise<boolean> {
  const watcher = watch(out);
  try {
    const reached = new Promise<boolean>((resolve) => {
      const look = () => {
        if (linesOf(out) >= lines) resolve(true);
      };
      watcher.on("change", look);
      look();
    });
    return await Promise.race([reached, command.ended.then(() => false)]);
  } finally {
    watcher.close();
  }
}
