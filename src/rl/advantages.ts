/**
 * GRPO's group-relative advantage (Shao et al. 2024, arXiv 2402.03300, §4.1.2):
 *
 *     A_i = (r_i − mean(r)) / (std(r) + ε)        over the samples i of one group, ε = 1e-6,
 *
 * with the population standard deviation. Without `normalizeStd` the division is left out (Dr. GRPO, Liu et al. 2025,
 * arXiv 2503.20783). A group of equal rewards teaches nothing: its advantages are exactly 0, not 0/ε.
 */
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
