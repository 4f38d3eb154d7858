/** Two runs side by side: what was configured otherwise, and what came of it. */
import { join } from "node:path";
import type { RunStep } from "../../pipeline/run-log.ts";
import { readMetrics } from "../metrics.ts";
import { heldOutOf, meanOf, readConfig, taskRewards, windowSteps } from "./overview.ts";

export interface RunComparison {
  /** Keys of the config that differ, as dotted paths; undefined: absent. */
  config: { key: string; a: unknown; b: unknown }[];
  /** Mean reward over the `windowSteps` steps up to each of these, which both runs have done. */
  rewards: { step: number; a: number; b: number }[];
  a: RunFigures;
  b: RunFigures;
}

/** Of the last `windowSteps` steps, but for `steps`, `seconds`, `heldOut` and `faults`. */
export interface RunFigures {
  steps: number;
  reward: number | null;
  tasks: Record<string, number>;
  /** Newest evaluation, mean over its tasks. */
  heldOut: number | null;
  entropy: number | null;
  maxLag: number;
  /** Over the whole run; null where nothing was compared. */
  mismatch: number | null;
  tokensPerSecond: number | null;
  /** All that was put right, over the whole run. */
  faults: number;
}

/** Rows of the table of rewards, at most. */
const mostRows = 10;

export function compareRuns(a: string, b: string): RunComparison {
  const [stepsA, stepsB] = [a, b].map((run) => readMetrics<RunStep>(join(run, "metrics.jsonl")));
  const common = Math.min(stepsA!.at(-1)?.step ?? 0, stepsB!.at(-1)?.step ?? 0);
  const rows = Math.min(mostRows, common);
  const rewards = Array.from({ length: rows }, (_, i) => Math.round(((i + 1) * common) / rows)).flatMap((step) => {
    const [rewardA, rewardB] = [stepsA!, stepsB!].map((steps) => meanOf(upTo(steps, step).map(({ reward }) => reward)));
    return rewardA == null || rewardB == null ? [] : [{ step, a: rewardA, b: rewardB }];
  });
  return { config: differences(readConfig(a), readConfig(b)), rewards, a: figuresOf(stepsA!), b: figuresOf(stepsB!) };
}

function figuresOf(steps: readonly RunStep[]): RunFigures {
  const last = steps.slice(-windowSteps);
  const evaluated = steps.findLast(({ evaluation }) => evaluation !== undefined);
  const compared = steps.filter(({ mismatchTokens }) => mismatchTokens > 0);
  return {
    steps: steps.at(-1)?.step ?? 0,
    reward: meanOf(last.map(({ reward }) => reward)),
    tasks: taskRewards(last),
    heldOut: evaluated === undefined ? null : heldOutOf(evaluated),
    entropy: meanOf(last.map(({ entropy }) => entropy)),
    maxLag: Math.max(0, ...last.map(({ maxLag }) => maxLag)),
    mismatch: compared.length === 0 ? null : compared.reduce((most, one) => Math.max(most, Number(one.mismatch)), 0),
    tokensPerSecond: meanOf(last.map(({ tokensPerSecond }) => tokensPerSecond)),
    faults: Object.values(steps.at(-1)?.faults ?? {}).reduce((sum, count) => sum + count, 0),
  };
}

function upTo(steps: readonly RunStep[], step: number): RunStep[] {
  return steps.filter((line) => line.step > step - windowSteps && line.step <= step);
}

function differences(a: unknown, b: unknown): RunComparison["config"] {
  const [flatA, flatB] = [flatten(a), flatten(b)];
  return [...new Set([...flatA.keys(), ...flatB.keys()])]
    .filter((key) => JSON.stringify(flatA.get(key)) !== JSON.stringify(flatB.get(key)))
    .map((key) => ({ key, a: flatA.get(key), b: flatB.get(key) }));
}

/** Leaves by dotted path; an empty list or section is one. */
function flatten(value: unknown, path = "", into = new Map<string, unknown>()): Map<string, unknown> {
  const entries = typeof value === "object" && value !== null ? Object.entries(value) : [];
  if (entries.length === 0) into.set(path, value);
  for (const [key, item] of entries) flatten(item, path === "" ? key : `${path}.${key}`, into);
  return into;
}
