/**
 * Truncated importance sampling of whole trajectories (Liu, Li et al. 2025, "When Speed Kills Stability",
 * richardli.xyz/rl-collapse, part 2):
 *
 *     c = min( Π_t π_prox,t / μ_t, cap )        one weight for all of a trajectory's tokens
 *
 * Reads the ratio of the proximal policy, over the trajectory's scored tokens. Without the cap it is unbiased; the
 * product moves away from 1 exponentially with length, so it suits short trajectories and small lags.
 */
import { constant, requireOption } from "../objectives/options.ts";
import { type Correction, perSequence, type RatioOf } from "./correction.ts";

export interface SequenceTisOptions {
  /** C; default 2. */
  cap?: number;
}

const defaults = { cap: 2 };

export const ratioOf: RatioOf = "proximal";

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function sequenceTis(options: SequenceTisOptions = {}): Correction {
  const { cap } = { ...defaults, ...options };
  requireOption(cap > 0, "sequenceTis.cap", cap, "more than 0");
  return ({ proximal, behaviour, offsets }) =>
    perSequence(proximal, behaviour, offsets, (logRatio) => Math.min(Math.exp(logRatio), cap));
}

export function formula(options: SequenceTisOptions = {}): string {
  return `min(Π_t π_prox(t) / μ(t), ${constant({ ...defaults, ...options }.cap)}) over t's trajectory`;
}
