/** What must hold for every estimator, whatever the batch. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AgentRLError } from "../../../src/errors.ts";
import { drGrpo } from "../../../src/rl/advantages/dr-grpo.ts";
import type { Estimator, Sample } from "../../../src/rl/advantages/estimator.ts";
import { tokenGae, turnGae } from "../../../src/rl/advantages/gae.ts";
import { gigpo } from "../../../src/rl/advantages/gigpo.ts";
import { grpo } from "../../../src/rl/advantages/grpo.ts";
import { reinforcePlusPlus } from "../../../src/rl/advantages/reinforce-plus-plus.ts";
import { rloo } from "../../../src/rl/advantages/rloo.ts";
import { taskNormalization } from "../../../src/rl/advantages/task-normalization.ts";
import { estimate, type GroupSpec, groupSpecs, groupsOf, onTokens } from "./batches.ts";

/** A critic that says 1/2, 1/3, 1/4... for the sampled tokens in order, and nonsense anywhere else. */
const overTokens: Estimator = (groups) => {
  const entries = groups.flat().map((one) => {
    let seen = 1;
    const values = Float32Array.from(one.trajectory.sampled, (flag) => (flag === 1 ? 1 / ++seen : 1e9));
    return [one.trajectory, tokenGae(one, values, { gamma: 0.9, lambda: 0.8 }).advantages] as const;
  });
  return new Map(entries);
};

const overTurns: Estimator = (groups) => {
  const entries = groups.flat().map((one) => {
    const values = Float32Array.from(one.trajectory.turns, (_, k) => 1 / (k + 2));
    return [one.trajectory, turnGae(one, values).advantages] as const;
  });
  return new Map(entries);
};

const withinGroups: Record<string, Estimator> = {
  grpo: grpo(),
  "grpo without std": grpo({ normalizeStd: false }),
  "Dr. GRPO": drGrpo(),
  rloo: rloo(),
  "REINFORCE++ with baseline": reinforcePlusPlus({ baseline: "group" }),
  gigpo: gigpo(),
  "gigpo without std": gigpo({ normalizeStd: false }),
  "task-normalised grpo": taskNormalization(grpo()),
};

const all: Record<string, Estimator> = {
  ...withinGroups,
  "REINFORCE++": reinforcePlusPlus(),
  "REINFORCE++ with baseline, paper": reinforcePlusPlus({ baseline: "group", paper: true }),
  "gigpo, γ 0.5": gigpo({ gamma: 0.5 }),
  "task-normalised grpo, paper": taskNormalization(grpo(), { paper: true }),
  "task-normalised gigpo": taskNormalization(gigpo({ gamma: 0.5 })),
  "GAE over tokens": overTokens,
  "GAE over turns": overTurns,
};

function expectClose(got: readonly number[][], want: readonly number[][], digits: number): void {
  expect(got.map((row) => row.length)).toEqual(want.map((row) => row.length));
  for (const [i, row] of want.entries()) {
    for (const [t, value] of row.entries()) expect(got[i]![t]).toBeCloseTo(value, digits);
  }
}

/** The same specs with every turn's reward, and with it the penalty, changed. */
function rescaled(specs: readonly GroupSpec[], change: (reward: number) => number): GroupSpec[] {
  return specs.map((group) => ({
    ...group,
    samples: group.samples.map((one) => ({
      ...one,
      turns: one.turns.map((turn) => ({ ...turn, reward: change(turn.reward) })),
    })),
  }));
}

describe.each(Object.entries(all))("%s", (_, estimator) => {
  it("is parallel to the tokens and exactly 0 where none was sampled", () => {
    fc.assert(
      fc.property(groupSpecs, (specs) => {
        const groups = groupsOf(specs);
        const advantages = estimator(groups);
        for (const { trajectory } of groups.flat()) {
          const values = advantages.get(trajectory)!;
          expect(values.length).toBe(trajectory.tokens.length);
          expect(
            values.every((value, t) => Number.isFinite(value) && (trajectory.sampled[t] === 1 || value === 0)),
          ).toBe(true);
        }
      }),
    );
  });

  it("does not depend on the length of what was not sampled, nor on weight versions, in any bit", () => {
    fc.assert(
      fc.property(groupSpecs, fc.integer({ min: 2, max: 5 }), (specs, stretch) => {
        const want = estimate(estimator, groupsOf(specs));
        expect(estimate(estimator, groupsOf(specs, { stretch }))).toEqual(want);
        expect(estimate(estimator, groupsOf(specs, { versions: true }))).toEqual(want);
      }),
    );
  });

  it("does not depend on the order of groups and samples", () => {
    const shuffled = groupSpecs.chain((specs) => {
      const groups = groupsOf(specs);
      return fc
        .tuple(...groups.map((group) => fc.shuffledSubarray(group, { minLength: group.length })))
        .chain((inner) => fc.shuffledSubarray<Sample[]>(inner, { minLength: inner.length }))
        .map((outer) => ({ groups, outer }));
    });
    fc.assert(
      fc.property(shuffled, ({ groups, outer }) => {
        expectClose(onTokens(groups, estimator(outer)), estimate(estimator, groups), 4);
      }),
    );
  });
});

describe.each(Object.entries(withinGroups))("%s", (_, estimator) => {
  it("refuses a group of one by the option's name", () => {
    const groups = groupsOf([{ task: "os", samples: [{ turns: [{ state: 0, said: 2, reward: 1 }] }] }]);
    expect(() => estimator(groups)).toThrow(AgentRLError);
    expect(() => estimator(groups)).toThrow(/rollout\.groupSize/);
  });

  it("is exactly 0 for a group of samples that went and ended alike", () => {
    const one = {
      turns: [
        { state: 0, said: 2, reward: 0.1 },
        { state: 1, said: 1, reward: 0.2 },
      ],
    };
    const groups = groupsOf([
      { task: "os", samples: [one, one, one] },
      { task: "os", samples: [one, { turns: [{ state: 0, said: 5, reward: 1 }] }] },
    ]);
    const values = estimate(estimator, groups);
    for (const row of values.slice(0, 3)) expect(row).toEqual([0, 0, 0]);
    expect(values.slice(3).flat()).not.toContain(0);
  });
});

const shiftable = ["grpo", "grpo without std", "Dr. GRPO", "rloo", "REINFORCE++", "REINFORCE++ with baseline"];
describe.each(shiftable)("%s", (name) => {
  it("ignores a shift of all rewards", () => {
    fc.assert(
      fc.property(groupSpecs, fc.integer({ min: -9, max: 9 }), (specs, shift) => {
        const groups = groupsOf(specs);
        const moved = groups.map((group) => group.map((one) => ({ ...one, reward: one.reward + shift })));
        expectClose(estimate(all[name]!, moved), estimate(all[name]!, groups), 4);
      }),
    );
  });
});

// At γ = 0.5 returns that differ do so by far more than ε.
const scalable = ["grpo", "REINFORCE++", "REINFORCE++ with baseline", "gigpo, γ 0.5", "task-normalised gigpo"];
describe.each(scalable)("%s", (name) => {
  it("ignores the scale of all rewards, up to ε", () => {
    fc.assert(
      fc.property(groupSpecs, fc.integer({ min: 2, max: 8 }), (specs, factor) => {
        const scaled = groupsOf(
          rescaled(specs, (reward) => factor * reward),
          { penalty: -0.2 * factor },
        );
        expectClose(estimate(all[name]!, scaled), estimate(all[name]!, groupsOf(specs)), 3);
      }),
    );
  });
});
