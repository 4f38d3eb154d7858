/**
 * GRPO's group-relative advantage (Shao et al. 2024, arXiv 2402.03300, §4.1.2):
 *
 *     A_i = (r_i − mean(r)) / (std(r) + ε)        over the samples i of one group, ε = 1e-6,
 *
 * with the population standard deviation. By default `normalizeStd` is on; without it the division is left out. A group
 * of equal rewards teaches nothing: its advantages are exactly 0, not 0/ε.
 */
import { type Estimator, perSample, requirePeers } from "./estimator.ts";

export interface GrpoOptions {
  /** Divide by the group's standard deviation. */
  normalizeStd?: boolean;
}

export function grpo({ normalizeStd = true }: GrpoOptions = {}): Estimator {
  return perSample((rewards) => {
    requirePeers("GRPO", rewards.length);
    return groupAdvantages(rewards, normalizeStd);
  });
}

export function formula({ normalizeStd = true }: GrpoOptions = {}): string {
  return normalizeStd ? "A    = (r - mean_group(r)) / (std_group(r) + 1e-6)" : "A    = r - mean_group(r)";
}

/** [n] advantages of the samples of one group among each other. */
export function groupAdvantages(rewards: readonly number[], normalizeStd: boolean): number[] {
  const n = rewards.length;
  if (n === 0) return [];
  const first = rewards[0]!;
  if (rewards.every((reward) => reward === first)) return rewards.map(() => 0);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / n;
  if (!normalizeStd) return rewards.map((reward) => reward - mean);
  const std = Math.sqrt(rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / n);
  return rewards.map((reward) => (reward - mean) / (std + 1e-6));
}
