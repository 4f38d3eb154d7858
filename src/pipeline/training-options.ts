/** What the config's training options come to in the model's terms. */
import type { OptimizerConfig } from "../config/sections.ts";
import type { TrainConfig } from "../config/train.ts";
import type { TrainLimits } from "../model/packed-batch.ts";
import type { Schedule } from "../model/schedule.ts";

/**
 * Rows of a training pass: a micro-batch, or one whole episode where that is longer. The samples of a group share the
 * rows of their prompt, which typically is well over half of an episode: three times as many attention rows then fill
 * the rows.
 */
export function passSize(config: TrainConfig): Required<TrainLimits> {
  const { microBatchTokens, recompute } = config.learner;
  const maxRows = Math.max(microBatchTokens, config.rollout.contextLimit);
  return { maxRows, maxScored: maxRows, maxSpread: 3 * maxRows, loraRank: loraRankOf(config), recompute };
}

/** 0 without adapters. */
export function loraRankOf(config: Pick<TrainConfig, "lora">): number {
  return config.lora?.rank ?? 0;
}

export function scheduleOf(optimizer: OptimizerConfig, totalSteps: number): Schedule {
  const { schedule: kind, lr, warmupSteps, minLrRatio: finalShare } = optimizer;
  return { kind, lr, warmupSteps, totalSteps, finalShare };
}
