/**
 * Clipped importance-sampling-weight policy optimization (MiniMax-M1, 2025, arXiv 2506.13585, Eqs. 4 and 5):
 *
 *     f = sg[ clip(ρ, 1 - clipLow, 1 + clipHigh) ] A log π
 *
 * sg holds its argument constant for the gradient. The clip bounds a token's weight and never takes its gradient away,
 * as PPO's does. On policy the gradient is the plain policy gradient; the loss is A log π, not A.
 */
import type { Objective } from "./objective.ts";
import { constant, requireClip } from "./options.ts";

export interface CispoOptions {
  /** The weight is at least 1 - clipLow; default 1, no lower bound, as in the paper's experiments. */
  clipLow?: number;
  /** The weight is at most 1 + clipHigh; default 4, the bound of 5 that TRL advises after ScaleRL (arXiv 2510.13786). */
  clipHigh?: number;
}

const defaults = { clipLow: 1, clipHigh: 4 };

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function cispo(options: CispoOptions = {}): Objective {
  const { clipLow, clipHigh } = { ...defaults, ...options };
  requireClip("cispo", clipLow, clipHigh);

  return ({ logProbs, proximal, keptMass, advantages, scales, weights }) => {
    const n = logProbs.length;
    const dLogProbs = new Float32Array(n);
    let loss = 0;
    let clipped = 0;
    for (let t = 0; t < n; t++) {
      const ratio = Math.exp(logProbs[t]! - proximal[t]!);
      const bounded = Math.min(Math.max(ratio, 1 - clipLow), 1 + clipHigh);
      const slope = -scales[t]! * keptMass[t]! * weights[t]! * bounded * advantages[t]!;
      loss += slope * logProbs[t]!;
      dLogProbs[t] = slope;
      if (bounded !== ratio && advantages[t] !== 0) clipped++;
    }
    return { loss, dLogProbs, clipped };
  };
}

export function formula(options: CispoOptions = {}): string {
  const { clipLow, clipHigh } = { ...defaults, ...options };
  return `sg[clip(ρ_t, ${constant(1 - clipLow)}, ${constant(1 + clipHigh)})] A log π(t)`;
}
