/**
 * Masks whole trajectories by the geometric mean of their ratios (Liu, Li et al. 2025, "When Speed Kills Stability",
 * richardli.xyz/rl-collapse, part 3; the rejection of verl's `seq_mean_k1`):
 *
 *     c = 1 where low ≤ exp( (1/|y|) Σ_t [log π_t - log μ_t] ) ≤ high, else 0
 *
 * Reads the ratio of the current policy, over the trajectory's scored tokens; the bound is per token, whatever the
 * length.
 */
import { constant, requireBand } from "../objectives/options.ts";
import { type Correction, perSequence, type RatioOf } from "./correction.ts";

export interface GeometricMaskOptions {
  /** Default 0.999, verl's preset, made for numerical mismatch: staleness needs a wider band. */
  low?: number;
  /** Default 1.001. */
  high?: number;
}

const defaults = { low: 0.999, high: 1.001 };

export const ratioOf: RatioOf = "current";

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function geometricMask(options: GeometricMaskOptions = {}): Correction {
  const { low, high } = { ...defaults, ...options };
  requireBand("geometricMask", low, high);
  const [from, to] = [Math.log(low), Math.log(high)];
  return ({ logProbs, behaviour, offsets }) =>
    perSequence(logProbs, behaviour, offsets, (logRatio, tokens) => {
      const mean = logRatio / tokens;
      return mean >= from && mean <= to ? 1 : 0;
    });
}

export function formula(options: GeometricMaskOptions = {}): string {
  const { low, high } = { ...defaults, ...options };
  return `1 where the geometric mean of π(t) / μ(t) over t's trajectory is from ${constant(low)} to ${constant(high)}, else 0`;
}
