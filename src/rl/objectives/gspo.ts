/**
 * Group Sequence Policy Optimization (Zheng et al. 2025, arXiv 2507.18071): one ratio a trajectory, the geometric mean
 * of its tokens', clipped as a whole. With |y| the trajectory's scored tokens,
 *
 *     s = exp( (1/|y|) Σ_t [log π_t - log π_prox,t] )
 *     f = min(s A, clip(s, 1 - clipLow, 1 + clipHigh) A)                            (Eqs. 5 and 7)
 *
 * `level: "sequence"` is GSPO: the gradient goes through s, to every token of the trajectory alike, so per-token
 * advantages count by their weighted mean. `level: "token"` is the paper's GSPO-token (Eqs. 13 and 14): the same values,
 * with s's gradient taken through each token's own π_t / sg[π_t], so that per-token advantages stay with their tokens.
 * For one advantage and one share a trajectory the two are the same.
 */
import type { Objective } from "./objective.ts";
import { constant, requireClip, requireOption } from "./options.ts";

export interface GspoOptions {
  /** s counts down to 1 - clipLow; default 3e-4 (§5.1). */
  clipLow?: number;
  /** s counts up to 1 + clipHigh; default 4e-4 (§5.1). */
  clipHigh?: number;
  /** Default "sequence". */
  level?: "sequence" | "token";
}

const defaults = { clipLow: 3e-4, clipHigh: 4e-4, level: "sequence" } as const;

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function gspo(options: GspoOptions = {}): Objective {
  const { clipLow, clipHigh, level } = { ...defaults, ...options };
  requireClip("gspo", clipLow, clipHigh);
  requireOption(level === "sequence" || level === "token", "gspo.level", level, '"sequence" or "token"');

  return ({ logProbs, proximal, keptMass, advantages, scales, weights, offsets }) => {
    const dLogProbs = new Float32Array(logProbs.length);
    let loss = 0;
    let clipped = 0;
    for (let s = 0; s + 1 < offsets.length; s++) {
      const start = offsets[s]!;
      const end = offsets[s + 1]!;
      let logRatio = 0;
      for (let t = start; t < end; t++) logRatio += logProbs[t]! - proximal[t]!;
      const ratio = Math.exp(logRatio / (end - start));
      const bounded = Math.min(Math.max(ratio, 1 - clipLow), 1 + clipHigh);
      // dLoss/dlog s, the sum of the tokens' parts.
      let slopes = 0;
      for (let t = start; t < end; t++) {
        const advantage = advantages[t]!;
        const weight = scales[t]! * keptMass[t]! * weights[t]!;
        loss -= weight * Math.min(ratio * advantage, bounded * advantage);
        if (bounded * advantage < ratio * advantage) {
          clipped++;
          continue;
        }
        const slope = -weight * ratio * advantage;
        slopes += slope;
        if (level === "token") dLogProbs[t] = slope;
      }
      if (level === "sequence") dLogProbs.fill(slopes / (end - start), start, end);
    }
    return { loss, dLogProbs, clipped };
  };
}

export function formula(options: GspoOptions = {}): string {
  const { clipLow, clipHigh, level } = { ...defaults, ...options };
  const through = level === "token" ? ", gradient through each token's own π_t" : "";
  return `min(s A, clip(s, ${constant(1 - clipLow)}, ${constant(1 + clipHigh)}) A), s = exp(mean_t log ρ_t) of t's trajectory${through}`;
}
