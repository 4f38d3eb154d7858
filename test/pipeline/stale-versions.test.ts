import { afterEach, describe, expect, it } from "vitest";
import { mostHeld, StaleHolds, staleVersion, staleVersions } from "../../src/pipeline/stale-versions.ts";
import { WeightBoard } from "../../src/shm/weight-board.ts";

const boards: WeightBoard[] = [];
afterEach(() => {
  for (const board of boards.splice(0)) {
    board.close();
    board.unlink();
  }
});

/** Publishes versions 0 to `last` of one number each, which is the version. */
function publish(last: number, options: { intervals: number[]; maxLag: number; slots: number }) {
  const name = `/agentrl-test-${process.pid}-stale-${boards.length}`;
  const board = WeightBoard.create({ name, slots: options.slots, bytes: 4 });
  boards.push(board);
  const holds = new StaleHolds(board, options.intervals, options.maxLag);
  const seen: number[][] = [];
  for (let version = 0; version <= last; version++) {
    const slot = board.beginWrite();
    slot.data[0] = version;
    board.publish(slot, version);
    holds.advance(version);
    seen.push(board.versions().map((entry) => entry.version));
  }
  return { holds, seen };
}

describe("a stale copy", () => {
  it("stands at the last refresh", () => {
    expect([0, 1, 4, 5, 6, 9, 10].map((version) => staleVersion(version, 5))).toEqual([0, 0, 0, 5, 5, 5, 10]);
    expect(staleVersions(10, [3, 4, 5])).toEqual([8, 9]);
  });

  it.each([
    { intervals: [5], maxLag: 0 },
    { intervals: [2, 7], maxLag: 3 },
    { intervals: [40], maxLag: 4 },
  ])("is on the board, as long as a group begun with it may wait to be trained: %o", ({ intervals, maxLag }) => {
    // As many slots as a plan gives.
    const slots = maxLag + 4 + mostHeld(intervals, maxLag);
    const { holds, seen } = publish(60, { intervals, maxLag, slots });
    for (const [version, there] of seen.entries()) {
      for (const every of intervals) {
        // A group that was begun up to maxLag versions ago, with what the copy stood at then.
        for (let begun = Math.max(0, version - maxLag); begun <= version; begun++) {
          expect(there).toContain(staleVersion(begun, every));
        }
      }
    }
    expect([...holds.copies(60)].map(([version, data]) => [version, data[0]])).toEqual(
      staleVersions(60, intervals).map((version) => [version, version]),
    );
  });

  it("leaves room for new versions on a board that cannot hold all that are in flight", () => {
    const { seen } = publish(300, { intervals: [2], maxLag: 5000, slots: 64 });
    expect(seen.at(-1)).toEqual(expect.arrayContaining([297, 298, 299, 300]));
    expect(seen.at(-1)!.length).toBe(64);
  });
});
