import fc from "fast-check";
import { expect, it } from "vitest";
import { type Candidate, chooseBatch, keepsDeadlines } from "../../src/pipeline/batch-choice.ts";

const candidates = fc
  .array(
    fc.record({
      task: fc.nat(2),
      startVersion: fc.integer({ min: 3, max: 6 }),
      complete: fc.boolean(),
      silent: fc.boolean(),
    }),
    { maxLength: 8 },
  )
  .map((groups) =>
    groups.map((group, i): Candidate => ({ ...group, group: i, silent: group.complete && group.silent })),
  );

/** Every choice of `size` of the groups. */
function choices<T>(from: readonly T[], size: number): T[][] {
  if (size === 0) return [[]];
  return from.flatMap((one, i) => choices(from.slice(i + 1), size - 1).map((rest) => [one, ...rest]));
}

/** Whether all can be trained in time: tries every schedule, a batch a step. */
function schedulable(left: readonly Candidate[], step: number, size: number, maxLag: number): boolean {
  if (left.length === 0) return true;
  if (left.some((group) => group.startVersion + maxLag < step)) return false;
  const most = Math.min(size, left.length);
  return choices(left, most).some((batch) =>
    schedulable(
      left.filter((group) => !batch.includes(group)),
      step + 1,
      size,
      maxLag,
    ),
  );
}

it("what is left over can be trained in time exactly when some schedule does it", () => {
  fc.assert(
    fc.property(candidates, fc.integer({ min: 1, max: 3 }), fc.nat(3), (groups, size, maxLag) => {
      const step = 5;
      expect(keepsDeadlines(groups, { step, size, maxLag })).toBe(schedulable(groups, step + 1, size, maxLag));
    }),
    { numRuns: 200 },
  );
});

it("a batch keeps the deadlines; it holds each task's share, unless every batch that does misses a deadline", () => {
  const all = fc.tuple(fc.nat(2), fc.nat(2), fc.nat(1));
  fc.assert(
    fc.property(candidates, all, fc.nat(3), (groups, quotas, maxLag) => {
      const size = Math.max(1, quotas[0] + quotas[1] + quotas[2]);
      const options = { step: 5, size, maxLag };
      const ofTask = (list: readonly Candidate[], task: number) => list.filter((group) => group.task === task).length;
      const wanted = quotas.map((quota, task) => Math.min(quota, ofTask(groups, task)));
      const shares = (batch: readonly Candidate[]) => wanted.every((count, task) => ofTask(batch, task) >= count);
      const complete = groups.filter((group) => group.complete);
      const inTime = choices(complete, size).filter((batch) =>
        keepsDeadlines(
          groups.filter((group) => !batch.includes(group)),
          options,
        ),
      );
      const batch = chooseBatch(groups, { ...options, quotas });
      if (batch === null) {
        // It waits for groups, or for deadlines that groups being played may miss: never where all is complete and in time.
        if (groups.every((group) => group.complete) && complete.length >= size) expect(inTime).toEqual([]);
        return;
      }
      expect(new Set(batch).size).toBe(size);
      expect(batch.every((group) => group.complete)).toBe(true);
      expect(inTime.some((other) => other.every((group) => batch.includes(group)))).toBe(true);
      if (!shares(batch)) expect(inTime.filter(shares)).toEqual([]);
    }),
    { numRuns: 500 },
  );
});

it("by hand: groups with a signal first, the share before them, the oldest of each", () => {
  const group = (number: number, task: number, silent = false): Candidate => ({
    group: number,
    task,
    startVersion: 5,
    complete: true,
    silent,
  });
  const groups = [group(0, 0, true), group(1, 0), group(2, 1, true), group(3, 1, true), group(4, 0)];
  const numbers = (quotas: number[]) =>
    chooseBatch(groups, { step: 5, size: 2, maxLag: 9, quotas })!.map(({ group: number }) => number);
  expect(numbers([])).toEqual([1, 4]);
  expect(numbers([0, 1])).toEqual([2, 1]);
  // Two of the task are still being played, and may make up its share.
  const played = [...groups.slice(0, 2), { ...group(2, 1), complete: false }];
  expect(chooseBatch(played, { step: 5, size: 2, maxLag: 9, quotas: [0, 1] })).toBeNull();
});
