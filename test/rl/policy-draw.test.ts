import { describe, expect, it } from "vitest";
import { drawPolicy } from "../../src/rl/policy-draw.ts";

const shares = [0.2, 0.05, 0.3];
const seeds = Array.from({ length: 40_000 }, (_, i) => ({ key: 7, group: i >> 3, sample: i & 7 }));

describe("the policy of a turn", () => {
  it.each([0, 1, 5])("follows the shares, with the rest for the current one: turn %i", (turn) => {
    const counts = new Map<number, number>();
    for (const seed of seeds) {
      const drawn = drawPolicy(shares, seed, turn);
      counts.set(drawn, (counts.get(drawn) ?? 0) + 1);
    }
    for (const [drawn, share] of [[-1, 0.45] as const, ...shares.entries()]) {
      // Five standard deviations of a binomial.
      const spread = 5 * Math.sqrt((share * (1 - share)) / seeds.length);
      expect(Math.abs(counts.get(drawn)! / seeds.length - share)).toBeLessThan(spread);
    }
  });

  it("is the same for the same sample and turn, and drawn anew for every other", () => {
    const draws = (key: number, turn: number, shift: number) =>
      seeds.map(({ group, sample }) => drawPolicy([0.5], { key, group: group + shift, sample }, turn));
    const first = draws(7, 0, 0);
    expect(draws(7, 0, 0)).toEqual(first);
    // Independent draws of a half agree in half of the cases.
    for (const other of [draws(8, 0, 0), draws(7, 1, 0), draws(7, 0, 1)]) {
      const agree = other.filter((drawn, i) => drawn === first[i]).length / seeds.length;
      expect(Math.abs(agree - 0.5)).toBeLessThan(5 * Math.sqrt(0.25 / seeds.length));
    }
  });

  it("leaves every turn to the current policy without shares", () => {
    expect(seeds.every((seed) => drawPolicy([], seed, 0) === -1 && drawPolicy([0, 0], seed, 0) === -1)).toBe(true);
  });
});
