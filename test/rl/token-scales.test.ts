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
  // Three trajectories: 1 / (3 · 2) and 1 / (3 · 3).
  ["trajectory", [1 / 6, 1 / 9, 0]],
  ["token", [1 / 5, 1 / 5, 0]],
  ["constant", [1 / 300, 1 / 300, 0]],
])("a token's share, by %s", (mean, shares) => {
  expect([...tokenScales(batch, mean, 100).values()]).toEqual(shares.map((share) => expect.closeTo(share, 12)));
});

it.each<[LossMean, number[]]>([
  // Σ c = 3 + 1 + 1, of which the last has no token.
  ["trajectory", [3 / (5 * 2), 1 / (5 * 3), 0]],
  // Σ c |o| = 3 · 2 + 1 · 3.
  ["token", [3 / 9, 1 / 9, 0]],
  ["constant", [3 / 500, 1 / 500, 0]],
])("a token's share, by %s, where the first trajectory's task weighs three times the others'", (mean, shares) => {
  const scales = tokenScales(batch, mean, 100, (one) => (one === batch[0] ? 3 : 1));
  expect([...scales.values()]).toEqual(shares.map((share) => expect.closeTo(share, 12)));
});
