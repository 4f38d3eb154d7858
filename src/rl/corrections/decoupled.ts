/**
 * Decoupled PPO (Hilton et al. 2021, arXiv 2110.00641; AReaL, Fu et al. 2025, arXiv 2505.24298, Eq. 5): the objective is
 * clipped around the proximal policy, and the importance weight leads from the behaviour policy to that one:
 *
 *     c = π_prox / μ,        0 where that exceeds the cap
 *
 * Reads the ratio of the proximal policy. Leaving tokens above the cap out, rather than truncating them, is
 * AReaL's choice.
 */
import { constant, requireOption } from "../objectives/options.ts";
import { type Correction, perToken, type RatioOf } from "./correction.ts";

export interface DecoupledOptions {
  /** Tokens of a larger weight are left out; default none (AReaL's examples use 5). */
  cap?: number;
}

export const ratioOf: RatioOf = "proximal";

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function decoupled({ cap = Number.POSITIVE_INFINITY }: DecoupledOptions = {}): Correction {
  requireOption(cap > 0, "decoupled.cap", cap, "more than 0");
  return ({ proximal, behaviour }) =>
    perToken(proximal, behaviour, (logRatio) => {
      const weight = Math.exp(logRatio);
      return weight > cap ? 0 : weight;
    });
}

export function formula({ cap }: DecoupledOptions = {}): string {
  const weight = "π_prox(t) / μ(t)";
  return cap === undefined ? weight : `${weight}, 0 above ${constant(cap)}`;
}
