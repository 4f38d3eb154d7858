/** Against vectors that other implementations computed: test/golden/rl/make-advantages.py says which. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { drGrpo } from "../../../src/rl/advantages/dr-grpo.ts";
import type { Estimator, Sample } from "../../../src/rl/advantages/estimator.ts";
import { tokenGae, turnGae } from "../../../src/rl/advantages/gae.ts";
import { gigpo } from "../../../src/rl/advantages/gigpo.ts";
import { grpo } from "../../../src/rl/advantages/grpo.ts";
import { reinforcePlusPlus } from "../../../src/rl/advantages/reinforce-plus-plus.ts";
import { rloo } from "../../../src/rl/advantages/rloo.ts";
import { taskNormalization } from "../../../src/rl/advantages/task-normalization.ts";
import { trainedReward } from "../../../src/rl/rewards.ts";
import type { Trajectory } from "../../../src/rl/trajectory.ts";
import { trajectory } from "../trajectories.ts";

type PerToken = number[][][];

interface Golden {
  groups: {
    task: string;
    samples: {
      tokens: number[];
      mask: number[];
      versions: number[];
      turns: { start: number; end: number; reward: number }[];
      endReason: Trajectory["endReason"];
      environmentReward: number;
      reward: number;
    }[];
  }[];
  expected: Record<string, PerToken>;
  gae: {
    tokenValues: PerToken;
    turnValues: PerToken;
    cases: {
      level: "token" | "turn";
      gamma: number;
      lambda: number;
      advantages: PerToken;
      returns: PerToken;
    }[];
  };
}

const golden = JSON.parse(readFileSync(new URL("../../golden/rl/advantages.json", import.meta.url), "utf8")) as Golden;

const groups: Sample[][] = golden.groups.map(({ task, samples }, group) =>
  samples.map((one, sample) => {
    const made = {
      ...trajectory({ mask: one.mask, group, sample, task, version: one.versions, endReason: one.endReason }),
      tokens: Uint32Array.from(one.tokens),
      turns: one.turns.map((turn) => ({ ...turn, parseFailure: false })),
      reward: one.environmentReward,
    };
    return { trajectory: made, reward: trainedReward(made, -0.2) };
  }),
);

function expectClose(got: Float32Array, want: readonly number[]): void {
  expect(got.length).toBe(want.length);
  for (const [t, value] of want.entries()) {
    expect(Math.abs(got[t]! - value), `token ${t}`).toBeLessThanOrEqual(1e-6 * Math.max(1, Math.abs(value)));
  }
}

describe("golden vectors", () => {
  it("have what can go wrong in them", () => {
    const samples = golden.groups.flatMap((group) => group.samples);
    expect(samples.some((one) => !one.mask.includes(1))).toBe(true);
    expect(samples.some((one) => /10+1/.test(one.mask.join("")))).toBe(true);
    expect(samples.some((one) => one.reward !== one.environmentReward)).toBe(true);
    expect(samples.some((one) => new Set(one.versions).size > 1)).toBe(true);
    const equal = golden.groups.filter(({ samples }) => samples.every((one) => one.reward === samples[0]!.reward));
    expect(equal.length).toBeGreaterThanOrEqual(2);
    for (const [i, one] of samples.entries()) expect(groups.flat()[i]!.reward).toBe(one.reward);
  });

  const estimators: Record<string, Estimator> = {
    grpo: grpo(),
    drGrpo: drGrpo(),
    rloo: rloo(),
    reinforcePlusPlus: reinforcePlusPlus(),
    reinforcePlusPlusBaseline: reinforcePlusPlus({ baseline: "group" }),
    reinforcePlusPlusBaselinePaper: reinforcePlusPlus({ baseline: "group", paper: true }),
    gigpo: gigpo(),
    gigpoNoStd: gigpo({ omega: 0.5, gamma: 0.8, normalizeStd: false }),
    taskNormalization: taskNormalization(grpo()),
    taskNormalizationPaper: taskNormalization(grpo(), { paper: true }),
  };

  it("are all compared", () => {
    expect(Object.keys(estimators).sort()).toEqual(Object.keys(golden.expected).sort());
  });

  it.each(Object.entries(estimators))("%s", (name, estimator) => {
    const advantages = estimator(groups);
    expect(advantages.size).toBe(groups.flat().length);
    for (const [g, group] of groups.entries()) {
      for (const [i, { trajectory }] of group.entries()) {
        expectClose(advantages.get(trajectory)!, golden.expected[name]![g]![i]!);
      }
    }
  });

  it.each(golden.gae.cases)("GAE over $level s, γ $gamma, λ $lambda", ({ level, gamma, lambda, ...want }) => {
    const values = level === "token" ? golden.gae.tokenValues : golden.gae.turnValues;
    const estimate = level === "token" ? tokenGae : turnGae;
    for (const [g, group] of groups.entries()) {
      for (const [i, one] of group.entries()) {
        const got = estimate(one, Float32Array.from(values[g]![i]!), { gamma, lambda });
        expectClose(got.advantages, want.advantages[g]![i]!);
        expectClose(got.returns, want.returns[g]![i]!);
      }
    }
  });
});
