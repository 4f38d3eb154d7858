import { describe, expect, it } from "vitest";
import { AgentRLError } from "../../../src/errors.ts";
import { formula, gigpo } from "../../../src/rl/advantages/gigpo.ts";
import { grpo } from "../../../src/rl/advantages/grpo.ts";
import { estimate, groupsOf, type SampleSpec, type TurnSpec } from "./batches.ts";

const S = 1;
const plain = { gamma: 0.5, normalizeStd: false };
const turn = (state: number, reward: number): TurnSpec => ({ state, said: 1, reward });
const group = (...samples: SampleSpec[]) => groupsOf([{ task: "os", samples }]);

function expectRows(got: readonly number[][], want: readonly number[][]): void {
  expect(got.map((row) => row.length)).toEqual(want.map((row) => row.length));
  for (const [i, row] of want.entries())
    for (const [t, value] of row.entries()) expect(got[i]![t]).toBeCloseTo(value, 5);
}

describe("GiGPO", () => {
  // Episodes: 1 and 0, so ±0.5. Returns 0.5, 1 and 0, 0: at the prompt 0.5 against 0, so ±0.25; in S 1 against 0, so ±0.5.
  const pair = group({ turns: [turn(0, 0), turn(S, 1)] }, { turns: [turn(0, 0), turn(S, 0)] });

  it("adds what a turn's return is worth among turns in the same state", () => {
    expectRows(estimate(gigpo(plain), pair), [
      [0.75, 1],
      [-0.75, -1],
    ]);
    expectRows(estimate(gigpo({ ...plain, omega: 2 }), pair), [
      [1, 1.5],
      [-1, -1.5],
    ]);
  });

  it("divides by the standard deviation on both levels", () => {
    // Two values deviate from their mean by exactly one standard deviation.
    expectRows(estimate(gigpo(), pair), [
      [2, 2],
      [-2, -2],
    ]);
  });

  it("is GRPO at ω = 0", () => {
    expect(estimate(gigpo({ omega: 0 }), pair)).toEqual(estimate(grpo(), pair));
  });

  it("compares nothing for a state that was visited once", () => {
    const groups = group({ turns: [turn(0, 0), turn(S, 1)] }, { turns: [turn(0, 0), turn(2, 0)] });
    expectRows(estimate(gigpo(plain), groups), [
      [0.75, 0.5],
      [-0.75, -0.5],
    ]);
  });

  it("counts every visit of a sample that came back to a state", () => {
    // Returns in S: 0.5 and 1 of the first sample, 0 of the second; mean 0.5.
    const groups = group({ turns: [turn(0, 0), turn(S, 0), turn(S, 1)] }, { turns: [turn(0, 0), turn(S, 0)] });
    // At the prompt: 0.25 against 0.
    expectRows(estimate(gigpo(plain), groups), [
      [0.5 + 0.125, 0.5 + 0, 0.5 + 0.5],
      [-0.5 - 0.125, -0.5 - 0.5],
    ]);
  });

  it("trains an incomplete episode on its penalty alone, due at its last turn", () => {
    // Trained rewards 1 and -0.2: ±0.6. Returns 0.5, 1 and -0.1, -0.2, the 0.4 earned on the way replaced.
    const groups = group(
      { turns: [turn(0, 0), turn(S, 1)] },
      { turns: [turn(0, 0.4), turn(S, 0)], endReason: "turn limit" },
    );
    expectRows(estimate(gigpo(plain), groups), [
      [0.6 + 0.3, 0.6 + 0.6],
      [-0.6 - 0.3, -0.6 - 0.6],
    ]);
  });

  it("prefers the shorter way where both arrive", () => {
    // Episodes are equal. At the prompt: 1 in one turn against 0.5 in two.
    const groups = group({ turns: [turn(0, 1)] }, { turns: [turn(0, 0), turn(S, 1)] });
    expectRows(estimate(gigpo(plain), groups), [[0.25], [-0.25, 0]]);
  });

  it("takes another policy's turn for part of what happened, and its reward for the turn's before it", () => {
    const external = { state: 2, said: 3, reward: 1, external: true };
    const groups = group({ turns: [turn(0, 0), external] }, { turns: [turn(0, 0), turn(S, 0)] });
    // Returns at the prompt: 1 against 0.
    expectRows(estimate(gigpo(plain), groups), [[0.5 + 0.5], [-0.5 - 0.5, -0.5]]);
  });

  it("does not compare across groups", () => {
    const specs = [{ turns: [turn(0, 0), turn(S, 1)] }, { turns: [turn(0, 0), turn(S, 0)] }];
    const rich = specs.map((one) => ({ turns: one.turns.map((each) => ({ ...each, reward: each.reward + 5 })) }));
    const both = groupsOf([
      { task: "os", samples: specs },
      { task: "os", samples: rich },
    ]);
    expect(estimate(gigpo(plain), both).slice(0, 2)).toEqual(estimate(gigpo(plain), pair));
  });

  it.each([
    ["algorithm.gamma", { gamma: 1.1 }],
    ["algorithm.gamma", { gamma: Number.NaN }],
    ["algorithm.omega", { omega: -1 }],
    ["algorithm.omega", { omega: Infinity }],
  ])("refuses a bad %s by name", (name, options) => {
    expect(() => gigpo(options)).toThrow(AgentRLError);
    expect(() => gigpo(options)).toThrow(name);
  });

  it("says what it does", () => {
    expect(formula({ ...plain, omega: 2 })).toBe(
      "A    = (r - mean_group(r)) + 2 (R - mean_anchor(R)), R_k = Σ_j≥k 0.5^(j-k) r_j over turns",
    );
  });
});
