/**
 * The entropy bonus (Mnih et al. 2016, arXiv 1602.01783, §4): exploration is paid for,
 *
 *     loss -= coefficient Σ_t w_t H_t
 *
 * with H the entropy of the whole next-token distribution in nats, exact, so no importance weight applies to it.
 */
import type { Penalty } from "./objective.ts";
import { constant, requireOption } from "./options.ts";

export interface EntropyOptions {
  /** 0 or more. */
  coefficient: number;
}

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function entropy({ coefficient }: EntropyOptions): Penalty {
  requireOption(coefficient >= 0, "entropy.coefficient", coefficient, "0 or more");

  return ({ entropies, scales }, { dEntropies }) => {
    let loss = 0;
    for (let t = 0; t < entropies.length; t++) {
      const weight = scales[t]! * coefficient;
      loss -= weight * entropies[t]!;
      dEntropies[t]! -= weight;
    }
    return loss;
  };
}

/** What is added to the bracket that is maximised. */
export function formula({ coefficient }: EntropyOptions): string {
  return `${constant(coefficient)} H_t`;
}
