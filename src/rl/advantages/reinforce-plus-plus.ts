/**
 * REINFORCE++ (Hu et al. 2025, arXiv 2501.03262): the scale comes from the whole batch instead of from one small group,
 * whose standard deviation is correlated with its own rewards.
 *
 *     A_t = (r_i − μ) / (σ + ε)                        every sampled token t of sample i, ε = 1e-8
 *     A_t = (r_i − mean_group(r) − μ) / (σ + ε)        with `baseline: "group"` (its form for reasoning and agents)
 *
 * μ, σ: mean and population standard deviation of the numerator's first part over all sampled tokens of the batch. The
 * discount is 1, and the KL term that the paper takes off the reward is a term of the loss here (src/rl/objectives).
 *
 * Without a baseline a group may have a single sample, and a group of equal rewards still compares with the batch. With
 * the group's mean taken off, such a group says nothing: it stays at 0 and out of μ and σ. `paper: true` counts it as
 * the paper does, and it gets −μ/σ.
 */
import { AgentRLError } from "../../errors.ts";
import { type Estimator, perSample, requirePeers } from "./estimator.ts";
import { groupAdvantages } from "./grpo.ts";
import { normalizeTokens } from "./token-normalization.ts";

export interface ReinforcePlusPlusOptions {
  /** What is taken off the reward before the batch is normalised: default nothing. */
  baseline?: "none" | "group";
  /** Count groups of equal rewards under `baseline: "group"`, as the paper does; default no. */
  paper?: boolean;
}

const epsilon = 1e-8;

/** @throws AgentRLError "CONFIG" when `paper` would have no effect. */
export function reinforcePlusPlus({ baseline = "none", paper = false }: ReinforcePlusPlusOptions = {}): Estimator {
  if (baseline === "none") {
    if (paper) {
      throw new AgentRLError("CONFIG", "REINFORCE++ without a baseline counts every group as the paper does", {
        where: "algorithm.paper",
        got: true,
        expected: 'false, or baseline "group"',
      });
    }
    return (groups) => {
      // The batch's mean cancels in the normalisation; taken off in float64 it leaves large rewards their differences.
      const rewards = groups.flatMap((group) => group.map((sample) => sample.reward));
      const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(rewards.length, 1);
      const centred = perSample((group) => group.map((reward) => reward - mean))(groups);
      return normalizeTokens(groups, centred, { epsilon, silentGroups: "count" });
    };
  }
  const centred = perSample((rewards) => {
    requirePeers("REINFORCE++ with the group's mean as baseline", rewards.length);
    return groupAdvantages(rewards, false);
  });
  return (groups) => normalizeTokens(groups, centred(groups), { epsilon, silentGroups: paper ? "count" : "keep" });
}

export function formula({ baseline = "none", paper = false }: ReinforcePlusPlusOptions = {}): string {
  if (baseline === "none") return "A    = (r - mean_batch(r)) / (std_batch(r) + 1e-8), over sampled tokens";
  const over = paper ? "sampled tokens" : "sampled tokens of groups of unequal rewards, 0 in the others";
  return `A    = (a - mean_batch(a)) / (std_batch(a) + 1e-8), a = r - mean_group(r), over ${over}`;
}
