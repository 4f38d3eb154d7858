/**
 * Group-in-group policy optimisation (Feng et al. 2025, arXiv 2505.10978): besides whole episodes it compares turns that
 * answered the same state, which the samples of a group, starting alike, often reach again.
 *
 *     A_t   = A^E_i + ω A^S_{i,k}                                   every sampled token t of turn k of sample i (Eq. 8)
 *     A^E_i = (r_i − mean_group(r)) / (std_group(r) + ε)            ε = 1e-6 (Eq. 3)
 *     A^S_k = (R_k − mean_anchor(R)) / (std_anchor(R) + ε)          over the turns with k's anchor state (Eq. 6, 7)
 *     R_k   = Σ_{j≥k} γ^{j−k} r_j                                   r_j: reward of turn j (Eq. 5)
 *
 * with population standard deviations, or without the divisions (`normalizeStd: false`, the paper's F_norm = 1). A turn's
 * anchor state is what the policy was shown before it: the tokens from the last turn's end to its own start, the prompt
 * for the first. They must be equal token by token. A state visited once has A^S = 0, and so have returns that are all
 * equal. A group of equal rewards may still tell its turns apart, since the discount favours the shorter way.
 *
 * Defaults are the paper's: ω = 1, γ = 0.95.
 */
import { AgentRLError } from "../../errors.ts";
import { type Advantages, type Estimator, onSampled, requireFraction, requirePeers, type Sample } from "./estimator.ts";
import { groupAdvantages } from "./grpo.ts";
import { type Decision, decisions } from "./turn-rewards.ts";

export interface GigpoOptions {
  /** ω, weight of the step level. */
  omega?: number;
  /** γ, discount per turn. */
  gamma?: number;
  /** Divide by the standard deviation, on both levels. */
  normalizeStd?: boolean;
}

/** A decision of one sample, with its discounted return. */
interface Step {
  sample: number;
  decision: Decision;
  discounted: number;
}

/** @throws AgentRLError "CONFIG" for ω < 0 or γ outside [0, 1]. */
export function gigpo({ omega = 1, gamma = 0.95, normalizeStd = true }: GigpoOptions = {}): Estimator {
  requireFraction("algorithm.gamma", gamma);
  if (!(omega >= 0 && Number.isFinite(omega))) {
    throw new AgentRLError("CONFIG", "Not a weight for GiGPO's step level", {
      where: "algorithm.omega",
      got: omega,
      expected: "a finite number ≥ 0",
    });
  }
  return (groups) => {
    const advantages: Advantages = new Map();
    for (const group of groups) {
      requirePeers("GiGPO", group.length);
      const rewards = group.map((sample) => sample.reward);
      const episodes = groupAdvantages(rewards, normalizeStd);
      const outs = group.map(({ trajectory }, i) => onSampled(trajectory, episodes[i]!));
      for (const steps of anchorGroups(group, gamma)) {
        const returns = steps.map((step) => step.discounted);
        for (const [j, level] of groupAdvantages(returns, normalizeStd).entries()) {
          const { sample, decision } = steps[j]!;
          const value = episodes[sample]! + omega * level;
          onSampled(group[sample]!.trajectory, value, decision.start, decision.end, outs[sample]!);
        }
      }
      for (const [i, { trajectory }] of group.entries()) advantages.set(trajectory, outs[i]!);
    }
    return advantages;
  };
}

export function formula({ omega = 1, gamma = 0.95, normalizeStd = true }: GigpoOptions = {}): string {
  const relative = (x: string, over: string) =>
    normalizeStd ? `(${x} - mean_${over}(${x})) / (std_${over}(${x}) + 1e-6)` : `(${x} - mean_${over}(${x}))`;
  return `A    = ${relative("r", "group")} + ${omega} ${relative("R", "anchor")}, R_k = Σ_j≥k ${gamma}^(j-k) r_j over turns`;
}

/** The group's decisions by what the policy was shown before them. */
function anchorGroups(group: readonly Sample[], gamma: number): Iterable<Step[]> {
  const anchors = new Map<string, Step[]>();
  for (const [sample, entry] of group.entries()) {
    let discounted = 0;
    for (const decision of decisions(entry).reverse()) {
      discounted = decision.reward + gamma * discounted;
      const anchor = entry.trajectory.tokens.subarray(decision.seen, decision.start).join(" ");
      const steps = anchors.get(anchor);
      if (steps === undefined) anchors.set(anchor, [{ sample, decision, discounted }]);
      else steps.push({ sample, decision, discounted });
    }
  }
  return anchors.values();
}
