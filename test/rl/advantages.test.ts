import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { groupAdvantages } from "../../src/rl/advantages.ts";

describe("groupAdvantages", () => {
  it("matches the hand calculation", () => {
    // mean 0.25, population variance (3 · 0.0625 + 0.5625) / 4 = 0.1875
    const std = Math.sqrt(0.1875);
    const values = groupAdvantages([1, 0, 0, 0], true);
    expect(values[0]).toBeCloseTo(0.75 / (std + 1e-6), 12);
    expect(values[1]).toBeCloseTo(-0.25 / (std + 1e-6), 12);
    expect(groupAdvantages([1, 0, 0, 0], false)).toEqual([0.75, -0.25, -0.25, -0.25]);
  });

  it("is exactly zero for a group of equal rewards, whatever the reward", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer({ min: 1, max: 32 }), (reward, n) => {
        expect(groupAdvantages(Array(n).fill(reward), true).every((value) => value === 0)).toBe(true);
      }),
    );
  });

  it("sums to zero and ignores shift and scale of the rewards", () => {
    const rewards = fc.array(fc.integer({ min: -5, max: 5 }), { minLength: 2, maxLength: 16 });
    fc.assert(
      fc.property(rewards, (values) => {
        const advantages = groupAdvantages(values, true);
        expect(advantages.reduce((sum, value) => sum + value, 0)).toBeCloseTo(0, 9);
        const moved = groupAdvantages(
          values.map((value) => 3 * value + 7),
          true,
        );
        for (const [i, value] of moved.entries()) expect(value).toBeCloseTo(advantages[i]!, 5);
      }),
    );
  });
});
