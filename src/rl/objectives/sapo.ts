/**
 * Soft Adaptive Policy Optimization (Gao et al. 2025, arXiv 2511.20347): a sigmoid gate in place of the
 * clip, of another temperature where the advantage is negative:
 *
 *     f = (4/τ) σ(τ (ρ - 1)) A,        τ = tauPos where A > 0, tauNeg elsewhere
 *
 * Its slope in log π is 4 σ (1 - σ) ρ A, with no corner anywhere: 1 · A on policy, where the gradient is therefore the
 * plain policy gradient, and fading with the distance from it. The loss carries a constant: on policy f is (2/τ) A.
 */
import type { Objective } from "./objective.ts";
import { constant, requireOption } from "./options.ts";

export interface SapoOptions {
  /** Default 1 (the paper's). */
  tauPos?: number;
  /** Default 1.05 (the paper's): what went badly fades sooner, since its gradient raises every other token. */
  tauNeg?: number;
}

const defaults = { tauPos: 1, tauNeg: 1.05 };

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function sapo(options: SapoOptions = {}): Objective {
  const { tauPos, tauNeg } = { ...defaults, ...options };
  requireOption(tauPos > 0, "sapo.tauPos", tauPos, "more than 0");
  requireOption(tauNeg > 0, "sapo.tauNeg", tauNeg, "more than 0");

  return ({ logProbs, proximal, keptMass, advantages, scales, weights }) => {
    const n = logProbs.length;
    const dLogProbs = new Float32Array(n);
    let loss = 0;
    for (let t = 0; t < n; t++) {
      const advantage = advantages[t]!;
      const tau = advantage > 0 ? tauPos : tauNeg;
      const ratio = Math.exp(logProbs[t]! - proximal[t]!);
      // 1 - σ(x) is σ(-x): computed so, it keeps its digits where the gate is closed.
      const gate = sigmoid(tau * (ratio - 1));
      const rest = sigmoid(-tau * (ratio - 1));
      const weight = scales[t]! * keptMass[t]! * weights[t]!;
      loss -= weight * (4 / tau) * gate * advantage;
      dLogProbs[t] = -weight * 4 * gate * rest * ratio * advantage;
    }
    return { loss, dLogProbs, clipped: 0 };
  };
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

export function formula(options: SapoOptions = {}): string {
  const { tauPos, tauNeg } = { ...defaults, ...options };
  return `4/τ σ(τ (ρ_t - 1)) A, τ = ${constant(tauPos)} where A > 0, else ${constant(tauNeg)}`;
}
