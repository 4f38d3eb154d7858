/**
 * The KL divergence to a frozen reference policy, as a term of the loss, by one of Schulman's estimators ("Approximating
 * KL divergence", 2020, joschu.net/blog/kl-approx.html). With d = log π - log π_ref of the sampled token,
 *
 *     loss += coefficient Σ_t w_t κ_t c_t k(d)
 *     k1 = d                    slope 1
 *     k2 = d² / 2               slope d
 *     k3 = exp(-d) - 1 + d      slope 1 - exp(-d)        (GRPO's, arXiv 2402.03300, Eq. 4)
 *
 * All three estimate the value. As a loss only k2 has the gradient of KL(π ‖ π_ref) in expectation: k1's is zero in
 * expectation, k3's is that of KL(π_ref ‖ π). A token weighs as in the surrogate: what the correction masks is
 * not pulled either, and an importance weight makes the estimate one under π (DeepSeek-V3.2, arXiv 2512.02556, Eq. 7).
 */
import { AgentRLError } from "../../errors.ts";
import type { Penalty } from "./objective.ts";
import { constant, requireOption } from "./options.ts";

export type KlEstimator = "k1" | "k2" | "k3";

export interface KlOptions {
  estimator: KlEstimator;
  /** β, 0 or more. */
  coefficient: number;
}

const estimators: Record<KlEstimator, { value(d: number): number; slope(d: number): number; text: string }> = {
  k1: { value: (d) => d, slope: () => 1, text: "d_t" },
  k2: { value: (d) => (d * d) / 2, slope: (d) => d, text: "d_t² / 2" },
  // expm1 keeps the digits near the reference, where k3 is the difference of two nearly equal numbers.
  k3: { value: (d) => Math.expm1(-d) + d, slope: (d) => -Math.expm1(-d), text: "(exp(-d_t) - 1 + d_t)" },
};

/** @throws AgentRLError "CONFIG" on an option out of range; the penalty throws "PIPELINE" without a reference. */
export function kl({ estimator, coefficient }: KlOptions): Penalty {
  requireOption(Object.hasOwn(estimators, estimator), "kl.estimator", estimator, '"k1", "k2" or "k3"');
  requireOption(coefficient >= 0, "kl.coefficient", coefficient, "0 or more");
  const { value, slope } = estimators[estimator];

  return ({ logProbs, reference, keptMass, scales, weights }, { dLogProbs }) => {
    if (reference === undefined) {
      throw new AgentRLError("PIPELINE", "A KL term needs the reference's log-probabilities", {
        where: "TokenBatch.reference",
      });
    }
    let loss = 0;
    for (let t = 0; t < logProbs.length; t++) {
      const d = logProbs[t]! - reference[t]!;
      const weight = coefficient * scales[t]! * keptMass[t]! * weights[t]!;
      loss += weight * value(d);
      dLogProbs[t]! += weight * slope(d);
    }
    return loss;
  };
}

/** What is added to the bracket of the loss, a cost; `distance` says what its d_t is. */
export function formula({ estimator, coefficient }: KlOptions): string {
  return `${constant(coefficient)} ${estimators[estimator].text}`;
}

export const distance = "d_t = log π(t) - log π_ref(t)";
