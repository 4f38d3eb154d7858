/**
 * IcePop (Ling Team 2025, "Every Step Evolves", arXiv 2510.18855): the importance weight inside a band, and nothing of
 * the token outside it, on either side:
 *
 *     c = ρ where low ≤ ρ ≤ high, else 0,        ρ = π_prox / μ
 *
 * Reads the ratio of the proximal policy.
 */
import { constant, requireBand } from "../objectives/options.ts";
import { type Correction, perToken, type RatioOf } from "./correction.ts";

export interface IcePopOptions {
  /** α; default 0.5. */
  low?: number;
  /** β; default 5. */
  high?: number;
}

const defaults = { low: 0.5, high: 5 };

export const ratioOf: RatioOf = "proximal";

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function icepop(options: IcePopOptions = {}): Correction {
  const { low, high } = { ...defaults, ...options };
  requireBand("icepop", low, high);
  return ({ proximal, behaviour }) =>
    perToken(proximal, behaviour, (logRatio) => {
      const ratio = Math.exp(logRatio);
      return ratio >= low && ratio <= high ? ratio : 0;
    });
}

export function formula(options: IcePopOptions = {}): string {
  const { low, high } = { ...defaults, ...options };
  return `π_prox(t) / μ(t) from ${constant(low)} to ${constant(high)}, else 0`;
}
