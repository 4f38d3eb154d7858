import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AdaptiveWeights } from "../../src/rl/adaptive-sampling.ts";

const close = (weights: readonly number[], expected: readonly number[]) => {
  for (const [i, value] of expected.entries()) expect(weights[i]).toBeCloseTo(value, 12);
};

describe("task weights that follow learning", () => {
  it("are the config's until every task has been seen, and while nothing is learned", () => {
    const adaptive = new AdaptiveWeights([3, 1], { signal: "progress", floor: 0.2, halfLife: 4 });
    close(adaptive.weights(), [0.75, 0.25]);
    adaptive.observe(0, 0);
    adaptive.observe(0, 1);
    close(adaptive.weights(), [0.75, 0.25]);
    adaptive.observe(1, 0.5);
    // Task 0 alone makes progress: it gets all but task 1's part of the floor, 0.2 · 0.25.
    close(adaptive.weights(), [0.95, 0.05]);
    const still = new AdaptiveWeights([3, 1], { signal: "progress", floor: 0.2, halfLife: 4 });
    for (const task of [0, 1, 0, 1]) still.observe(task, 0.5);
    close(still.weights(), [0.75, 0.25]);
  });

  it("by progress: by hand with a half-life of one group, α = 1/2; rising and falling count alike", () => {
    const adaptive = new AdaptiveWeights([1, 1, 1], { signal: "progress", floor: 0.1, halfLife: 1 });
    // fast: 0, 1/2, 3/4; slow: 0, 1/4, 1/2. |fast - slow| = 1/4.
    for (const reward of [0, 1, 1]) adaptive.observe(0, reward);
    // fast: 1, 1/2; slow: 1, 3/4: 1/4 as well.
    for (const reward of [1, 0]) adaptive.observe(1, reward);
    // fast: 0, 1/2, 1/4; slow: 0, 1/4, 1/4: 0.
    for (const reward of [0, 1, 0]) adaptive.observe(2, reward);
    expect(adaptive.averages).toEqual([
      { fast: 0.75, slow: 0.5 },
      { fast: 0.5, slow: 0.75 },
      { fast: 0.25, slow: 0.25 },
    ]);
    close(adaptive.weights(), [0.9 / 2 + 0.1 / 3, 0.9 / 2 + 0.1 / 3, 0.1 / 3]);
  });

  it("by variance: p (1 - p), a penalty counting as no success", () => {
    const adaptive = new AdaptiveWeights([1, 1, 1], { signal: "variance", floor: 0.25, halfLife: 8 });
    for (const [task, reward] of [0.5, 0.9, -0.2].entries()) adaptive.observe(task, reward);
    const sum = 0.25 + 0.09;
    close(adaptive.weights(), [(0.75 * 0.25) / sum + 0.25 / 3, (0.75 * 0.09) / sum + 0.25 / 3, 0.25 / 3]);
  });

  it("sum to 1, never fall below the floor, and go on from their averages", () => {
    const observations = fc.array(fc.tuple(fc.nat(2), fc.double({ min: -1, max: 1, noNaN: true })), { maxLength: 60 });
    fc.assert(
      fc.property(
        fc.constantFrom("progress" as const, "variance" as const),
        fc.double({ min: 0.01, max: 0.99, noNaN: true }),
        fc.integer({ min: 1, max: 50 }),
        observations,
        fc.nat(60),
        (signal, floor, halfLife, seen, at) => {
          const options = { signal, floor, halfLife };
          const base = [1, 2, 5];
          const whole = new AdaptiveWeights(base, options);
          const first = new AdaptiveWeights(base, options);
          for (const [task, reward] of seen) whole.observe(task, reward);
          for (const [task, reward] of seen.slice(0, at)) first.observe(task, reward);
          const resumed = new AdaptiveWeights(base, options, JSON.parse(JSON.stringify(first.averages)));
          for (const [task, reward] of seen.slice(at)) resumed.observe(task, reward);
          const weights = whole.weights();
          expect(resumed.weights()).toEqual(weights);
          expect(weights.reduce((a, b) => a + b)).toBeCloseTo(1, 9);
          for (const [task, weight] of weights.entries())
            expect(weight).toBeGreaterThan((floor * base[task]!) / 8 - 1e-9);
        },
      ),
    );
  });
});
