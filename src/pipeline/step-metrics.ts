/** What one optimizer step reports: a line of metrics.jsonl. */
import type { EndReason } from "../env/environment.ts";

export interface TaskMetrics {
  episodes: number;
  /** Mean environment reward, before any penalty. */
  reward: number;
  /** Share of episodes with the full reward. */
  success: number;
  sampledTokens: number;
  /** Share of the step's sampled tokens, and of its gradient: |g_k| / Σ_j |g_j|, g_k the gradient of this task's tokens. */
  tokenShare: number;
  gradientShare: number;
  /** Versions by which the current policy's tokens were older than the weights they trained. */
  meanLag: number;
  maxLag: number;
  /** How many of the current policy's sampled tokens were older by how many versions: {"0": 120, "2": 31}. */
  lagTokens: Record<string, number>;
  turns: number;
  /** Of the current policy's turns. */
  parseFailureRate: number;
  /** In a run with a pool: share of the tokens of turns that each policy wrote, and how much of its tokens is trained. */
  policyShare?: Record<string, number>;
  policyTrained?: Record<string, number>;
  endReasons: Partial<Record<EndReason, number>>;
}

export interface StepMetrics {
  step: number;
  /** Weight version after the step. */
  version: number;
  tasks: Record<string, TaskMetrics>;
  reward: number;
  loss: number;
  /** Mean over the trained tokens, nats. */
  entropy: number;
  /** Mean importance ratio; 1 on policy. */
  ratio: number;
  /** Shares of the trained tokens that the objective clipped, and that the correction left out. */
  clipFraction: number;
  maskFraction: number;
  /**
   * Mean log π − log π_ref over the trained tokens, nats: Schulman's k1, whichever estimator the loss uses, so below 0 where
   * the sample has it so. Null without a KL penalty.
   */
  kl: number | null;
  /** ½ Σ u (V − R)², and the share of the returns' variance that the critic explains; null without a critic. */
  valueLoss: number | null;
  explainedVariance: number | null;
  gradNorm: number;
  lr: number;
  /** Sampled tokens in the batch, and those that carried gradient. */
  sampledTokens: number;
  trainedTokens: number;
  zeroVarianceGroups: number;
  /** Groups of equal rewards that dynamic sampling used up beside the batch; they count in the metrics of the tasks. */
  spareGroups: number;
  /** Episodes that the overlong filter masked. */
  overlongEpisodes: number;
  meanLag: number;
  maxLag: number;
  /** Largest |recorded − recomputed| log-probability over the compared tokens. 0 compared is not a 0. */
  mismatch: number | null;
  mismatchTokens: number;
  /** Checksum of the weights after the step. */
  checksum: string;
  /** Milliseconds. */
  timings: { verify: number; train: number; step: number };
}
