/**
 * REINFORCE leave-one-out (Kool et al. 2019; for language models Ahmadian et al. 2024, arXiv 2402.14740, §3.1): the
 * baseline of a sample is the mean of the group's other samples, which does not depend on the sample itself and so leaves
 * the gradient unbiased:
 *
 *     A_i = r_i − Σ_{j≠i} r_j / (n − 1)  =  n / (n − 1) · (r_i − mean(r))        over the n samples of one group.
 */
import { type Estimator, perSample, requirePeers } from "./estimator.ts";
import { groupAdvantages } from "./grpo.ts";

export function rloo(): Estimator {
  return perSample((rewards) => {
    const n = rewards.length;
    requirePeers("RLOO", n);
    return groupAdvantages(rewards, false).map((advantage) => (advantage * n) / (n - 1));
  });
}

export function formula(): string {
  return "A    = r - mean_others(r): the mean over the other samples of the group";
}
