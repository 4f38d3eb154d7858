import { describe, expect, it } from "vitest";
import { actorCritic, formula } from "../../../src/rl/advantages/actor-critic.ts";
import { ExplainedVariance, valueLoss } from "../../../src/rl/objectives/value.ts";
import { sample, type TurnSpec } from "./batches.ts";

const turn = (said: number, reward: number): TurnSpec => ({ state: 0, said, reward });
/** Three tokens of prompt, a turn, one token of observation, a turn, one token after it. */
const two = sample({ turns: [turn(2, 0), turn(1, 1)] });
const one = sample({ turns: [turn(2, 0.5)] });
const values = new Map([
  [two.trajectory, Float32Array.of(99, 99, 99, 0.5, 0.4, 99, 0.25, 99)],
  [one.trajectory, Float32Array.of(99, 99, 99, 0.1, 0.2, 99)],
]);
const hand = { gamma: 0.9, lambda: 0.5, whiten: false };

function expectValues(got: ArrayLike<number>, want: readonly number[]): void {
  expect(got.length).toBe(want.length);
  for (const [i, value] of want.entries()) expect(got[i]).toBeCloseTo(value, 6);
}

describe("advantages with a critic", () => {
  it("over turns: it is asked before each turn's first token, and the turn shares the advantage", () => {
    // A_1 = 1 - 0.25 = 0.75; A_0 = 0.9 * 0.25 - 0.5 + 0.45 * 0.75 = 0.0625. The other: 0.5 - 0.1 = 0.4.
    const { advantages, returns, valueScales } = actorCritic("turn", hand)([[two], [one]], values, "trajectory");
    expectValues(advantages.get(two.trajectory)!, [0, 0, 0, 0.0625, 0.0625, 0, 0.75, 0]);
    expectValues(returns.get(two.trajectory)!, [0, 0, 0, 0.5625, 0, 0, 1, 0]);
    expectValues(advantages.get(one.trajectory)!, [0, 0, 0, 0.4, 0.4, 0]);
    expectValues(returns.get(one.trajectory)!, [0, 0, 0, 0.5, 0, 0]);
    // Two trajectories weigh the same: two questions of a quarter, one of a half.
    expectValues(valueScales.get(two.trajectory)!, [0, 0, 0, 0.25, 0, 0, 0.25, 0]);
    expectValues(valueScales.get(one.trajectory)!, [0, 0, 0, 0.5, 0, 0]);
  });

  it("over tokens: it is asked before every sampled token", () => {
    // From the end: 1 - 0.25 = 0.75; 0.9 * 0.25 - 0.4 + 0.45 * 0.75 = 0.1625; 0.9 * 0.4 - 0.5 + 0.45 * 0.1625 = -0.066875.
    const { advantages, returns, valueScales } = actorCritic("token", hand)([[two, one]], values, "token");
    expectValues(advantages.get(two.trajectory)!, [0, 0, 0, -0.066875, 0.1625, 0, 0.75, 0]);
    expectValues(returns.get(two.trajectory)!, [0, 0, 0, 0.433125, 0.5625, 0, 1, 0]);
    // Five sampled tokens in all.
    expectValues(valueScales.get(two.trajectory)!, [0, 0, 0, 0.2, 0.2, 0, 0.2, 0]);
    expectValues(valueScales.get(one.trajectory)!, [0, 0, 0, 0.2, 0.2, 0]);
  });

  it("whitened: mean 0 and spread 1 over the batch's sampled tokens, nothing elsewhere; returns as they were", () => {
    const estimate = actorCritic("turn", { ...hand, whiten: true })([[two], [one]], values, "trajectory");
    // Tokens of 0.0625, 0.0625, 0.75, 0.4, 0.4: mean 0.335, variance 0.0652; (0.75 - 0.335) / sqrt(0.0652) = 1.625...
    const raw = [0.0625, 0.0625, 0.75, 0.4, 0.4];
    const mean = raw.reduce((a, b) => a + b) / 5;
    const sd = Math.sqrt(raw.reduce((a, b) => a + (b - mean) ** 2, 0) / 5);
    const white = raw.map((a) => (a - mean) / sd);
    expectValues(estimate.advantages.get(two.trajectory)!, [0, 0, 0, white[0]!, white[1]!, 0, white[2]!, 0]);
    expectValues(estimate.returns.get(two.trajectory)!, [0, 0, 0, 0.5625, 0, 0, 1, 0]);
    expect(formula("turn", {})).toHaveLength(2);
    expect(formula("turn", { whiten: false })).toHaveLength(1);
  });
});

describe("the critic's loss", () => {
  it("is the weighted square, with its slope, of what it was asked alone", () => {
    const { loss, dValues } = valueLoss(
      Float32Array.of(1, 5, 0.5),
      Float32Array.of(0, 0, 1),
      Float32Array.of(0.5, 0, 0.25),
    );
    // 0.5 * 0.5 * 1 + 0 + 0.5 * 0.25 * 0.25
    expect(loss).toBeCloseTo(0.28125, 12);
    expectValues(dValues, [0.5, 0, -0.125]);
  });

  it("explains all of the variance, none of it, or less than none", () => {
    const returns = Float32Array.of(0, 1, 2, 7);
    const asked = Float32Array.of(1, 1, 1, 0);
    const explained = (...said: number[]) => {
      const meter = new ExplainedVariance();
      meter.add(Float32Array.from(said.slice(0, 2)), returns.subarray(0, 2), asked.subarray(0, 2));
      meter.add(Float32Array.from(said.slice(2)), returns.subarray(2), asked.subarray(2));
      return meter.value;
    };
    expect(explained(0, 1, 2, 0)).toBeCloseTo(1, 12);
    expect(explained(5, 5, 5, 0)).toBeCloseTo(0, 12);
    // Errors 0 - 2, 1 - 1, 2 - 0: variance 8/3 against 2/3.
    expect(explained(2, 1, 0, 0)).toBeCloseTo(-3, 12);
    const same = new ExplainedVariance();
    same.add(Float32Array.of(0, 1), Float32Array.of(1, 1), Float32Array.of(1, 1));
    expect(same.value).toBeNull();
  });
});
