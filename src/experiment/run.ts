/**
 * Runs an experiment: every arm with every seed is trained and measured on the same held-out tasks. What is finished is
 * kept in its folder, so an interrupted experiment goes on where it was.
 */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Arm, type ExperimentConfig, rowOf, setsOf } from "../config/experiment.ts";
import { loadTrainConfig } from "../config/load.ts";
import type { TrainConfig } from "../config/train.ts";
import type { EvalReport } from "../env/report.ts";
import { writeDurably, writeFully } from "../model/durable.ts";
import type { RunEvent } from "../observe/events.ts";
import { readMetrics } from "../observe/metrics.ts";
import { measureTasks } from "../pipeline/measure.ts";
import { type RunStep, runTraining } from "../pipeline/train.ts";

/** What one arm came to with one seed; the content of its `result.json`. */
export interface ArmResult {
  arm: string;
  row: string;
  seed: number;
  training: TrainingSummary | null;
  /** One per task that the arm trains on. */
  reports: EvalReport[];
}

export interface TrainingSummary {
  steps: number;
  episodes: number;
  sampledTokens: number;
  /** Seconds of training alone, the sum of the sessions of a run that was interrupted. */
  seconds: number;
  /** Mean over steps, and the largest of any step. */
  meanLag: number;
  maxLag: number;
  mismatch: number;
  mismatchTokens: number;
}

export interface ExperimentOptions {
  config: ExperimentConfig;
  /** Folder of all runs. */
  out: string;
  /** Train and measure these arms only. */
  only?: readonly string[];
  signal?: AbortSignal;
  onEvent?: (event: RunEvent) => void;
  /** Called before an arm is trained, and when its result is in. */
  onArm?: (arm: string, seed: number, result: ArmResult | null) => void;
}

/** The row of the model that training starts from. */
export const untrained = "before training";

/** @returns the results that are there: all, unless `signal` ended it. */
export async function runExperiment(options: ExperimentOptions): Promise<ArmResult[]> {
  const { config, out, only, signal, onArm } = options;
  // Every arm's config is checked before the first is trained.
  const planned = config.seeds.flatMap((seed) =>
    config.arms.map((arm) => ({
      arm,
      seed,
      loaded: loadTrainConfig(config.base, setsOf(config, arm, seed), config.folder),
    })),
  );
  const results: ArmResult[] = [];
  for (const { arm, seed, loaded } of planned) {
    const folder = join(out, arm.name, `seed-${seed}`);
    const file = join(folder, "result.json");
    if (!existsSync(file)) {
      if (only !== undefined && !only.includes(arm.name)) continue;
      onArm?.(arm.name, seed, null);
      const summary = await runTraining({
        config: loaded.config,
        yaml: loaded.yaml,
        out: folder,
        resume: existsSync(join(folder, "metrics.jsonl")),
        ...(options.onEvent && { onEvent: options.onEvent }),
        ...(signal && { signal }),
      });
      if (summary.stopped) return results;
      const reports = await measureTasks(loaded.config, summary.model, { ...config.evaluation, seed });
      write(file, { arm: arm.name, row: rowOf(arm), seed, training: trainingOf(folder), reports });
    }
    const result = JSON.parse(readFileSync(file, "utf8")) as ArmResult;
    results.push(result);
    onArm?.(arm.name, seed, result);
    if (signal?.aborted) return results;
  }
  return [...(await before(options, planned)), ...results];
}

/** The untrained model on every task of the experiment, once. */
async function before(
  { config, out }: ExperimentOptions,
  planned: readonly { arm: Arm; seed: number; loaded: { config: TrainConfig } }[],
): Promise<ArmResult[]> {
  const file = join(out, "before.json");
  if (!existsSync(file)) {
    const tasks = new Map(planned.flatMap(({ loaded }) => loaded.config.tasks.map((task) => [task.name, task])));
    const { config: base } = planned[0]!.loaded;
    const [seed] = config.seeds;
    const reports = await measureTasks({ ...base, tasks: [...tasks.values()] }, base.model.path, {
      ...config.evaluation,
      seed: seed!,
    });
    write(file, { arm: untrained, row: untrained, seed: seed!, training: null, reports });
  }
  return [JSON.parse(readFileSync(file, "utf8")) as ArmResult];
}

function trainingOf(folder: string): TrainingSummary {
  const steps = readMetrics<RunStep>(join(folder, "metrics.jsonl"));
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const episodesOf = (step: RunStep) => sum(Object.values(step.tasks).map(({ episodes }) => episodes));
  // `elapsed` begins anew with each session: the last line of every session has its length.
  const ends = steps.filter(({ elapsed }, i) => !(steps[i + 1] && steps[i + 1]!.elapsed > elapsed));
  return {
    steps: steps.length,
    episodes: sum(steps.map(episodesOf)),
    sampledTokens: sum(steps.map((step) => step.sampledTokens)),
    seconds: sum(ends.map(({ elapsed }) => elapsed)),
    meanLag: sum(steps.map((step) => step.meanLag)) / steps.length,
    maxLag: Math.max(...steps.map((step) => step.maxLag)),
    mismatch: Math.max(...steps.map((step) => step.mismatch ?? 0)),
    mismatchTokens: sum(steps.map((step) => step.mismatchTokens)),
  };
}

/** Whole or not at all. */
function write(file: string, result: ArmResult): void {
  mkdirSync(dirname(file), { recursive: true });
  const bytes = Buffer.from(`${JSON.stringify(result, null, 2)}\n`);
  writeDurably(file, (descriptor) => writeFully(descriptor, bytes));
}
