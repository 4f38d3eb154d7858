/**
 * No correction: every weight is 1. The objective's ratio runs from the behaviour policy to the current one, so it is
 * both the importance weight and what the trust region bounds. Reads no ratio.
 */
import type { Correction } from "./correction.ts";

export function none(): Correction {
  return ({ logProbs }) => ({ weights: new Float32Array(logProbs.length).fill(1), masked: 0 });
}

export function formula(): string {
  return "1";
}
