import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formula as drFormula, drGrpo } from "../../../src/rl/advantages/dr-grpo.ts";
import { formula, groupAdvantages, grpo } from "../../../src/rl/advantages/grpo.ts";
import { rloo } from "../../../src/rl/advantages/rloo.ts";
import { estimate, groupsOf } from "./batches.ts";

const rewards = fc.array(fc.integer({ min: -5, max: 5 }), { minLength: 2, maxLength: 16 });

/** One group whose samples earn these rewards in one turn of one token each. */
function oneTurn(values: readonly number[]) {
  return groupsOf([{ task: "os", samples: values.map((reward) => ({ turns: [{ state: 0, said: 1, reward }] })) }]);
}

describe("GRPO", () => {
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

  it("sums to zero in every group", () => {
    fc.assert(
      fc.property(rewards, (values) => {
        expect(groupAdvantages(values, true).reduce((sum, value) => sum + value, 0)).toBeCloseTo(0, 9);
        const tokens = estimate(grpo(), oneTurn(values)).flat();
        expect(tokens.reduce((sum, value) => sum + value, 0)).toBeCloseTo(0, 5);
      }),
    );
  });

  it("gives all sampled tokens of a sample its advantage", () => {
    const turns = (reward: number) => [
      { state: 0, said: 2, reward: 0 },
      { state: 1, said: 1, reward },
    ];
    const groups = groupsOf([{ task: "os", samples: [{ turns: turns(1) }, { turns: turns(0) }] }]);
    expect(estimate(drGrpo(), groups)).toEqual([
      [0.5, 0.5, 0.5],
      [-0.5, -0.5, -0.5],
    ]);
  });

  it("without the standard deviation is Dr. GRPO", () => {
    fc.assert(
      fc.property(rewards, (values) => {
        const groups = oneTurn(values);
        expect(estimate(grpo({ normalizeStd: false }), groups)).toEqual(estimate(drGrpo(), groups));
      }),
    );
    expect(formula({ normalizeStd: false })).toBe(drFormula());
    expect(formula()).toBe("A    = (r - mean_group(r)) / (std_group(r) + 1e-6)");
  });
});

describe("RLOO", () => {
  it("is the reward minus the mean of the others", () => {
    fc.assert(
      fc.property(rewards, (values) => {
        const tokens = estimate(rloo(), oneTurn(values)).flat();
        for (const [i, reward] of values.entries()) {
          const others = values.filter((_, j) => j !== i);
          const baseline = others.reduce((sum, value) => sum + value, 0) / others.length;
          expect(tokens[i]).toBeCloseTo(reward - baseline, 5);
        }
      }),
    );
  });

  it("is n / (n - 1) times Dr. GRPO", () => {
    fc.assert(
      fc.property(rewards, (values) => {
        const groups = oneTurn(values);
        const plain = estimate(drGrpo(), groups).flat();
        for (const [i, value] of estimate(rloo(), groups).flat().entries()) {
          expect(value).toBeCloseTo((plain[i]! * values.length) / (values.length - 1), 5);
        }
      }),
    );
  });
});
