/**
 * The PPO clipped surrogate (Schulman et al. 2017, arXiv 1707.06347, Eq. 7) with the two clip ranges apart (DAPO's
 * clip-higher, Yu et al. 2025, arXiv 2503.14476, Eq. 8) and the dual clip (Ye et al. 2020, arXiv 1912.09729):
 *
 *     f = min(ρ A, clip(ρ, 1 - clipLow, 1 + clipHigh) A)
 *     f = max(that, dualClip A)                             where A < 0 and dualClip is given
 *
 * The second bounds the loss of a token that the policy now likes far better than when it was sampled, and that turned
 * out badly: without it ρ A has no lower bound.
 */
import type { Objective } from "./objective.ts";
import { constant, requireClip, requireOption } from "./options.ts";

export interface PpoOptions {
  /** The ratio counts down to 1 - clipLow; default 0.2. */
  clipLow?: number;
  /** The ratio counts up to 1 + clipHigh; default 0.28 (DAPO). */
  clipHigh?: number;
  /** c > 1, the ratio's bound where the advantage is negative; usually 3. Default none. */
  dualClip?: number;
}

const defaults = { clipLow: 0.2, clipHigh: 0.28 };

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function ppo(options: PpoOptions = {}): Objective {
  const { clipLow, clipHigh, dualClip } = { ...defaults, ...options };
  requireClip("ppo", clipLow, clipHigh);
  if (dualClip !== undefined) requireOption(dualClip > 1, "ppo.dualClip", dualClip, "more than 1");

  return ({ logProbs, proximal, keptMass, advantages, scales, weights }) => {
    const n = logProbs.length;
    const dLogProbs = new Float32Array(n);
    let loss = 0;
    let clipped = 0;
    for (let t = 0; t < n; t++) {
      const advantage = advantages[t]!;
      const ratio = Math.exp(logProbs[t]! - proximal[t]!);
      const bounded = Math.min(Math.max(ratio, 1 - clipLow), 1 + clipHigh);
      const weight = scales[t]! * keptMass[t]! * weights[t]!;
      let surrogate = Math.min(ratio * advantage, bounded * advantage);
      // The minimum takes the clipped branch exactly when the clip makes the surrogate smaller; its gradient is 0.
      let isClipped = bounded * advantage < ratio * advantage;
      if (dualClip !== undefined && advantage < 0 && dualClip * advantage > surrogate) {
        surrogate = dualClip * advantage;
        isClipped = true;
      }
      loss -= weight * surrogate;
      if (isClipped) clipped++;
      else dLogProbs[t] = -weight * ratio * advantage;
    }
    return { loss, dLogProbs, clipped };
  };
}

export function formula(options: PpoOptions = {}): string {
  const { clipLow, clipHigh, dualClip } = { ...defaults, ...options };
  const clip = `min(ρ_t A, clip(ρ_t, ${constant(1 - clipLow)}, ${constant(1 + clipHigh)}) A)`;
  return dualClip === undefined ? clip : `${clip}, at least ${constant(dualClip)} A where A < 0`;
}
