import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gatherScored, packMicroBatches, sampledCount, scoredOffsets } from "../../src/rl/batch.ts";
import type { Trajectory } from "../../src/rl/trajectory.ts";
import { trajectory } from "./trajectories.ts";

const masks = fc.array(
  fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 40 }).map((mask) => [0, ...mask]),
  { minLength: 1, maxLength: 8 },
);

/** Groups of samples: tokens of each sample's group prompt up to `common`, then its own; `mask` from its own on. */
const groups = fc.array(
  fc.array(
    fc.record({
      common: fc.integer({ min: 1, max: 30 }),
      mask: fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 20 }),
    }),
    { minLength: 1, maxLength: 5 },
  ),
  { minLength: 1, maxLength: 4 },
);

function samplesOf(all: { common: number; mask: number[] }[][]): Trajectory[] {
  return all.flatMap((samples, group) => {
    const prompt = trajectory({ mask: Array(30).fill(0), group, sample: 99, vocab: 3 }).tokens;
    return samples.map(({ common, mask }, sample) => {
      const one = trajectory({ mask: [...Array(common).fill(0), ...mask], group, sample, vocab: 3 });
      one.tokens.set(prompt.subarray(0, common));
      return one;
    });
  });
}

describe("packMicroBatches", () => {
  it("scores every sampled token exactly once, at the row before it, in any split", () => {
    fc.assert(
      fc.property(masks, fc.integer({ min: 48, max: 200 }), (all, maxRows) => {
        const trajectories = all.map((mask, sample) => trajectory({ mask, sample }));
        const seen = new Map<object, number[]>();
        for (const { items, batch } of packMicroBatches(trajectories, { maxRows })) {
          expect(batch.tokens.length).toBeLessThanOrEqual(maxRows);
          expect(batch.offsets.at(-1)).toBe(batch.tokens.length);
          expect(batch.source).toBeUndefined();
          for (const [s, item] of items.entries()) {
            const [from, to] = [batch.offsets[s]!, batch.offsets[s + 1]!];
            const tokens = item.trajectory.tokens;
            expect([...batch.tokens.subarray(from, to)]).toEqual([...tokens.subarray(0, to - from)]);
            const places: number[] = [];
            for (const [j, row] of batch.scoredRows.entries()) {
              if (row < from || row >= to) continue;
              expect(batch.targets[j]).toBe(tokens[row - from + 1]);
              places.push(row - from + 1);
            }
            seen.set(item.trajectory, places);
          }
        }
        for (const one of trajectories) {
          const sampled = [...one.sampled.keys()].filter((i) => one.sampled[i] === 1);
          expect(seen.get(one) ?? []).toEqual(sampled);
        }
      }),
    );
  });

  it("shares prompts within a group and micro-batch, never a scored row, and keeps every trajectory whole", () => {
    fc.assert(
      fc.property(groups, fc.integer({ min: 50, max: 120 }), fc.integer({ min: 1, max: 150 }), (all, maxRows, more) => {
        const trajectories = samplesOf(all);
        const limits = { maxRows, maxSpread: maxRows + more };
        const packed = packMicroBatches(trajectories, limits);
        const order = packed.flatMap(({ items }) => items.map((item) => item.trajectory));
        expect(order).toEqual(trajectories.filter((one) => sampledCount(one) > 0));
        for (const { items, batch } of packed) {
          const { tokens, offsets, scoredRows, targets } = batch;
          const spread = offsets.at(-1)!;
          expect(tokens.length).toBeLessThanOrEqual(limits.maxRows);
          expect(spread).toBeLessThanOrEqual(limits.maxSpread);
          const source = batch.source ?? Uint32Array.from({ length: spread }, (_, at) => at);
          const users = new Map<number, Trajectory[]>();
          let scored = 0;
          for (const [s, { trajectory: one, rows }] of items.entries()) {
            const held = source.subarray(offsets[s]!, offsets[s + 1]!);
            expect(held.length).toBe(rows);
            expect(Array.from(held, (row) => tokens[row])).toEqual([...one.tokens.subarray(0, rows)]);
            for (const row of held) users.set(row, [...(users.get(row) ?? []), one]);
            for (let i = 1; i <= rows; i++) {
              if (one.sampled[i] !== 1) continue;
              expect([scoredRows[scored], targets[scored]]).toEqual([held[i - 1], one.tokens[i]]);
              scored++;
            }
          }
          expect(scoredRows.length).toBe(scored);
          for (const row of scoredRows) expect(users.get(row)).toHaveLength(1);
          expect([...users.keys()].sort((a, b) => a - b)).toEqual([...tokens.keys()]);
          for (const group of users.values()) expect(new Set(group.map((one) => one.group)).size).toBe(1);
        }
      }),
    );
  });

  it("packs every context of an edited history by itself, and all of a trajectory's into one micro-batch", () => {
    const rows = fc.array(fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 9 }), {
      minLength: 1,
      maxLength: 4,
    });
    fc.assert(
      fc.property(fc.array(rows, { minLength: 1, maxLength: 6 }), fc.integer({ min: 40, max: 90 }), (all, maxRows) => {
        const trajectories = all.map((masks, sample) => {
          // A first token of a context is never sampled.
          const one = trajectory({ mask: masks.flatMap((mask) => [0, ...mask]), sample });
          const ends = masks.map((_, row) => masks.slice(0, row + 1).reduce((sum, mask) => sum + mask.length + 1, 0));
          return { ...one, rowStarts: ends.slice(0, -1) };
        });
        const seen = new Map<Trajectory, number[]>();
        const batchesOf = new Map<Trajectory, Set<number>>();
        for (const [b, { items, batch }] of packMicroBatches(trajectories, { maxRows }).entries()) {
          expect(batch.tokens.length).toBeLessThanOrEqual(maxRows);
          const together = items.map((item) => item.trajectory).filter((one, i, list) => one !== list[i - 1]);
          expect(scoredOffsets(items).length).toBe(together.length + 1);
          for (const [s, { trajectory: one, start }] of items.entries()) {
            const [from, to] = [batch.offsets[s]!, batch.offsets[s + 1]!];
            expect([0, ...one.rowStarts!]).toContain(start);
            expect([...batch.tokens.subarray(from, to)]).toEqual([...one.tokens.subarray(start, start + to - from)]);
            const places = [...batch.scoredRows]
              .filter((row) => row >= from && row < to)
              .map((row) => row - from + start + 1);
            seen.set(one, [...(seen.get(one) ?? []), ...places]);
            batchesOf.set(one, (batchesOf.get(one) ?? new Set()).add(b));
          }
        }
        for (const one of trajectories) {
          expect(seen.get(one) ?? []).toEqual([...one.sampled.keys()].filter((i) => one.sampled[i] === 1));
          expect(batchesOf.get(one)?.size ?? 1).toBe(1);
        }
      }),
    );
  });

  it("computes the prompt of a group once", () => {
    // Prompts of 6 tokens: 5 rows to share, and the row that predicts the first sampled token for each sample.
    const group = [3, 1, 2].map((own) => ({ common: 6, mask: Array(own).fill(1) }));
    const trajectories = samplesOf([group, [{ common: 6, mask: [1, 1] }]]);
    const [first, ...rest] = packMicroBatches(trajectories, { maxRows: 24, maxSpread: 48 });
    expect(rest).toEqual([]);
    expect(first!.batch.tokens.length).toBe(8 + 1 + 2 + 7);
    expect([...first!.batch.source!.subarray(8, 14)]).toEqual([0, 1, 2, 3, 4, 8]);
    expect([...first!.batch.scoredRows]).toEqual([5, 6, 7, 8, 9, 10, 16, 17]);
    // A limit of attention rows ends the micro-batch, and the next begins with a prompt of its own.
    const split = packMicroBatches(trajectories, { maxRows: 12, maxSpread: 14 });
    expect(split.map(({ batch }) => batch.tokens.length)).toEqual([8 + 1, 7, 7]);
  });

  it("gathers per-token values in the order of the targets", () => {
    const one = trajectory({ mask: [0, 1, 0, 0, 1, 1, 0] });
    const two = trajectory({ mask: [0, 0, 1], sample: 1 });
    const [{ items, batch }] = packMicroBatches([one, two], { maxRows: 100 }) as [
      ReturnType<typeof packMicroBatches>[number],
    ];
    const expected = [1, 4, 5].map((i) => one.logProbs[i]).concat(two.logProbs[2]);
    expect([...gatherScored(items, (t, i) => t.logProbs[i]!)]).toEqual(expected);
    expect(batch.tokens.length).toBe(5 + 2);
    expect(sampledCount(one)).toBe(3);
  });

  it("leaves out trajectories without a sampled token", () => {
    expect(packMicroBatches([trajectory({ mask: [0, 0, 0] })], { maxRows: 50 })).toEqual([]);
  });
});
