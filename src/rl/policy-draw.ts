/**
 * Which policy takes a turn: a pure function of the sample's seed words and the turn's number, so a sample that is played
 * again, after a crash or in a resumed run, is played by the same policies.
 */
import type { SeedWords } from "../generate/sampling.ts";
import { mix32 } from "./sampler.ts";

/** Keeps this draw apart from the sampler's, which hashes the same seed and group. */
const salt = 0x63726f73;

/**
 * The position in `shares` of the policy that takes the turn, or -1 for the current one, which has what is left of 1.
 * @param turn the turn's place in its episode, 0-based.
 */
export function drawPolicy(shares: readonly number[], { key, group, sample }: SeedWords, turn: number): number {
  let left = mix32(mix32(mix32(mix32(key, salt), group), sample), turn) / 2 ** 32;
  for (const [i, share] of shares.entries()) {
    left -= share;
    if (left < 0) return i;
  }
  return -1;
}
