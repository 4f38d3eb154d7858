/**
 * A sampled token's share of the batch, over the M trajectories that count and have sampled tokens, |o_i| each, of tasks
 * with loss weights c:
 *
 *     trajectory (GRPO, arXiv 2402.03300, Eq. 3):   w = c_i / (|o_i| Σ_j c_j)      without weights 1 / (M |o_i|)
 *     token (DAPO, arXiv 2503.14476, Eq. 8):        w = c_i / Σ_j c_j |o_j|        without weights 1 / Σ_j |o_j|
 *     constant (Dr.GRPO, arXiv 2503.20783, App. G): w = c_i / (L Σ_j c_j)          without weights 1 / (M L)
 *
 * with L the longest that an episode may be. The first two sum to 1: whatever the weights, the size of the loss is the same.
 * With `token` a long trajectory weighs more than a short one: where failures are longer than successes, as in tool use, what
 * they have in common (the format of a call) is pushed down on balance. `constant` favours no length within a group and does
 * not depend on what else is in the batch, but its gradient is as small as episodes are short of L.
 */
import { sampledCount } from "./batch.ts";
import type { Trajectory } from "./trajectory.ts";

export type LossMean = "trajectory" | "token" | "constant";

/** @param longest L. @param weightOf c; default 1 for all. */
export function tokenScales(
  counted: readonly Trajectory[],
  mean: LossMean,
  longest: number,
  weightOf: (trajectory: Trajectory) => number = () => 1,
): Map<Trajectory, number> {
  const lengths = counted.map(sampledCount);
  const weights = counted.map(weightOf);
  // An episode whose turns were all taken by others, whose tokens are not trained, has nothing to count.
  const all = weights.reduce(
    (sum, weight, i) => sum + weight * (mean === "token" ? lengths[i]! : Math.min(lengths[i]!, 1)),
    0,
  );
  const over = (length: number) => ({ trajectory: length, token: 1, constant: longest })[mean];
  return new Map(
    counted.map((trajectory, i) => {
      const length = lengths[i]!;
      return [trajectory, length === 0 ? 0 : weights[i]! / (all * over(length))];
    }),
  );
}
