import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Coordinator } from "../../src/pipeline/coordinator.ts";
import { fromRanges, toRanges } from "../../src/pipeline/messages.ts";
import { TaskSampler } from "../../src/rl/sampler.ts";

const sampler = new TaskSampler(
  [
    { name: "a", weight: 3, strata: [{ weight: 1, indices: [...Array(50).keys()] }] },
    { name: "b", weight: 1, strata: [{ weight: 1, indices: [...Array(20).keys()] }] },
  ],
  7,
);

interface Sizes {
  groupSize: number;
  groupsPerStep: number;
  maxLag: number;
  steps: number;
  workers: number;
}

/**
 * Runs the bookkeeping against workers that deliver in random order and die at random; returns what was trained with
 * which lag.
 */
function simulate(sizes: Sizes, choose: (n: number) => number) {
  const coordinator = new Coordinator({ sampler, ...sizes });
  const pending: { group: number; sample: number; worker: number; version: number }[] = [];
  const oldest = new Map<number, number>();
  const steps: { groups: number[]; lag: number }[] = [];
  let idle = 0;
  while (!coordinator.finished) {
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
      // The sample's own record holds the version it started under.
      oldest.set(done!.group, Math.min(oldest.get(done!.group) ?? Number.POSITIVE_INFINITY, done!.version));
      coordinator.received(done!.group, done!.sample);
      if (choose(4) === 0) coordinator.received(done!.group, done!.sample);
    }
    const groups = coordinator.nextBatch();
    if (groups !== null) {
      const lag = Math.max(...groups.map((group) => coordinator.version - oldest.get(group)!));
      steps.push({ groups: [...groups], lag });
      coordinator.trained(groups);
      idle = 0;
    } else if (++idle > 20_000) {
      throw new Error(`stuck at version ${coordinator.version}`);
    }
  }
  return { coordinator, steps };
}

describe("Coordinator", () => {
  it("trains every group number once, within maxLag, and never gets stuck, though workers die", () => {
    const sizes = fc.record({
      groupSize: fc.integer({ min: 1, max: 4 }),
      groupsPerStep: fc.integer({ min: 1, max: 5 }),
      maxLag: fc.integer({ min: 0, max: 4 }),
      steps: fc.integer({ min: 1, max: 12 }),
      workers: fc.integer({ min: 1, max: 3 }),
    });
    fc.assert(
      fc.property(sizes, fc.infiniteStream(fc.nat()), (chosen, stream) => {
        const choose = (n: number) => (n === 0 ? 0 : (stream.next().value as number) % n);
        const { steps } = simulate(chosen, choose);
        const all = steps.flatMap((step) => step.groups);
        expect(new Set(all).size).toBe(chosen.steps * chosen.groupsPerStep);
        expect([...all].sort((a, b) => a - b)).toEqual([...Array(all.length).keys()]);
        for (const step of steps) expect(step.lag).toBeLessThanOrEqual(chosen.maxLag);
      }),
      { numRuns: 300 },
    );
  });

  it("is synchronous at maxLag 0: nothing is issued ahead of the batch", () => {
    const coordinator = new Coordinator({ sampler, groupSize: 1, groupsPerStep: 2, maxLag: 0, steps: 5 });
    expect(coordinator.lease(0, 10).map((lease) => lease.draw.group)).toEqual([0, 1]);
    expect(coordinator.lease(0, 10)).toEqual([]);
    coordinator.received(1, 0);
    expect(coordinator.nextBatch()).toBeNull();
    coordinator.received(0, 0);
    expect(coordinator.nextBatch()).toEqual([0, 1]);
    coordinator.trained([0, 1]);
    expect(coordinator.lease(0, 10).map((lease) => lease.draw.group)).toEqual([2, 3]);
  });

  it("asks a lost worker's group again for the missing samples only", () => {
    const coordinator = new Coordinator({ sampler, groupSize: 4, groupsPerStep: 1, maxLag: 0, steps: 1 });
    coordinator.lease(0, 1);
    coordinator.received(0, 2);
    expect(coordinator.workerLost(0)).toBe(1);
    const [again] = coordinator.lease(1, 1);
    expect(again!.draw).toEqual(sampler.draw(0));
    expect(again!.samples).toEqual([0, 1, 3]);
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
      trained,
    });
    expect(coordinator.lease(0, 9).map((lease) => lease.draw.group)).toEqual([2, 4, 5, 7]);
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
