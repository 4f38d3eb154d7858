import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AgentRLError } from "../../../src/errors.ts";
import { formula, tokenGae, turnGae } from "../../../src/rl/advantages/gae.ts";
import { groupSpecs, groupsOf, sample, type TurnSpec } from "./batches.ts";

const turn = (said: number, reward: number): TurnSpec => ({ state: 0, said, reward });
const options = { gamma: 0.9, lambda: 0.5 };

function expectValues(got: ArrayLike<number>, want: readonly number[]): void {
  expect(got.length).toBe(want.length);
  for (const [i, value] of want.entries()) expect(got[i]).toBeCloseTo(value, 6);
}

// Two actions, rewards 0 and 1, values 0.5 and 0.25:
//   δ_1 = 1 - 0.25 = 0.75                     A_1 = 0.75                                return 1
//   δ_0 = 0 + 0.9 · 0.25 - 0.5 = -0.275       A_0 = -0.275 + 0.9 · 0.5 · 0.75 = 0.0625  return 0.5625
const hand = { advantages: [0.0625, 0.75], returns: [0.5625, 1] };

describe("GAE over tokens", () => {
  it("matches the hand calculation and reads no value of a token that was not sampled", () => {
    // Three tokens of prompt, the first turn, one token of observation, the second turn, one token after it.
    const one = sample({ turns: [turn(1, 0), turn(1, 1)] });
    const values = Float32Array.of(99, 99, 99, 0.5, 99, 0.25, 99);
    const { advantages, returns } = tokenGae(one, values, options);
    expectValues(advantages, [0, 0, 0, hand.advantages[0]!, 0, hand.advantages[1]!, 0]);
    expectValues(returns, [0, 0, 0, hand.returns[0]!, 0, hand.returns[1]!, 0]);
  });

  it("puts a turn's reward on its last sampled token", () => {
    // λ = 0 and a critic that says 0: the advantage is the reward itself.
    const one = sample({ turns: [turn(2, 0.25), turn(3, 1)] });
    const { advantages } = tokenGae(one, new Float32Array(one.trajectory.tokens.length), { gamma: 1, lambda: 0 });
    expectValues(advantages, [0, 0, 0, 0, 0.25, 0, 0, 0, 1, 0]);
  });

  it("at γ = λ = 1 is the trained reward still to come, minus the value", () => {
    fc.assert(
      fc.property(groupSpecs, (specs) => {
        for (const one of groupsOf(specs).flat()) {
          const { trajectory, reward } = one;
          const values = Float32Array.from(trajectory.tokens, (_, t) => Math.sin(t));
          const { advantages, returns } = tokenGae(one, values);
          const first = trajectory.sampled.indexOf(1);
          expect(returns[first]).toBeCloseTo(reward, 5);
          expect(advantages[first]).toBeCloseTo(reward - Math.sin(first), 5);
          for (const { start, end } of trajectory.turns) {
            // No reward falls within a turn.
            for (let t = start; t < end; t++) expect(returns[t]).toBeCloseTo(returns[start]!, 5);
          }
        }
      }),
    );
  });
});

describe("GAE over turns", () => {
  it("matches the hand calculation, the same for all tokens of a turn", () => {
    const one = sample({ turns: [turn(2, 0), turn(3, 1)] });
    const { advantages, returns } = turnGae(one, Float32Array.of(0.5, 0.25), options);
    const [a, b] = hand.advantages as [number, number];
    expectValues(advantages, [0, 0, 0, a, a, 0, b, b, b, 0]);
    expectValues(returns, hand.returns);
  });

  it("is GAE over tokens where every turn is one token", () => {
    fc.assert(
      fc.property(groupSpecs, (specs) => {
        const short = specs.map((group) => ({
          ...group,
          samples: group.samples.map((one) => ({ ...one, turns: one.turns.map((each) => ({ ...each, said: 1 })) })),
        }));
        for (const one of groupsOf(short).flat()) {
          const { tokens, turns } = one.trajectory;
          const byTurn = Float32Array.from(turns, (_, k) => Math.cos(k));
          const byToken = new Float32Array(tokens.length);
          for (const [k, { start }] of turns.entries()) byToken[start] = byTurn[k]!;
          expect(turnGae(one, byTurn, options).advantages).toEqual(tokenGae(one, byToken, options).advantages);
        }
      }),
    );
  });

  it("passes over another policy's turn, whose reward goes to the turn before", () => {
    // Without the middle turn these are the two actions of the hand calculation, with 0.5 more for the first.
    const one = sample({ turns: [turn(1, 0), { ...turn(4, 0.5), external: true }, turn(1, 1)] });
    const { advantages, returns } = turnGae(one, Float32Array.of(0.5, 99, 0.25), options);
    expectValues(returns, [hand.returns[0]! + 0.5, 0, hand.returns[1]!]);
    expect(advantages[one.trajectory.turns[0]!.start]).toBeCloseTo(hand.advantages[0]! + 0.5, 6);
    expect(advantages.filter((value) => value !== 0).length).toBe(2);
  });

  it("trains an incomplete episode on its penalty", () => {
    const one = sample({ turns: [turn(1, 0.75), turn(1, 0)], endReason: "turn limit" });
    expectValues(turnGae(one, new Float32Array(2), { gamma: 1, lambda: 1 }).returns, [-0.2, -0.2]);
  });
});

describe("GAE", () => {
  it("gives nothing to a trajectory without a sampled token", () => {
    const one = sample({ turns: [], endReason: "context limit" });
    expect([...tokenGae(one, Float32Array.of(5)).advantages]).toEqual([0]);
    expect([...turnGae(one, new Float32Array(0)).advantages]).toEqual([0]);
  });

  const one = sample({ turns: [turn(1, 1)] });
  it.each([
    ["algorithm.gamma", { gamma: -0.1 }],
    ["algorithm.lambda", { lambda: 2 }],
    ["algorithm.lambda", { lambda: Number.NaN }],
  ])("refuses a bad %s by name", (name, bad) => {
    expect(() => turnGae(one, Float32Array.of(0), bad)).toThrow(AgentRLError);
    expect(() => turnGae(one, Float32Array.of(0), bad)).toThrow(name);
  });

  it("refuses values of another shape", () => {
    expect(() => tokenGae(one, Float32Array.of(0))).toThrow(/value of every token/);
    expect(() => turnGae(one, new Float32Array(2))).toThrow(/value of every turn/);
  });

  it("says what it does", () => {
    expect(formula("turn", { gamma: 0.9 })).toBe(
      "A_k  = δ_k + 0.9·0.95 A_k+1, δ_k = r_k + 0.9 V_k+1 - V_k, k over turns",
    );
  });
});
