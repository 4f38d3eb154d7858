/**
 * A sampled token's share of the batch, over the M trajectories that count, |o_i| sampled tokens each, of tasks with loss
 * weights c:
 *
 *     trajectory (GRPO, arXiv 2402.03300, Eq. 3):   w = c_i / (|o_i| Σ_j c_j)      without weights 1 / (M |o_i|)
 *     token (DAPO, arXiv 2503.14476, Eq. 8):        w = c_i / Σ_j c_j |o_j|        without weights 1 / Σ_j |o_j|
 *
 * The shares sum to 1 either way, over all that count: whatever the weights, the size of the loss is the same. With `token` a
 * long trajectory weighs more than a short one: where failures are longer than successes, as in tool use, what they have in
 * common (the format of a call) is pushed down on balance.
 */
import { sampledCount } from "./batch.ts";
import type { Trajectory } from "./trajectory.ts";

export type LossMean = "trajectory" | "token";

/** @param weightOf c; default 1 for all. */
export function tokenScales(
  counted: readonly Trajectory[],
  mean: LossMean,
  weightOf: (trajectory: Trajectory) => number = () => 1,
): Map<Trajectory, number> {
  const counts = counted.map(sampledCount);
  const weights = counted.map(weightOf);
  const all = weights.reduce((sum, weight, i) => sum + weight * (mean === "token" ? counts[i]! : 1), 0);
  return new Map(
    counted.map((trajectory, i) => [
      trajectory,
      counts[i] === 0 ? 0 : weights[i]! / (mean === "token" ? all : all * counts[i]!),
    ]),
  );
}
