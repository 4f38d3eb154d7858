/** The runs below a folder, each in a line: how far it is, whether it goes on, what it earns. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { AgentRLError } from "../../errors.ts";
import { latestCheckpoint, readState } from "../../pipeline/checkpoint.ts";
import { isRunning } from "../../pipeline/run-lock.ts";
import type { RunStep } from "../../pipeline/run-log.ts";
import { lastLines } from "../line-follower.ts";
import { parseMetrics, stepsOf } from "../metrics.ts";

/** Steps over which rewards are averaged: as on the terminal. */
export const windowSteps = 10;

export interface RunOverview {
  folder: string;
  /** running: a process trains in it. stopped: it can go on with --resume. */
  state: "running" | "finished" | "stopped";
  step: number;
  /** As configured. */
  steps: number;
  /** Mean over the last `windowSteps` steps, by task and over all episodes; null before the first step. */
  reward: number | null;
  tasks: Record<string, number>;
  /** Mean over the tasks of the newest evaluation; null without one. */
  heldOut: number | null;
  tokensPerSecond: number | null;
  /** Largest of those steps; null where nothing was compared. */
  mismatch: number | null;
  /** When the last step ended, or the run began: milliseconds since 1970. */
  updated: number;
}

/** Folders of runs, `folder` itself or below it, in order. @throws AgentRLError USAGE for no folder. */
export function findRuns(folder: string, depth = 4): string[] {
  if (!existsSync(folder)) {
    throw new AgentRLError("USAGE", "There is no such folder", { where: folder, expected: "a folder of runs" });
  }
  if (isRun(folder)) return [folder];
  if (depth === 0) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith(".") && entry.name !== "node_modules")
    .map((entry) => join(folder, entry.name))
    .sort()
    .flatMap((below) => findRuns(below, depth - 1));
}

/** @throws AgentRLError USAGE for a folder that holds no run. */
export function assertRun(folder: string): void {
  if (existsSync(folder) && isRun(folder)) return;
  throw new AgentRLError("USAGE", "There is no run in the folder", {
    where: folder,
    got: existsSync(folder) ? "a folder without metrics.jsonl" : "no folder",
    expected: "what `agentrl train --out` was given",
  });
}

export function overviewOf(folder: string): RunOverview {
  const lines = lastSteps(folder, windowSteps);
  const checkpoint = latestCheckpoint(join(folder, "checkpoints"));
  const steps = Number(readConfig(folder).steps ?? 0);
  const saved = checkpoint === null ? 0 : readState(checkpoint).step;
  const last = lines.at(-1);
  return {
    folder,
    state: isRunning(folder) ? "running" : saved >= steps && saved > 0 ? "finished" : "stopped",
    step: last?.step ?? saved,
    steps,
    reward: meanOf(lines.map((line) => line.reward)),
    tasks: taskRewards(lines),
    heldOut: newestEvaluation(folder),
    tokensPerSecond: meanOf(lines.map((line) => line.tokensPerSecond)),
    mismatch: lines.some((line) => line.mismatchTokens > 0)
      ? Math.max(...lines.map((line) => Number(line.mismatch ?? 0)))
      : null,
    updated: statSync(join(folder, "metrics.jsonl")).mtimeMs,
  };
}

/** The run's config as it was resolved, unchecked: it may be of another version. */
export function readConfig(folder: string): Record<string, unknown> {
  const file = join(folder, "config.yaml");
  const config: unknown = existsSync(file) ? parse(readFileSync(file, "utf8")) : null;
  return typeof config === "object" && config !== null ? (config as Record<string, unknown>) : {};
}

/** Mean reward by task over the steps that had episodes of it. */
export function taskRewards(lines: readonly Pick<RunStep, "tasks">[]): Record<string, number> {
  const names = [...new Set(lines.flatMap(({ tasks }) => Object.keys(tasks)))].sort();
  return Object.fromEntries(
    names.map((name) => [name, meanOf(lines.flatMap(({ tasks }) => tasks[name]?.reward ?? []))!]),
  );
}

/** Mean over tasks of an evaluation's success; null where no task could be played. */
export function heldOutOf({ evaluation = [] }: Pick<RunStep, "evaluation">): number | null {
  return meanOf(evaluation.flatMap(({ success }) => success ?? []));
}

export function meanOf(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The last steps, of each its newest line. */
function lastSteps(folder: string, count: number): RunStep[] {
  // A step that was evaluated has two lines.
  return stepsOf(lastMetrics(folder, 2 * count)).slice(-count);
}

/** Looks back as far as evaluations may be apart. */
function newestEvaluation(folder: string): number | null {
  const every = Number((readConfig(folder).evaluation as { every?: number } | undefined)?.every ?? 0);
  if (every === 0) return null;
  const evaluated = lastMetrics(folder, 2 * every + 2).findLast(({ evaluation }) => evaluation !== undefined);
  return evaluated === undefined ? null : heldOutOf(evaluated);
}

/** Lines as they are in the file. */
function lastMetrics(folder: string, count: number): RunStep[] {
  const file = join(folder, "metrics.jsonl");
  return parseMetrics<RunStep>(lastLines(file, count), `${file}, its last lines`);
}

function isRun(folder: string): boolean {
  return existsSync(join(folder, "metrics.jsonl")) && existsSync(join(folder, "checkpoints"));
}
