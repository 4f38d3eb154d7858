/** Groups for the tests of estimators: turns with observations between them, built from a few numbers a turn. */
import fc from "fast-check";
import type { Advantages, Estimator, Sample } from "../../../src/rl/advantages/estimator.ts";
import { trainedReward } from "../../../src/rl/rewards.ts";
import type { Trajectory } from "../../../src/rl/trajectory.ts";
import { trajectory } from "../trajectories.ts";

export interface TurnSpec {
  /** What the turn was shown; the same number is the same observation. The first turn is shown the prompt instead. */
  state: number;
  /** Tokens said. */
  said: number;
  reward: number;
  /** The tokens are another policy's, so only context. */
  external?: boolean;
}

export interface SampleSpec {
  turns: TurnSpec[];
  endReason?: Trajectory["endReason"];
}

export interface Build {
  task?: string;
  /** Factor on the length of everything that is not sampled. */
  stretch?: number;
  /** Weight versions rise along the trajectory instead of being 0. */
  versions?: boolean;
  penalty?: number;
}

export function sample({ turns, endReason = "completed" }: SampleSpec, build: Build = {}): Sample {
  const { task = "dbbench", stretch = 1, versions = false, penalty = -0.2 } = build;
  const tokens: number[] = [];
  const mask: number[] = [];
  const add = (token: number, count: number, sampled: number) => {
    for (let i = 0; i < count; i++) {
      tokens.push(token);
      mask.push(sampled);
    }
  };
  const spans: Trajectory["turns"] = [];
  for (const [k, { state, said, reward, external }] of turns.entries()) {
    add(k === 0 ? 1 : 100 + state, stretch * (k === 0 ? 3 : 1 + state), 0);
    const start = tokens.length;
    add(10 + k, said, external ? 0 : 1);
    spans.push({ start, end: tokens.length, reward, parseFailure: false });
  }
  add(2, stretch, 0);
  const stamps = versions ? { version: mask.map((_, t) => t), oldest: mask.map((_, t) => t >> 1) } : {};
  const total = turns.reduce((sum, turn) => sum + turn.reward, 0);
  const made = {
    ...trajectory({ mask, endReason, task, ...stamps }),
    tokens: Uint32Array.from(tokens),
    turns: spans,
    reward: total,
  };
  return { trajectory: made, reward: trainedReward(made, penalty) };
}

export interface GroupSpec {
  task: string;
  samples: SampleSpec[];
}

export function groupsOf(specs: readonly GroupSpec[], build: Build = {}): Sample[][] {
  return specs.map(({ task, samples }) => samples.map((spec) => sample(spec, { ...build, task })));
}

const turnSpec: fc.Arbitrary<TurnSpec> = fc.record({
  state: fc.integer({ min: 0, max: 2 }),
  said: fc.integer({ min: 1, max: 4 }),
  reward: fc.integer({ min: -4, max: 4 }).map((quarters) => quarters / 4),
});

/** Episodes of 1-4 turns, one in four incomplete, two groups or more of two samples or more, of two tasks. */
export const groupSpecs: fc.Arbitrary<GroupSpec[]> = fc.array(
  fc.record({
    task: fc.constantFrom("dbbench", "os"),
    samples: fc.array(
      fc.record({
        turns: fc.array(turnSpec, { minLength: 1, maxLength: 4 }),
        endReason: fc.constantFrom<Trajectory["endReason"]>("completed", "completed", "completed", "turn limit"),
      }),
      { minLength: 2, maxLength: 5 },
    ),
  }),
  { minLength: 2, maxLength: 5 },
);

/** Advantages of the sampled tokens, in order of samples and tokens. */
export function onTokens(groups: readonly (readonly Sample[])[], advantages: Advantages): number[][] {
  return groups.flat().map(({ trajectory }) => {
    return [...advantages.get(trajectory)!].filter((_, t) => trajectory.sampled[t] === 1);
  });
}

export function estimate(estimator: Estimator, groups: readonly (readonly Sample[])[]): number[][] {
  return onTokens(groups, estimator(groups));
}
