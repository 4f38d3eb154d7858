/**
 * What a correction for off-policy data is: a pure function from log-probabilities to a weight for every token, which
 * the objective multiplies into its loss and holds constant for the gradient. Each file says which ratio to the behaviour
 * policy μ it reads:
 *
 *     "proximal"   π_prox / μ. The objective's own ratio then runs from π_prox to π, so π_prox must be a policy of its
 *                  own (`proximal.ts`): where it is μ itself, all of these weights are 1.
 *     "current"    π / μ, held constant. For masks, which leave the importance weight to the objective's ratio: π_prox
 *                  stays μ.
 *
 * Log-probabilities are over the whole vocabulary; what a cut distribution adds is the objective's κ.
 */
import type { TokenBatch } from "../objectives/objective.ts";

export interface Corrected {
  /** [n] */
  weights: Float32Array;
  /** Tokens left out: their weight is 0. */
  masked: number;
}

export type Correction = (batch: Pick<TokenBatch, "logProbs" | "behaviour" | "proximal" | "offsets">) => Corrected;

/** Whose ratio to the behaviour policy a correction reads. */
export type RatioOf = "proximal" | "current";

/** A weight from each token's own log ratio. */
export function perToken(
  logProbs: Float32Array,
  behaviour: Float32Array,
  weightOf: (logRatio: number) => number,
): Corrected {
  const weights = new Float32Array(logProbs.length);
  let masked = 0;
  for (let t = 0; t < weights.length; t++) {
    const weight = weightOf(logProbs[t]! - behaviour[t]!);
    weights[t] = weight;
    if (weight === 0) masked++;
  }
  return { weights, masked };
}

/** One weight a trajectory from the sum of its tokens' log ratios and their number. */
export function perSequence(
  logProbs: Float32Array,
  behaviour: Float32Array,
  offsets: Uint32Array,
  weightOf: (logRatio: number, tokens: number) => number,
): Corrected {
  const weights = new Float32Array(logProbs.length);
  let masked = 0;
  for (let s = 0; s + 1 < offsets.length; s++) {
    const start = offsets[s]!;
    const end = offsets[s + 1]!;
    let logRatio = 0;
    for (let t = start; t < end; t++) logRatio += logProbs[t]! - behaviour[t]!;
    const weight = weightOf(logRatio, end - start);
    weights.fill(weight, start, end);
    if (weight === 0) masked += end - start;
  }
  return { weights, masked };
}
