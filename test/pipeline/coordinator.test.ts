import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Batch, Coordinator, type SamplingState } from "../../src/pipeline/coordinator.ts";
import { fromRanges, toRanges } from "../../src/pipeline/messages.ts";
import { AdaptiveWeights } from "../../src/rl/adaptive-sampling.ts";
import { TaskSampler } from "../../src/rl/sampler.ts";

const taskSampler = () =>
  new TaskSampler(
    [
      { name: "a", weight: 3, strata: [{ weight: 1, indices: [...Array(50).keys()] }] },
      { name: "b", weight: 1, strata: [{ weight: 1, indices: [...Array(20).keys()] }] },
    ],
    7,
  );
const sampler = taskSampler();

interface Sizes {
  groupSize: number;
  groupsPerStep: number;
  maxLag: number;
  steps: number;
  workers: number;
  maxFactor?: number;
}

interface Step extends Batch {
  lag: number;
}

type Choose = (n: number) => number;

/** Rewards depend on group and sample alone, as those of an environment do; with `equal` of 4, so many groups are silent. */
const rewardOf = (group: number, sample: number, equal: number) => ((group * 7 + 3) % 4 < equal ? 1 : sample % 2);

/**
 * Runs the bookkeeping against workers that deliver in random order and die at random, up to `until` steps; returns what was
 * trained with which lag.
 */
function simulate(coordinator: Coordinator, sizes: Sizes, choose: Choose, equal = 0, until = sizes.steps) {
  const pending: { group: number; sample: number; worker: number; version: number }[] = [];
  const oldest = new Map<number, number>();
  const steps: Step[] = [];
  let idle = 0;
  while (coordinator.version < until) {
    const worker = choose(sizes.workers);
    for (const { draw, samples } of coordinator.lease(worker, choose(3))) {
      for (const sample of samples) {
        pending.push({ group: draw.group, sample, worker, version: coordinator.version });
      }
    }
    if (choose(20) === 0) {
      for (let i = pending.length - 1; i >= 0; i--) if (pending[i]!.worker === worker) pending.splice(i, 1);
      coordinator.workerLost(worker);
    }
    if (pending.length > 0) {
      const [done] = pending.splice(choose(pending.length), 1);
      const { group, sample, version } = done!;
      // The sample's own record holds the version it started under.
      oldest.set(group, Math.min(oldest.get(group) ?? Number.POSITIVE_INFINITY, version));
      const reward = rewardOf(group, sample, equal);
      coordinator.received(group, sample, reward);
      if (choose(4) === 0) coordinator.received(group, sample, reward);
    }
    const batch = coordinator.nextBatch();
    if (batch !== null) {
      const used = [...batch.groups, ...batch.spares];
      const lag = Math.max(...used.map((group) => coordinator.version - oldest.get(group)!));
      steps.push({ ...batch, lag });
      coordinator.trained(batch.groups);
      idle = 0;
    } else if (++idle > 20_000) {
      throw new Error(`stuck at version ${coordinator.version}`);
    }
  }
  return steps;
}

function speaks(group: number, { groupSize }: Sizes, equal: number): boolean {
  return new Set(Array.from({ length: groupSize }, (_, sample) => rewardOf(group, sample, equal))).size > 1;
}

const sizesArbitrary = fc.record({
  groupSize: fc.integer({ min: 1, max: 4 }),
  groupsPerStep: fc.integer({ min: 1, max: 5 }),
  maxLag: fc.integer({ min: 0, max: 4 }),
  steps: fc.integer({ min: 1, max: 12 }),
  workers: fc.integer({ min: 1, max: 3 }),
});
const chooseFrom = (stream: Iterator<unknown>) => (n: number) => (n === 0 ? 0 : (stream.next().value as number) % n);
const upTo = (n: number) => [...Array(n).keys()];
const sorted = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b);

describe("Coordinator", () => {
  it("trains every group number once, within maxLag, and never gets stuck, though workers die", () => {
    fc.assert(
      fc.property(sizesArbitrary, fc.nat(4), fc.infiniteStream(fc.nat()), (sizes, equal, stream) => {
        const steps = simulate(new Coordinator({ sampler, ...sizes }), sizes, chooseFrom(stream), equal);
        const all = steps.flatMap((step) => step.groups);
        expect(sorted(all)).toEqual(upTo(sizes.steps * sizes.groupsPerStep));
        for (const step of steps) expect(step.lag).toBeLessThanOrEqual(sizes.maxLag);
      }),
      { numRuns: 300 },
    );
  });

  it("uses a group that is given up as none, and issues another number for it: every batch is full, within maxLag", () => {
    fc.assert(
      fc.property(sizesArbitrary, fc.infiniteStream(fc.nat()), (sizes, stream) => {
        const coordinator = new Coordinator({ sampler, ...sizes });
        const abandoned: number[] = [];
        const choose = chooseFrom(stream);
        const steps = simulate(coordinator, sizes, (n) => {
          const oldest = coordinator.incomplete()[0];
          // A tenth of the groups, so that the run comes to its end.
          if (oldest !== undefined && oldest % 10 === 3 && coordinator.abandon(oldest) !== null) abandoned.push(oldest);
          return choose(n);
        });
        const trained = steps.flatMap((step) => step.groups);
        expect(trained.length).toBe(sizes.steps * sizes.groupsPerStep);
        expect(new Set([...trained, ...abandoned]).size).toBe(trained.length + abandoned.length);
        expect(sorted([...coordinator.trainedGroups])).toEqual(sorted([...trained, ...abandoned]));
        for (const step of steps) expect(step.lag).toBeLessThanOrEqual(sizes.maxLag);
      }),
      { numRuns: 200 },
    );
  });

  it("counts the groups of a task that are given up beyond those that are played to their end", () => {
    const coordinator = new Coordinator({ sampler, groupSize: 2, groupsPerStep: 12, maxLag: 0, steps: 1 });
    const ofTask = (task: number) => leases.filter(({ draw }) => draw.task === task).map(({ draw }) => draw.group);
    const leases = coordinator.lease(0, 12);
    const [a, b] = [ofTask(0), ofTask(1)];
    expect(coordinator.abandon(a[0]!)).toEqual({ task: 0, surplus: 1 });
    expect(coordinator.abandon(a[1]!)).toEqual({ task: 0, surplus: 2 });
    expect(coordinator.abandon(b[0]!)).toEqual({ task: 1, surplus: 1 });
    // One sample of a group says little: the other may fail.
    coordinator.received(a[2]!, 0, 1);
    expect(coordinator.abandon(a[3]!)).toEqual({ task: 0, surplus: 3 });
    coordinator.received(a[2]!, 1, 1);
    expect(coordinator.abandon(a[4]!)).toEqual({ task: 0, surplus: 3 });
    expect(coordinator.abandon(b[1]!)).toEqual({ task: 1, surplus: 2 });
    // Not twice, not what is complete, not what was never issued.
    expect([a[0]!, a[2]!, 900].map((group) => coordinator.abandon(group))).toEqual([null, null, null]);
  });

  describe("with dynamic sampling", () => {
    const dynamic = sizesArbitrary.chain((sizes) =>
      fc.record({
        sizes: fc.constant({ ...sizes, groupSize: Math.max(2, sizes.groupSize) }),
        maxFactor: fc.constantFrom(1.5, 2, 3),
        equal: fc.nat(4),
      }),
    );

    it("uses every number up once, within maxLag; silent groups fill a batch only when its spares are used up", () => {
      fc.assert(
        fc.property(dynamic, fc.infiniteStream(fc.nat()), ({ sizes, maxFactor, equal }, stream) => {
          const coordinator = new Coordinator({ sampler, ...sizes, maxFactor });
          const steps = simulate(coordinator, sizes, chooseFrom(stream), equal);
          const used = steps.flatMap((step) => [...step.groups, ...step.spares]);
          expect(new Set(used).size).toBe(used.length);
          expect(sorted(used)).toEqual(sorted([...coordinator.trainedGroups]));
          const most = Math.floor((maxFactor - 1) * sizes.groupsPerStep);
          for (const { groups, spares, lag } of steps) {
            expect(groups.length).toBe(sizes.groupsPerStep);
            expect(lag).toBeLessThanOrEqual(sizes.maxLag);
            expect(spares.length).toBeLessThanOrEqual(most);
            expect(spares.filter((group) => speaks(group, sizes, equal))).toEqual([]);
            if (spares.length < most) expect(groups.filter((group) => !speaks(group, sizes, equal))).toEqual([]);
          }
        }),
        { numRuns: 300 },
      );
    });

    it("goes on after a resume with the numbers that were not used up, each once, within maxLag", () => {
      fc.assert(
        fc.property(dynamic, fc.nat(11), fc.infiniteStream(fc.nat()), ({ sizes, maxFactor, equal }, at, stream) => {
          const choose = chooseFrom(stream);
          const until = at % sizes.steps;
          const first = new Coordinator({ sampler, ...sizes, maxFactor });
          const before = simulate(first, sizes, choose, equal, until);
          const trained = toRanges(first.trainedGroups);
          const second = new Coordinator({ sampler, ...sizes, maxFactor, step: until, trained });
          const after = simulate(second, sizes, choose, equal);
          const used = [...before, ...after].flatMap((step) => [...step.groups, ...step.spares]);
          expect(new Set(used).size).toBe(used.length);
          expect(before.length + after.length).toBe(sizes.steps);
          for (const step of after) expect(step.lag).toBeLessThanOrEqual(sizes.maxLag);
          // Nothing below the largest number is left out but what was on its way when the run ended.
          const open = upTo(Math.max(...used)).filter((number) => !used.includes(number));
          expect(open.length).toBeLessThan((sizes.maxLag + 1 + maxFactor) * sizes.groupsPerStep);
        }),
        { numRuns: 150 },
      );
    });

    it("in synchronous mode makes the same batches in whatever order samples arrive", () => {
      const orders = fc.tuple(fc.infiniteStream(fc.nat()), fc.infiniteStream(fc.nat()));
      fc.assert(
        fc.property(dynamic, orders, ({ sizes, maxFactor, equal }, streams) => {
          const sync = { ...sizes, maxLag: 0 };
          const runs = streams.map((stream) =>
            simulate(new Coordinator({ sampler, ...sync, maxFactor }), sync, chooseFrom(stream), equal),
          );
          const batches = runs.map((steps) => steps.map(({ groups, spares }) => ({ groups, spares })));
          expect(batches[0]).toEqual(batches[1]);
        }),
        { numRuns: 150 },
      );
    });

    it("by hand: of groups 0 to 5 the first two silent ones are spares, the third one fills the batch", () => {
      const options = { sampler, groupSize: 2, groupsPerStep: 3, maxLag: 0, steps: 2, maxFactor: 5 / 3 };
      const coordinator = new Coordinator(options);
      const deliver = (group: number, equal: boolean) => {
        coordinator.received(group, 0, -0.2);
        coordinator.received(group, 1, equal ? -0.2 : 1);
      };
      const leased = () => coordinator.lease(0, 9).map((lease) => lease.draw.group);
      expect(leased()).toEqual([0, 1, 2]);
      deliver(2, true);
      expect(leased()).toEqual([3]);
      deliver(0, true);
      deliver(1, false);
      expect(leased()).toEqual([4]);
      deliver(3, true);
      expect(leased()).toEqual([]);
      expect(coordinator.nextBatch()).toBeNull();
      deliver(4, false);
      // 0, 2 and 3 are silent; two of them may be thrown away, and 3, the last, takes the third place.
      expect(coordinator.nextBatch()).toEqual({ groups: [1, 3, 4], spares: [0, 2], dropped: [] });
      coordinator.trained([1, 3, 4]);
      expect([...coordinator.trainedGroups].sort()).toEqual([0, 1, 2, 3, 4]);
      expect(leased()).toEqual([5, 6, 7]);
    });
  });

  it("is synchronous at maxLag 0: nothing is issued ahead of the batch", () => {
    const coordinator = new Coordinator({ sampler, groupSize: 1, groupsPerStep: 2, maxLag: 0, steps: 5 });
    expect(coordinator.lease(0, 10).map((lease) => lease.draw.group)).toEqual([0, 1]);
    expect(coordinator.lease(0, 10)).toEqual([]);
    coordinator.received(1, 0, 1);
    expect(coordinator.nextBatch()).toBeNull();
    coordinator.received(0, 0, 1);
    expect(coordinator.nextBatch()).toEqual({ groups: [0, 1], spares: [], dropped: [] });
    coordinator.trained([0, 1]);
    expect(coordinator.lease(0, 10).map((lease) => lease.draw.group)).toEqual([2, 3]);
  });

  it("asks a lost worker's group again for the missing samples only", () => {
    const coordinator = new Coordinator({ sampler, groupSize: 4, groupsPerStep: 1, maxLag: 0, steps: 1 });
    coordinator.lease(0, 1);
    coordinator.received(0, 2, 1);
    expect(coordinator.workerLost(0)).toBe(1);
    const [again] = coordinator.lease(1, 1);
    expect(again!.draw).toEqual(sampler.draw(0));
    expect(again!.samples).toEqual([0, 1, 3]);
  });

  it("has samples that did not arrive played again, and a late copy of older weights discarded", () => {
    const coordinator = new Coordinator({ sampler, groupSize: 2, groupsPerStep: 1, maxLag: 1, steps: 5 });
    const numbers = (leases: { draw: { group: number }; samples: number[] }[]) =>
      leases.map(({ draw, samples }) => [draw.group, samples]);
    expect(numbers(coordinator.lease(0, 5))).toEqual([
      [0, [0, 1]],
      [1, [0, 1]],
    ]);
    // Neither sample of group 0 came; group 1 did, and is trained.
    for (const sample of [0, 1]) expect(coordinator.received(1, sample, sample)).toBe(0);
    expect(coordinator.missing(1, 0)).toBe(0);
    expect(coordinator.missing(0, 1)).toBe(0);
    expect(coordinator.missing(0, 0)).toBe(2);
    expect(coordinator.missing(0, 0)).toBe(0);
    expect(coordinator.nextBatch()?.groups).toEqual([1]);
    coordinator.trained([1]);
    expect(numbers(coordinator.lease(0, 5))).toEqual([
      [0, [0, 1]],
      [2, [0, 1]],
    ]);
    expect(coordinator.received(0, 1, 1, { oldestVersion: 0 })).toBe("late");
    expect(coordinator.received(0, 1, 1, { oldestVersion: 1 })).toBe(0);
    expect(coordinator.received(0, 1, 1, { oldestVersion: 1 })).toBeNull();
  });

  it("plays a group alone that was in play in two deaths, and gives it up after four", () => {
    const coordinator = new Coordinator({ sampler, groupSize: 1, groupsPerStep: 2, maxLag: 1, steps: 9 });
    const groups = (worker: number) => coordinator.lease(worker, 4).map(({ draw }) => draw.group);
    expect(groups(0)).toEqual([0, 1, 2, 3]);
    coordinator.workerLost(0);
    expect(groups(0)).toEqual([0, 1, 2, 3]);
    for (const group of [1, 2, 3]) coordinator.received(group, 0, 1);
    coordinator.workerLost(0);
    expect(groups(0)).toEqual([0]);
    expect(groups(0)).toEqual([]);
    coordinator.workerLost(0);
    expect(coordinator.hopeless).toEqual([]);
    expect(groups(0)).toEqual([0]);
    coordinator.workerLost(0);
    expect(coordinator.hopeless.map(({ group }) => group)).toEqual([0]);
    coordinator.abandon(0);
    expect(coordinator.hopeless).toEqual([]);
    expect(groups(0)).toEqual([4]);
  });

  it("begins no group beyond the buffer's bound, but for one batch", () => {
    const buffer = { maxBytes: 1000, largestEpisode: 200 };
    const options = { sampler, groupSize: 2, groupsPerStep: 2, maxLag: 8, steps: 50 };
    const coordinator = new Coordinator({ ...options, buffer });
    // Two groups may come to 800 bytes, a third would make it 1200.
    expect(coordinator.lease(0, 9).length).toBe(2);
    for (const sample of [0, 1]) coordinator.received(0, sample, 1, { bytes: 100 });
    expect(coordinator.bufferBytes).toBe(200);
    // 200 of the first, 400 of the second: there is room for 400 more.
    expect(coordinator.lease(0, 9).length).toBe(1);
    const narrow = new Coordinator({ ...options, buffer: { maxBytes: 1, largestEpisode: 200 } });
    expect(narrow.lease(0, 9).length).toBe(2);
  });

  it("issues after a resume exactly the numbers that were not trained", () => {
    const trained = [0, 1, 3, 6];
    const coordinator = new Coordinator({
      sampler,
      groupSize: 1,
      groupsPerStep: 2,
      maxLag: 1,
      steps: 5,
      step: 2,
      trained: toRanges(trained),
    });
    expect(coordinator.lease(0, 9).map((lease) => lease.draw.group)).toEqual([2, 4, 5, 7]);
  });
});

describe("Coordinator with minimum shares", () => {
  /** Two tasks drawn alike, the second of which takes `slow` ticks a group where the first takes one; 12 places. */
  function play(slow: number, maxLag: number, minShares?: number[]) {
    const even = ["fast", "slow"].map((name) => ({ name, weight: 1, strata: [{ weight: 1, indices: [0] }] }));
    const size = 4;
    const coordinator = new Coordinator({
      sampler: new TaskSampler(even, 3),
      groupSize: 1,
      groupsPerStep: size,
      maxLag,
      steps: 60,
      ...(minShares && { minShares }),
    });
    const live = new Map<number, { task: number; version: number; ends: number }>();
    const batches: { slow: number; slowLive: number; lag: number }[] = [];
    for (let now = 0; !coordinator.finished; now++) {
      for (const [group, { ends }] of live) if (ends === now) coordinator.received(group, 0, group % 2);
      for (let batch = coordinator.nextBatch(); batch !== null; batch = coordinator.nextBatch()) {
        const chosen = batch.groups.map((group) => live.get(group)!);
        const count = (groups: { task: number }[]) => groups.filter((group) => group.task === 1).length;
        const lag = Math.max(...chosen.map((group) => coordinator.version - group.version));
        batches.push({ slow: count(chosen), slowLive: count([...live.values()]), lag });
        coordinator.trained(batch.groups);
        for (const group of batch.groups) live.delete(group);
      }
      const playing = [...live.values()].filter((group) => group.ends > now).length;
      for (const { draw } of coordinator.lease(0, 12 - playing)) {
        const ends = now + (draw.task === 1 ? slow : 1);
        live.set(draw.group, { task: draw.task, version: coordinator.version, ends });
      }
      if (now > 60 * 4 * slow) throw new Error(`stuck at version ${coordinator.version}`);
    }
    return batches;
  }

  it("every batch holds a slow task's share of the groups that there are, and no group grows too old", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 100 }), fc.integer({ min: 1, max: 12 }), (slow, maxLag) => {
        const batches = play(slow, maxLag, [0, 0.5]);
        expect(batches.length).toBe(60);
        for (const batch of batches) {
          expect(batch.lag).toBeLessThanOrEqual(maxLag);
          // Only groups that can wait no longer come before a share.
          if (batch.lag < maxLag) expect(batch.slow).toBeGreaterThanOrEqual(Math.min(2, batch.slowLive));
        }
      }),
      { numRuns: 60 },
    );
  });

  it("a task 100 times slower is crowded out of the first batches without one, and not with one", () => {
    const early = (batches: { slow: number }[]) => batches.slice(0, 2).map((batch) => batch.slow);
    expect(early(play(100, 8))).toEqual([0, 0]);
    expect(early(play(100, 8, [0, 0.25])).every((slow) => slow >= 1)).toBe(true);
  });
});

describe("Coordinator with adaptive sampling", () => {
  const adaptive = { signal: "progress", floor: 0.2, halfLife: 2 } as const;
  const create = (sizes: Sizes, more: Partial<ConstructorParameters<typeof Coordinator>[0]> = {}) =>
    new Coordinator({ sampler: taskSampler(), adaptive, ...sizes, ...more });
  const checkpointOf = (coordinator: Coordinator) => ({
    step: coordinator.version,
    trained: toRanges(coordinator.trainedGroups),
    sampling: JSON.parse(JSON.stringify(coordinator.sampling)) as SamplingState,
  });

  it("follows the trained rewards of the groups that a batch uses up", () => {
    const sizes = { groupSize: 2, groupsPerStep: 2, maxLag: 0, steps: 9, workers: 1 };
    const coordinator = create(sizes);
    expect(coordinator.shares).toEqual([0.75, 0.25]);
    const mirror = new AdaptiveWeights([3, 1], adaptive);
    for (let step = 0; step < 5; step++) {
      for (const { draw, samples } of coordinator.lease(0, 2)) {
        for (const sample of samples) coordinator.received(draw.group, sample, draw.task + sample + step);
        mirror.observe(draw.task, draw.task + 0.5 + step);
      }
      coordinator.trained(coordinator.nextBatch()!.groups);
      for (const [task, share] of coordinator.shares.entries()) expect(share).toBeCloseTo(mirror.weights()[task]!, 12);
    }
    expect(coordinator.shares[0]).not.toBeCloseTo(0.75, 2);
  });

  it("draws after a resume the same tasks for the numbers that were issued, and at maxLag 0 for all", () => {
    fc.assert(
      fc.property(sizesArbitrary, fc.nat(11), fc.infiniteStream(fc.nat()), (sizes, at, stream) => {
        const choose = chooseFrom(stream);
        const sampler = taskSampler();
        const first = create(sizes, { sampler });
        const until = at % sizes.steps;
        simulate(first, sizes, choose, 2, until);
        const checkpoint = checkpointOf(first);
        const trained = fromRanges(checkpoint.trained);
        const resumed = taskSampler();
        const second = create(sizes, { sampler: resumed, ...checkpoint });
        simulate(second, sizes, choose, 2);
        const issued = upTo(checkpoint.sampling.issued).filter((number) => !trained.includes(number));
        expect(issued.map((number) => resumed.draw(number))).toEqual(issued.map((number) => sampler.draw(number)));
        if (sizes.maxLag > 0) return;
        simulate(first, sizes, choose, 2);
        const later = upTo(sizes.steps * sizes.groupsPerStep).slice(until * sizes.groupsPerStep);
        expect(later.map((number) => resumed.draw(number))).toEqual(later.map((number) => sampler.draw(number)));
        expect(second.shares).toEqual(first.shares);
      }),
      { numRuns: 150 },
    );
  });

  it("keeps no more changes of weights than numbers that are not trained need", () => {
    const sizes = { groupSize: 1, groupsPerStep: 3, maxLag: 0, steps: 50, workers: 1 };
    const coordinator = create(sizes);
    simulate(coordinator, sizes, (n) => (n > 1 ? 1 : 0), 2);
    expect(coordinator.sampling!.epochs.length).toBe(1);
    expect(coordinator.sampling!.epochs[0]![0]).toBe(150);
  });
});

describe("TaskSampler", () => {
  it("keeps every run of draws near the weights and draws indices evenly", () => {
    const draws = Array.from({ length: 8000 }, (_, group) => sampler.draw(group));
    for (let start = 0; start < 7900; start += 100) {
      const share = draws.slice(start, start + 100).filter((draw) => draw.task === 0).length / 100;
      expect(Math.abs(share - 0.75)).toBeLessThanOrEqual(0.03);
    }
    const counts = new Array(50).fill(0);
    for (const draw of draws) if (draw.task === 0) counts[draw.index]++;
    // 6,000 draws over 50 cells: chi-square with 49 degrees of freedom stays below 85.4 with probability 0.999.
    const chi = counts.reduce((sum, count) => sum + (count - 120) ** 2 / 120, 0);
    expect(chi).toBeLessThan(85.4);
  });

  it("is a pure function of seed and number", () => {
    expect(sampler.draw(123)).toEqual(sampler.draw(123));
    const other = new TaskSampler(
      [{ name: "a", weight: 1, strata: [{ weight: 1, indices: [...Array(1000).keys()] }] }],
      8,
    );
    const same = new TaskSampler(
      [{ name: "a", weight: 1, strata: [{ weight: 1, indices: [...Array(1000).keys()] }] }],
      9,
    );
    const differs = Array.from({ length: 20 }, (_, i) => other.draw(i).index !== same.draw(i).index);
    expect(differs.filter(Boolean).length).toBeGreaterThan(15);
  });

  it("changes its weights at a number, and draws the numbers below it as before", () => {
    const changed = taskSampler();
    changed.reweigh([40, [1, 4]]);
    changed.reweigh([80, [0, 1]]);
    expect(upTo(40).map((group) => changed.draw(group))).toEqual(upTo(40).map((group) => sampler.draw(group)));
    const tasks = upTo(80).slice(40);
    expect(Math.abs(tasks.filter((group) => changed.draw(group).task === 1).length - 32)).toBeLessThanOrEqual(1);
    expect(
      upTo(120)
        .slice(80)
        .map((group) => changed.draw(group).task),
    ).toEqual(Array(40).fill(1));
    expect(changed.epochs(79).map(([first]) => first)).toEqual([40, 80]);
    expect(changed.shares).toEqual([0, 1]);
    // Whatever is drawn, and by which weights: seeds and, within a task, indices belong to the number.
    expect(changed.draw(100).seed).toBe(sampler.draw(100).seed);
  });

  it("refuses weights that sum to nothing", () => {
    expect(() => new TaskSampler([{ name: "a", weight: 0, strata: [{ weight: 1, indices: [1] }] }], 1)).toThrow(
      /weights sum to nothing/,
    );
  });
});

describe("ranges", () => {
  it("hold a set exactly", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(60)), (numbers) => {
        expect(fromRanges(toRanges(numbers))).toEqual([...numbers].sort((a, b) => a - b));
      }),
    );
    expect(toRanges([5, 1, 2, 3, 9])).toEqual([
      [1, 3],
      [5, 5],
      [9, 9],
    ]);
  });
});
