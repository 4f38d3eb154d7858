import { expect, it } from "vitest";
import { type LossMean, tokenScales } from "../../src/rl/token-scales.ts";
import { trajectory } from "./trajectories.ts";

// Two, three and no sampled tokens.
const batch = [
  [0, 1, 1],
  [0, 1, 0, 1, 1],
  [0, 0],
].map((mask, sample) => trajectory({ mask, sample }));

it.each<[LossMean, number[]]>([
  // Two trajectories that carry gradient: 1 / (2 · 2) and 1 / (2 · 3).
  ["trajectory", [1 / 4, 1 / 6, 0]],
  ["token", [1 / 5, 1 / 5, 0]],
  ["constant", [1 / 200, 1 / 200, 0]],
])("a token's share, by %s", (mean, shares) => {
  expect([...tokenScales(batch, mean, 100).values()]).toEqual(shares.map((share) => expect.closeTo(share, 12)));
});

it.each<[LossMean, number[]]>([
  // Σ c = 3 + 1: the last has no token.
  ["trajectory", [3 / (4 * 2), 1 / (4 * 3), 0]],
  // Σ c |o| = 3 · 2 + 1 · 3.
  ["token", [3 / 9, 1 / 9, 0]],
  ["constant", [3 / 400, 1 / 400, 0]],
])("a token's share, by %s, where the first trajectory's task weighs three times the others'", (mean, shares) => {
  const scales = tokenScales(batch, mean, 100, (one) => (one === batch[0] ? 3 : 1));
  expect([...scales.values()]).toEqual(shares.map((share) => expect.closeTo(share, 12)));
});
