/** Token batches for tests: drawn by fast-check, cut by trajectory, and read from test/golden/rl/objectives.json. */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { cispo } from "../../../src/rl/objectives/cispo.ts";
import { dppo } from "../../../src/rl/objectives/dppo.ts";
import { gspo } from "../../../src/rl/objectives/gspo.ts";
import type { Objective, TokenBatch } from "../../../src/rl/objectives/objective.ts";
import { ppo } from "../../../src/rl/objectives/ppo.ts";
import { sapo } from "../../../src/rl/objectives/sapo.ts";

/**
 * Every objective, with bands wide enough that a drawn batch lies on all their sides. `detached`: the ratio is held
 * constant, and the gradient is that of log π alone. `perSequence`: a token's gradient is its trajectory's mean.
 */
export const objectives: { name: string; objective: Objective; detached?: boolean; perSequence?: boolean }[] = [
  { name: "ppo", objective: ppo() },
  { name: "ppo with dual clip", objective: ppo({ clipLow: 0.2, clipHigh: 0.28, dualClip: 2 }) },
  { name: "gspo", objective: gspo({ clipLow: 0.1, clipHigh: 0.2 }), perSequence: true },
  { name: "cispo", objective: cispo({ clipLow: 0.3, clipHigh: 1 }), detached: true },
  { name: "sapo", objective: sapo() },
  { name: "dppo, tv", objective: dppo({ divergence: "tv" }), detached: true },
  { name: "dppo, kl", objective: dppo({ divergence: "kl" }), detached: true },
];

const unit = { noNaN: true, noDefaultInfinity: true } as const;
const token = fc.record({
  logProb: fc.double({ ...unit, min: -3, max: -0.05 }),
  drift: fc.double({ ...unit, min: -1.5, max: 1.5 }),
  reference: fc.double({ ...unit, min: -3, max: -0.05 }),
  advantage: fc.oneof(fc.constant(0), fc.double({ ...unit, min: -2, max: 2 })),
  entropy: fc.double({ ...unit, min: 0, max: 4 }),
  keptMass: fc.oneof(fc.constant(1), fc.double({ ...unit, min: 0.2, max: 1 })),
  weight: fc.oneof(fc.constant(1), fc.constant(0), fc.double({ ...unit, min: 0.1, max: 3 })),
  scale: fc.double({ ...unit, min: 0.01, max: 0.1 }),
});

/** Some trajectories of some tokens, one of them at times empty. */
export const anyBatch: fc.Arbitrary<TokenBatch> = fc
  .array(fc.array(token, { maxLength: 6 }), { minLength: 1, maxLength: 5 })
  .map((trajectories) => {
    const tokens = trajectories.flat();
    const of = (value: (one: (typeof tokens)[number]) => number) => Float32Array.from(tokens, value);
    const offsets = [0];
    for (const one of trajectories) offsets.push(offsets.at(-1)! + one.length);
    return {
      logProbs: of((one) => one.logProb),
      entropies: of((one) => one.entropy),
      behaviour: of((one) => one.logProb - one.drift),
      proximal: of((one) => one.logProb - one.drift / 2),
      reference: of((one) => one.reference),
      keptMass: of((one) => one.keptMass),
      advantages: of((one) => one.advantage),
      scales: of((one) => one.scale),
      weights: of((one) => one.weight),
      offsets: Uint32Array.from(offsets),
    };
  });

const perToken = [
  "logProbs",
  "entropies",
  "behaviour",
  "proximal",
  "reference",
  "keptMass",
  "advantages",
  "scales",
  "weights",
] as const;

/** The trajectories named, in that order, as a batch of their own. */
export function select(batch: TokenBatch, trajectories: readonly number[]): TokenBatch {
  const tokens = tokensOf(batch, trajectories);
  const offsets = [0];
  for (const s of trajectories) offsets.push(offsets.at(-1)! + batch.offsets[s + 1]! - batch.offsets[s]!);
  const arrays = perToken.map((name) => [name, Float32Array.from(tokens, (t) => batch[name]![t]!)]);
  return { ...Object.fromEntries(arrays), offsets: Uint32Array.from(offsets) } as TokenBatch;
}

/** Positions of the tokens of the trajectories named, in that order. */
export function tokensOf(batch: Pick<TokenBatch, "offsets">, trajectories: readonly number[]): number[] {
  return trajectories.flatMap((s) => {
    const start = batch.offsets[s]!;
    return Array.from({ length: batch.offsets[s + 1]! - start }, (_, i) => start + i);
  });
}

type Grid = number[][];
type BatchGrids = Record<"advantages" | "scales" | "keptMass" | "weights" | "proximal", Grid>;

export interface Golden {
  mask: Grid;
  logProbs: Grid;
  behaviour: Grid;
  proximal: Grid;
  reference: Grid;
  entropies: Grid;
  batches: Record<"mixed" | "flat", BatchGrids>;
  objectives: {
    objective: string;
    options: object;
    batch: "mixed" | "flat";
    source: "verl" | "paper";
    loss: number;
    dLogProbs: Grid;
  }[];
  corrections: { correction: string; options: object; source: "verl" | "paper"; weights: Grid }[];
  interpolated: { versions: Grid; current: number; proximal: Grid };
}

/** Reads what test/golden/rl/make-objectives.py wrote. */
export function readGolden(): Golden {
  return JSON.parse(readFileSync(new URL("../../golden/rl/objectives.json", import.meta.url), "utf8"));
}

/** The sampled entries of a grid, trajectories end to end: gaps and padding fall away, as in packing. */
export function scored({ mask }: Golden, grid: Grid): Float32Array {
  return Float32Array.from(grid.flatMap((row, s) => row.filter((_, t) => mask[s]![t] === 1)));
}

export function goldenBatch(golden: Golden, name: "mixed" | "flat"): TokenBatch {
  const offsets = [0];
  for (const row of golden.mask) offsets.push(offsets.at(-1)! + row.reduce((sum, flag) => sum + flag, 0));
  const own = golden.batches[name];
  return {
    logProbs: scored(golden, golden.logProbs),
    entropies: scored(golden, golden.entropies),
    behaviour: scored(golden, golden.behaviour),
    reference: scored(golden, golden.reference),
    proximal: scored(golden, own.proximal),
    keptMass: scored(golden, own.keptMass),
    advantages: scored(golden, own.advantages),
    scales: scored(golden, own.scales),
    weights: scored(golden, own.weights),
    offsets: Uint32Array.from(offsets),
  };
}

/**
 * Largest difference over the larger magnitude, element by element. What is below 1e-10 of the largest element counts by
 * that: 1 - σ(x) of a closed gate is all rounding in the reference.
 */
export function relativeDifference(got: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (got.length !== expected.length) throw new Error(`lengths differ: ${got.length} and ${expected.length}`);
  const floor = 1e-10 * Math.max(0, ...Array.from(expected, Math.abs));
  return Math.max(
    0,
    ...Array.from(expected, (value, i) => {
      const difference = Math.abs(got[i]! - value);
      return difference === 0 ? 0 : difference / Math.max(Math.abs(value), Math.abs(got[i]!), floor);
    }),
  );
}
