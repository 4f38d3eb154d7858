/**
 * A sampled token's share of the batch, over the M trajectories that carry gradient, |o_i| sampled tokens each:
 *
 *     trajectory (GRPO, arXiv 2402.03300, Eq. 3):   w = 1 / (M |o_i|)
 *     token (DAPO, arXiv 2503.14476, Eq. 8):        w = 1 / Σ_i |o_i|
 *
 * The shares sum to 1 either way. With `token` a long trajectory weighs more than a short one: where failures are longer
 * than successes, as in tool use, what they have in common (the format of a call) is pushed down on balance.
 */
import { sampledCount } from "./batch.ts";
import type { Trajectory } from "./trajectory.ts";

export type LossMean = "trajectory" | "token";

export function tokenScales(active: readonly Trajectory[], mean: LossMean): Map<Trajectory, number> {
  const counts = active.map(sampledCount);
  const tokens = counts.reduce((sum, count) => sum + count, 0);
  // An episode whose turns were all taken by an endpoint has no token that could carry gradient.
  const carrying = counts.filter((count) => count > 0).length;
  return new Map(
    active.map((trajectory, i) => [
      trajectory,
      counts[i] === 0 ? 0 : mean === "token" ? 1 / tokens : 1 / (carrying * counts[i]!),
    ]),
  );
}
