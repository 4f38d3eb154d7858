import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gatherScored, packMicroBatches, sampledCount } from "../../src/rl/batch.ts";
import { trajectory } from "./trajectories.ts";

const masks = fc.array(
  fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 40 }).map((mask) => [0, ...mask]),
  { minLength: 1, maxLength: 8 },
);

describe("packMicroBatches", () => {
  it("scores every sampled token exactly once, at the row before it, in any split", () => {
    fc.assert(
      fc.property(masks, fc.integer({ min: 48, max: 200 }), (all, maxRows) => {
        const trajectories = all.map((mask, sample) => trajectory({ mask, sample }));
        const seen = new Map<object, number[]>();
        for (const { items, batch } of packMicroBatches(trajectories, maxRows)) {
          expect(batch.tokens.length).toBeLessThanOrEqual(maxRows);
          expect(batch.offsets.at(-1)).toBe(batch.tokens.length);
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

  it("gathers per-token values in the order of the targets", () => {
    const one = trajectory({ mask: [0, 1, 0, 0, 1, 1, 0] });
    const two = trajectory({ mask: [0, 0, 1], sample: 1 });
    const [{ items, batch }] = packMicroBatches([one, two], 100) as [ReturnType<typeof packMicroBatches>[number]];
    const expected = [1, 4, 5].map((i) => one.logProbs[i]).concat(two.logProbs[2]);
    expect([...gatherScored(items, (t, i) => t.logProbs[i]!)]).toEqual(expected);
    expect(batch.tokens.length).toBe(5 + 2);
    expect(sampledCount(one)).toBe(3);
  });

  it("leaves out trajectories without a sampled token and cuts at a limit", () => {
    const one = trajectory({ mask: [0, 1, 1, 0, 1] });
    expect(packMicroBatches([trajectory({ mask: [0, 0, 0] })], 50)).toEqual([]);
    const [cut] = packMicroBatches([one], 50, () => 2);
    expect(cut!.batch.targets).toEqual(one.tokens.slice(1, 3));
    expect(cut!.batch.tokens.length).toBe(2);
  });
});
