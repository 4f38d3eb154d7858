/** What is done about groups that take long: `staleness.overdue`, in every mode. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Overdue } from "../../src/pipeline/batch-choice.ts";
import { type Batch, Coordinator } from "../../src/pipeline/coordinator.ts";
import { TaskSampler } from "../../src/rl/sampler.ts";
import { simulate } from "../../src/simulator/simulate.ts";

const sampler = () =>
  new TaskSampler(
    ["a", "b"].map((name) => ({ name, weight: 1, strata: [{ weight: 1, indices: [...Array(30).keys()] }] })),
    7,
  );

interface Sizes {
  groupSize: number;
  groupsPerStep: number;
  maxLag: number;
  steps: number;
  maxFactor: number;
  overdue: Overdue;
}

interface Played extends Batch {
  /** Of the oldest that is used up. */
  lag: number;
  /** Of the youngest that is dropped. */
  droppedLag: number;
}

type Choose = (n: number) => number;

/** Equal in every second group: silent. */
const rewardOf = (group: number, sample: number) => (group % 2 === 0 ? 1 : sample);
const isStraggler = (group: number) => group % 4 === 3;

/**
 * Plays up to step `until` with two workers, of which one dies now and then. Samples come in any order, those of stragglers
 * only when there are no others.
 */
function play(coordinator: Coordinator, choose: Choose, until: number): Played[] {
  let pending: { group: number; sample: number; worker: number }[] = [];
  const delivered = new Set<number>();
  /** Version of a group's oldest token: what a dead worker was playing is begun anew. */
  const begun = new Map<number, number>();
  const steps: Played[] = [];
  for (let idle = 0; coordinator.version < until; idle++) {
    if (idle > 5_000) throw new Error(`stuck at version ${coordinator.version}`);
    const worker = choose(2);
    for (const { draw, samples } of coordinator.lease(worker, 1 + choose(3))) {
      if (!delivered.has(draw.group)) begun.set(draw.group, coordinator.version);
      for (const sample of samples) pending.push({ group: draw.group, sample, worker });
    }
    if (choose(25) === 0) {
      pending = pending.filter((one) => one.worker !== worker);
      coordinator.workerLost(worker);
    }
    const quick = pending.filter(({ group }) => !isStraggler(group));
    const from = quick.length > 0 ? quick : pending;
    if (from.length > 0) {
      const done = from[choose(from.length)]!;
      pending.splice(pending.indexOf(done), 1);
      delivered.add(done.group);
      coordinator.received(done.group, done.sample, rewardOf(done.group, done.sample), { tokens: 10 });
    }
    const batch = coordinator.nextBatch();
    if (batch === null) continue;
    const lags = (groups: number[]) => groups.map((group) => coordinator.version - begun.get(group)!);
    const used = [...batch.groups, ...batch.spares];
    steps.push({ ...batch, lag: Math.max(...lags(used)), droppedLag: Math.min(...lags(batch.dropped)) });
    coordinator.trained(batch.groups);
    idle = 0;
  }
  return steps;
}

const sizesArbitrary = fc.record({
  groupSize: fc.integer({ min: 2, max: 3 }),
  groupsPerStep: fc.integer({ min: 1, max: 5 }),
  maxLag: fc.integer({ min: 1, max: 4 }),
  steps: fc.integer({ min: 1, max: 12 }),
  maxFactor: fc.constantFrom(1, 1, 2),
});
const chooseFrom = (stream: Iterator<unknown>) => (n: number) => (stream.next().value as number) % n;
const make = (sizes: Sizes, more: { step?: number; trained?: [number, number][] } = {}) =>
  new Coordinator({ sampler: sampler(), ...sizes, ...more });
const batchesOf = (steps: Played[]) => steps.map(({ groups, spares }) => ({ groups, spares }));

/** maxLag and overdue of the modes, async with each of its options. */
const modes: [string, number | null, Overdue][] = [
  ["async, pace", null, "pace"],
  ["async, drop", null, "drop"],
  ["async, wait", null, "wait"],
  ["one-step-off", 1, "wait"],
  ["sync", 0, "pace"],
];

describe.each(modes)("%s", (_, bound, overdue) => {
  it("fills every batch, uses each number once and trains within maxLag, though workers die and some groups take long", () => {
    fc.assert(
      fc.property(sizesArbitrary, fc.infiniteStream(fc.nat()), (some, stream) => {
        const sizes = { ...some, maxLag: bound ?? some.maxLag, overdue };
        const coordinator = make(sizes);
        const steps = play(coordinator, chooseFrom(stream), sizes.steps);
        expect(steps.length).toBe(sizes.steps);
        const used = steps.flatMap(({ groups, spares, dropped }) => [...groups, ...spares, ...dropped]);
        expect(new Set(used).size).toBe(used.length);
        expect(new Set(used)).toEqual(new Set(coordinator.trainedGroups));
        for (const { groups, dropped, lag, droppedLag } of steps) {
          expect(groups.length).toBe(sizes.groupsPerStep);
          expect(lag).toBeLessThanOrEqual(sizes.maxLag);
          // The next step would have been one too many for each.
          if (dropped.length > 0) expect(droppedLag).toBeGreaterThanOrEqual(sizes.maxLag);
        }
        const dropped = steps.reduce((sum, step) => sum + step.dropped.length, 0);
        expect(coordinator.dropped.groups).toBe(dropped);
        if (overdue !== "drop") expect(dropped).toBe(0);
      }),
      { numRuns: 100 },
    );
  });
});

describe("wait", () => {
  it("makes the same batches in whatever order samples arrive, also over a resume", () => {
    const streams = fc.tuple(fc.infiniteStream(fc.nat()), fc.infiniteStream(fc.nat()), fc.infiniteStream(fc.nat()));
    fc.assert(
      fc.property(sizesArbitrary, fc.nat(11), streams, (some, at, [one, other, third]) => {
        const sizes = { ...some, overdue: "wait" } as const;
        const batches = batchesOf(play(make(sizes), chooseFrom(one), sizes.steps));
        const first = make(sizes);
        const step = at % sizes.steps;
        const before = play(first, chooseFrom(other), step);
        const second = make(sizes, { step, trained: first.trainedGroups.ranges() });
        expect(batchesOf([...before, ...play(second, chooseFrom(third), sizes.steps)])).toEqual(batches);
        if (sizes.maxFactor > 1) return;
        // Without spares: batch k is groups k n to (k + 1) n − 1.
        const n = sizes.groupsPerStep;
        const numbers = batches.map((_, k) => [...Array(n).keys()].map((i) => k * n + i));
        expect(batches.map(({ groups }) => groups)).toEqual(numbers);
      }),
      { numRuns: 100 },
    );
  });
});

describe("by hand: two groups a step, at most two versions old, group 0 takes long", () => {
  function begin(overdue: Overdue) {
    const coordinator = new Coordinator({
      ...{ sampler: sampler(), groupSize: 2, groupsPerStep: 2, maxLag: 2, steps: 9 },
      overdue,
    });
    const lease = () => coordinator.lease(0, 99).map(({ draw }) => draw.group);
    const deliver = (...groups: number[]) => {
      for (const group of groups)
        for (const sample of [0, 1]) coordinator.received(group, sample, sample, { tokens: 5 });
    };
    const train = () => {
      const batch = coordinator.nextBatch();
      if (batch !== null) coordinator.trained(batch.groups);
      return batch;
    };
    expect(lease()).toEqual([0, 1, 2, 3, 4, 5]);
    deliver(1, 2, 3, 4, 5);
    return { coordinator, lease, deliver, train };
  }
  const batch = (groups: number[], dropped: number[] = []) => ({ groups, spares: [], dropped });

  it("pace goes on for two steps, and then waits for it", () => {
    const { train, lease, deliver } = begin("pace");
    expect([train(), train()]).toEqual([batch([1, 2]), batch([3, 4])]);
    expect(lease()).toEqual([6, 7, 8, 9]);
    deliver(6, 7, 8, 9);
    expect(train()).toBeNull();
    deliver(0);
    expect(train()).toEqual(batch([0, 5]));
  });

  it("wait waits for it at once", () => {
    const { train, deliver } = begin("wait");
    expect(train()).toBeNull();
    deliver(0);
    expect([train(), train(), train()]).toEqual([batch([0, 1]), batch([2, 3]), batch([4, 5])]);
  });

  it("drop goes on without it, and throws it away when no step could train it any more", () => {
    const { coordinator, train, lease, deliver } = begin("drop");
    expect([train(), train()]).toEqual([batch([1, 2]), batch([3, 4])]);
    // One of two samples came; with version 3, which the batch makes, it is too old.
    coordinator.received(0, 1, 1, { tokens: 7 });
    expect(lease()).toEqual([6, 7, 8, 9]);
    deliver(6);
    expect(train()).toEqual(batch([5, 6], [0]));
    expect(coordinator.dropped).toEqual({ groups: 1, tokens: 7 });
    expect(coordinator.trainedGroups.has(0)).toBe(true);
    // Its other sample is of no use; another group has its place.
    coordinator.received(0, 0, 1, { tokens: 7 });
    expect(lease()).toEqual([10, 11, 12]);
    expect(coordinator.dropped).toEqual({ groups: 1, tokens: 7 });
    deliver(7, 8);
    expect(train()).toEqual(batch([7, 8]));
  });

  it("drop leaves what a dead worker was playing to be begun anew", () => {
    const { coordinator, train, lease, deliver } = begin("drop");
    expect([train(), train()]).toEqual([batch([1, 2]), batch([3, 4])]);
    lease();
    deliver(6, 7, 8, 9);
    coordinator.workerLost(0);
    expect(train()).toEqual(batch([5, 6]));
    expect(lease()).toEqual([0, 10, 11]);
    deliver(0);
    expect(coordinator.nextBatch()).toEqual(batch([7, 8]));
  });
});

describe("simulated runs whose environment sometimes takes a hundred times as long", () => {
  const timing = { environment: { medianMs: 200, p99Ms: 20_000 } };
  const play = (overdue: Overdue, maxLag = 2) => simulate({ steps: 25, seed: 3, overdue, maxLag, timing });

  it("drop throws away what is too old, uses each number once and takes less time than waiting does", async () => {
    const dropping = await play("drop");
    const { droppedGroups } = dropping.lines.at(-1)!;
    expect(dropping.violations).toEqual([]);
    expect(dropping.groups.length).toBe(25 * 4);
    expect(droppedGroups).toBeGreaterThan(0);
    // Used up: what is trained and what is dropped, each once.
    expect(new Set(dropping.groups).size).toBe(25 * 4);
    expect(dropping.used.length).toBe(25 * 4 + droppedGroups);
    // Samples of dropped groups that came nevertheless were of no use.
    expect(dropping.lines.at(-1)!.faults.lateSamples).toBeGreaterThan(0);

    for (const other of [await play("wait"), await play("pace")]) {
      expect(other.violations).toEqual([]);
      expect(other.lines.at(-1)!.droppedGroups).toBe(0);
      expect(other.used.length).toBe(25 * 4);
      expect(other.seconds).toBeGreaterThan(dropping.seconds);
    }
  });

  it("wait trains the groups in the order of issue, one step off as well", async () => {
    for (const maxLag of [2, 1]) {
      const { groups, violations } = await play("wait", maxLag);
      expect(violations).toEqual([]);
      expect(groups).toEqual([...Array(25 * 4).keys()]);
    }
  });
});
