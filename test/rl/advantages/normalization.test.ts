/** REINFORCE++ and task normalisation: mean and standard deviation over sampled tokens. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AgentRLError } from "../../../src/errors.ts";
import { drGrpo } from "../../../src/rl/advantages/dr-grpo.ts";
import { gigpo } from "../../../src/rl/advantages/gigpo.ts";
import { grpo } from "../../../src/rl/advantages/grpo.ts";
import { formula as plusPlusFormula, reinforcePlusPlus } from "../../../src/rl/advantages/reinforce-plus-plus.ts";
import { formula as taskFormula, taskNormalization } from "../../../src/rl/advantages/task-normalization.ts";
import { estimate, type GroupSpec, groupSpecs, groupsOf } from "./batches.ts";

function momentsOf(values: readonly number[]) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, std: Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length) };
}

const say = (said: number, reward: number) => ({ turns: [{ state: 0, said, reward }] });

// Deviations from the group's mean: 0.5 on 3 tokens, -0.5 on 1. Mean 0.25, variance (3 · 0.0625 + 0.5625) / 4 = 3/16.
const speaking: GroupSpec = { task: "os", samples: [say(3, 1), say(1, 0)] };
// Equal rewards: two tokens of 0.
const silent: GroupSpec = { task: "os", samples: [say(1, 1), say(1, 1)] };
const up = 0.25 / Math.sqrt(3 / 16);
const down = -0.75 / Math.sqrt(3 / 16);

function expectRows(got: readonly number[][], want: readonly number[][]): void {
  expect(got.map((row) => row.length)).toEqual(want.map((row) => row.length));
  for (const [i, row] of want.entries())
    for (const [t, value] of row.entries()) expect(got[i]![t]).toBeCloseTo(value, 5);
}

describe.each([
  ["task normalisation", taskNormalization(drGrpo()), taskNormalization(drGrpo(), { paper: true })],
  [
    "REINFORCE++ with baseline",
    reinforcePlusPlus({ baseline: "group" }),
    reinforcePlusPlus({ baseline: "group", paper: true }),
  ],
])("%s", (_, ours, paper) => {
  it("leaves groups of equal rewards at 0, and out of mean and spread", () => {
    expectRows(estimate(ours, groupsOf([speaking])), [[up, up, up], [down]]);
    const values = estimate(ours, groupsOf([silent, speaking]));
    expect(values.slice(0, 2)).toEqual([[0], [0]]);
    expectRows(values.slice(2), [[up, up, up], [down]]);
  });

  it("gives them -μ/σ as the papers do, when asked", () => {
    // Over six tokens: mean 1/6, variance 1/6 - 1/36 = 5/36.
    const std = Math.sqrt(5) / 6;
    const values = estimate(paper, groupsOf([silent, speaking]));
    const [a, b] = [(1 / 2 - 1 / 6) / std, (-1 / 2 - 1 / 6) / std];
    expectRows(values, [[-1 / Math.sqrt(5)], [-1 / Math.sqrt(5)], [a, a, a], [b]]);
  });

  it("is 0, not a rounding error over ε, where all sampled tokens have one advantage", () => {
    // Only the winners of both groups said anything, and their rewards differ by less than float32 resolves.
    const group = (reward: number): GroupSpec => ({ task: "os", samples: [say(2, reward), say(0, 0), say(0, 0)] });
    for (const estimator of [ours, paper]) {
      const values = estimate(estimator, groupsOf([group(1), group(1 + 1e-7)]));
      expect(values).toEqual([[0, 0], [], [], [0, 0], [], []]);
    }
  });

  it("keeps an empty batch empty", () => {
    expect(ours([]).size).toBe(0);
    expect(paper([]).size).toBe(0);
  });
});

describe("task normalisation", () => {
  it.each([
    ["grpo", grpo()],
    ["gigpo", gigpo()],
  ])("gives mean 0 and standard deviation 1 over the sampled tokens of every task (%s)", (_, estimator) => {
    fc.assert(
      fc.property(groupSpecs, (specs) => {
        const groups = groupsOf(specs);
        const before = estimate(estimator, groups);
        const after = estimate(taskNormalization(estimator), groups);
        let row = 0;
        const tasks = new Map<string, { before: number[]; after: number[] }>();
        for (const { task, samples } of specs) {
          const rows = samples.map(() => row++);
          if (rows.every((i) => before[i]!.every((value) => value === 0))) {
            expect(rows.every((i) => after[i]!.every((value) => value === 0))).toBe(true);
            continue;
          }
          const of = tasks.get(task) ?? { before: [], after: [] };
          tasks.set(task, of);
          of.before.push(...rows.flatMap((i) => before[i]!));
          of.after.push(...rows.flatMap((i) => after[i]!));
        }
        for (const of of tasks.values()) {
          const { mean, std } = momentsOf(of.after);
          expect(mean).toBeCloseTo(0, 5);
          if (momentsOf(of.before).std > 0.01) expect(std).toBeCloseTo(1, 3);
        }
      }),
    );
  });

  it("does not mix tasks", () => {
    const other: GroupSpec = { task: "kg", samples: [say(2, 100), say(5, 0)] };
    const alone = estimate(taskNormalization(drGrpo()), groupsOf([speaking]));
    expect(estimate(taskNormalization(drGrpo()), groupsOf([speaking, other])).slice(0, 2)).toEqual(alone);
  });

  it("says what it does", () => {
    expect(taskFormula()).toContain("those stay at 0");
    expect(taskFormula({ paper: true })).toBe("A    ← (A - mean_task(A)) / (std_task(A) + 1e-6), over sampled tokens");
  });
});

describe("REINFORCE++", () => {
  it("compares with the whole batch, also a group of equal rewards or of one", () => {
    // Rewards over tokens: 1 ×3, 0 ×1, 0 ×2: mean 1/2, standard deviation 1/2.
    const groups = groupsOf([speaking, { task: "kg", samples: [say(2, 0)] }]);
    expectRows(estimate(reinforcePlusPlus(), groups), [[1, 1, 1], [-1], [-1, -1]]);
  });

  it("tells large rewards apart that float32 cannot", () => {
    const groups = groupsOf([{ task: "os", samples: [say(1, 1e9 + 1), say(1, 1e9)] }]);
    expectRows(estimate(reinforcePlusPlus(), groups), [[1], [-1]]);
  });

  it("refuses an option without effect by name", () => {
    expect(() => reinforcePlusPlus({ paper: true })).toThrow(AgentRLError);
    expect(() => reinforcePlusPlus({ paper: true })).toThrow(/algorithm\.paper/);
  });

  it("says what it does", () => {
    expect(plusPlusFormula()).toBe("A    = (r - mean_batch(r)) / (std_batch(r) + 1e-8), over sampled tokens");
    expect(plusPlusFormula({ baseline: "group" })).toContain("groups of unequal rewards");
  });
});
