/** What the config's training options come to in the model's terms. */
import type { OptimizerConfig } from "../config/sections.ts";
import type { TrainConfig } from "../config/train.ts";
import type { Schedule } from "../model/schedule.ts";

/** Rows of a training pass: a micro-batch, or one whole episode where that is longer. */
export function passSize(config: TrainConfig): { maxRows: number; maxScored: number } {
  const maxRows = Math.max(config.learner.microBatchTokens, config.rollout.contextLimit);
  return { maxRows, maxScored: maxRows };
}

export function scheduleOf(optimizer: OptimizerConfig, totalSteps: number): Schedule {
  const { schedule: kind, lr, warmupSteps, minLrRatio: finalShare } = optimizer;
  return { kind, lr, warmupSteps, totalSteps, finalShare };
}
