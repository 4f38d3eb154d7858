/**
 * Divergence Proximal Policy Optimization (Qi et al. 2026, arXiv 2602.04879): the trust region is a bound on the
 * divergence of the two policies, not on the sampled token's ratio, which is loose where the token is likely and tight
 * where it is rare. With D the divergence of "this token or another" (the paper's binary approximation),
 *
 *     f = M sg[ min(ρ, cap) ] A log π
 *     M = 0 where A > 0, π > π_prox, D > thresholdHigh   or   A < 0, π < π_prox, D > thresholdLow;   else 1
 *     D = |π - π_prox|                                            divergence: "tv"
 *     D = KL( Bernoulli(π_prox) ‖ Bernoulli(π) )                  divergence: "kl"
 *
 * as in the authors' implementation (the cap on the weight is their §5.4). The paper takes the policy that sampled for
 * π_prox, which is so here when no correction decouples the two.
 */
import type { Objective } from "./objective.ts";
import { constant, requireOption } from "./options.ts";

export interface DppoOptions {
  /** Default "tv". */
  divergence?: "tv" | "kl";
  /** Bound on a token made less likely; default 0.15 with "tv", 0.05 with "kl" (the authors' example). */
  thresholdLow?: number;
  /** Bound on a token made more likely; the same default. */
  thresholdHigh?: number;
  /** Bound of the importance weight; default 20. */
  cap?: number;
}

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function dppo(options: DppoOptions = {}): Objective {
  const { divergence, thresholdLow, thresholdHigh, cap } = withDefaults(options);
  requireOption(divergence === "tv" || divergence === "kl", "dppo.divergence", divergence, '"tv" or "kl"');
  requireOption(thresholdLow >= 0, "dppo.thresholdLow", thresholdLow, "0 or more");
  requireOption(thresholdHigh >= 0, "dppo.thresholdHigh", thresholdHigh, "0 or more");
  requireOption(cap > 0, "dppo.cap", cap, "more than 0");
  const distance = divergence === "tv" ? binaryTv : binaryKl;

  return ({ logProbs, proximal, keptMass, advantages, scales, weights }) => {
    const n = logProbs.length;
    const dLogProbs = new Float32Array(n);
    let loss = 0;
    let clipped = 0;
    for (let t = 0; t < n; t++) {
      const advantage = advantages[t]!;
      const logRatio = logProbs[t]! - proximal[t]!;
      const away = advantage > 0 ? logRatio > 0 : advantage < 0 && logRatio < 0;
      if (away && distance(logProbs[t]!, proximal[t]!) > (advantage > 0 ? thresholdHigh : thresholdLow)) {
        clipped++;
        continue;
      }
      const slope = -scales[t]! * keptMass[t]! * weights[t]! * Math.min(Math.exp(logRatio), cap) * advantage;
      loss += slope * logProbs[t]!;
      dLogProbs[t] = slope;
    }
    return { loss, dLogProbs, clipped };
  };
}

function binaryTv(logProb: number, proximal: number): number {
  return Math.abs(Math.exp(logProb) - Math.exp(proximal));
}

/** Infinite where one of the two is certain and the other is not. */
function binaryKl(logProb: number, proximal: number): number {
  const rest = restOf(proximal);
  const other = rest === 0 ? 0 : rest * (Math.log(rest) - Math.log(restOf(logProb)));
  return Math.exp(proximal) * (proximal - logProb) + other;
}

/** 1 - exp(x), also where x is a rounding error above 0. */
function restOf(logProb: number): number {
  return Math.max(-Math.expm1(logProb), 0);
}

function withDefaults(options: DppoOptions): Required<DppoOptions> {
  const threshold = options.divergence === "kl" ? 0.05 : 0.15;
  return { divergence: "tv", thresholdLow: threshold, thresholdHigh: threshold, cap: 20, ...options };
}

export function formula(options: DppoOptions = {}): string {
  const { divergence, thresholdLow, thresholdHigh, cap } = withDefaults(options);
  const distance = divergence === "tv" ? "|π - q|" : "KL(q ‖ π) of t or not t";
  const [up, down] = [constant(thresholdHigh), constant(thresholdLow)];
  return `M_t sg[min(ρ_t, ${constant(cap)})] A log π(t), M_t = 0 where A > 0, ρ_t > 1, D > ${up} or A < 0, ρ_t < 1, D > ${down}; D = ${distance}, q = π(t) / ρ_t`;
}
