/**
 * Masks whole trajectories by their ratio (Liu, Li et al. 2025, "When Speed Kills Stability", richardli.xyz/rl-collapse,
 * part 3; the rejection of verl's `seq_sum_k1`):
 *
 *     c = 1 where low ≤ Π_t π_t / μ_t ≤ high, else 0
 *
 * Reads the ratio of the current policy, over the trajectory's scored tokens. The product moves away from 1 with length,
 * so long trajectories go first; `geometric-mask.ts` does not have this bias.
 */
import { constant, requireBand } from "../objectives/options.ts";
import { type Correction, perSequence, type RatioOf } from "./correction.ts";

export interface SequenceMaskOptions {
  /** Default 0.5. */
  low?: number;
  /** Default 2. */
  high?: number;
}

const defaults = { low: 0.5, high: 2 };

export const ratioOf: RatioOf = "current";

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function sequenceMask(options: SequenceMaskOptions = {}): Correction {
  const { low, high } = { ...defaults, ...options };
  requireBand("sequenceMask", low, high);
  // Compared as logarithms: the product may leave the range of a double.
  const [from, to] = [Math.log(low), Math.log(high)];
  return ({ logProbs, behaviour, offsets }) =>
    perSequence(logProbs, behaviour, offsets, (logRatio) => (logRatio >= from && logRatio <= to ? 1 : 0));
}

export function formula(options: SequenceMaskOptions = {}): string {
  const { low, high } = { ...defaults, ...options };
  return `1 where Π_t π(t) / μ(t) of t's trajectory is from ${constant(low)} to ${constant(high)}, else 0`;
}
