/**
 * Dr. GRPO (Liu et al. 2025, arXiv 2503.20783, §3.2): GRPO without the division by the group's standard deviation, which
 * weighs very easy and very hard tasks more than those between:
 *
 *     A_i = r_i − mean(r)        over the samples i of one group.
 *
 * Its other half, no division by a trajectory's own length, is a matter of the loss's shares: `token` in
 * src/rl/token-scales.ts.
 */
import { type Estimator, perSample, requirePeers } from "./estimator.ts";
import { groupAdvantages } from "./grpo.ts";

export function drGrpo(): Estimator {
  return perSample((rewards) => {
    requirePeers("Dr. GRPO", rewards.length);
    return groupAdvantages(rewards, false);
  });
}

export function formula(): string {
  return "A    = r - mean_group(r)";
}
