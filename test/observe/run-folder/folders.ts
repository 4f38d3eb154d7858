/** Folders that look like those of runs: metrics are written here, as a run writes them. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { MetricsSink } from "../../../src/observe/metrics.ts";
import { noFaults } from "../../../src/pipeline/faults.ts";
import type { RunStep } from "../../../src/pipeline/run-log.ts";

export function runFolder(parent: string, name: string, config: object, lines: readonly RunStep[]): string {
  const folder = join(parent, name);
  mkdirSync(join(folder, "checkpoints"), { recursive: true });
  writeFileSync(join(folder, "config.yaml"), stringify(config));
  const sink = new MetricsSink(join(folder, "metrics.jsonl"));
  sink.write(...lines);
  sink.close();
  return folder;
}

/** A line of metrics with these figures. */
export function step(number: number, rewards: Record<string, number>, more: Partial<RunStep> = {}): RunStep {
  const values = Object.values(rewards);
  const tasks = Object.entries(rewards).map(([task, reward]) => [
    task,
    {
      ...{ episodes: 8, reward, success: reward, sampledTokens: 100, tokenShare: 1 / values.length },
      ...{ gradientShare: 1 / values.length, meanLag: 1, maxLag: 2, lagTokens: { "1": 90, "2": 10 }, turns: 3 },
      ...{ parseFailureRate: 0.125, endReasons: { completed: 6, "turn limit": 2 } },
    },
  ]);
  return {
    ...{ step: number, version: number, tasks: Object.fromEntries(tasks) },
    reward: values.reduce((sum, value) => sum + value, 0) / values.length,
    ...{ loss: 0.5, entropy: 1.5, ratio: 1, clipFraction: 0, maskFraction: 0, kl: null, valueLoss: null },
    ...{ explainedVariance: null, gradNorm: 0.7, lr: 0.001, sampledTokens: 200, trainedTokens: 150 },
    ...{ zeroVarianceGroups: 1, spareGroups: 0, overlongEpisodes: 0, meanLag: 1, maxLag: 2 },
    ...{ mismatch: 0, mismatchTokens: 20, checksum: "00", timings: { verify: 50, train: 400, step: 450 } },
    ...{ elapsed: number, tokensPerSecond: 200, utilisation: { learner: 0.45, engine: 0.9 } },
    ...{ samplingWeights: {}, abortedTokens: 0, droppedGroups: 0, droppedTokens: 0, weightsVerified: number },
    ...{ bufferBytes: 1000, faults: noFaults() },
    ...more,
  };
}
