/**
 * A sampled token's share of the batch, over the M trajectories that carry gradient, |o_i| sampled tokens each:
 *
 *     trajectory (GRPO, arXiv 2402.03300, Eq. 3):   w = 1 / (M |o_i|)
 *     token (DAPO, arXiv 2503.14476, Eq. 8):        w = 1 / Σ_i |o_i|
 *     constant (Dr.GRPO, arXiv 2503.20783, App. G): w = 1 / (M L), L the longest that an episode may be
 *
 * The first two sum to 1. With `token` a long trajectory weighs more than a short one: where failures are longer than
 * successes, as in tool use, what they have in common (the format of a call) is pushed down on balance. `constant` favours
 * no length within a group and does not depend on what else is in the batch, but its gradient is as small as episodes are
 * short of L.
 */
import { sampledCount } from "./batch.ts";
import type { Trajectory } from "./trajectory.ts";

export type LossMean = "trajectory" | "token" | "constant";

/** @param longest L, tokens; read under `constant` alone. */
export function tokenScales(active: readonly Trajectory[], mean: LossMean, longest: number): Map<Trajectory, number> {
  const counts = active.map(sampledCount);
  const tokens = counts.reduce((sum, count) => sum + count, 0);
  const share = (count: number) => {
    if (count === 0) return 0;
    if (mean === "token") return 1 / tokens;
    return 1 / (active.length * (mean === "trajectory" ? count : longest));
  };
  return new Map(active.map((trajectory, i) => [trajectory, share(counts[i]!)]));
}
