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
