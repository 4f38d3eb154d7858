import fc from "fast-check";
import { expect, test } from "vitest";
import { passAt, statisticsOf, wilsonInterval } from "../../src/env/statistics.ts";

test("pass@k is the share of k-subsets with a success (Chen et al. 2021), for every n, c, k up to 8", () => {
  for (let n = 1; n <= 8; n++) {
    for (let c = 0; c <= n; c++) {
      for (let k = 1; k <= n; k++) {
        // The first c of n samples succeed: count the subsets by brute force.
        let [hits, all] = [0, 0];
        for (let subset = 0; subset < 1 << n; subset++) {
          const chosen = Array.from({ length: n }, (_, i) => i).filter((i) => subset & (1 << i));
          if (chosen.length !== k) continue;
          all++;
          if (chosen.some((i) => i < c)) hits++;
        }
        expect(passAt(k, n, c)).toBeCloseTo(hits / all, 12);
      }
    }
  }
});

test("mean, spread and interval of three tasks played twice, by hand", () => {
  const rewards = [
    [1, 0],
    [1, 1],
    [0, 0.5],
  ];
  const samples = rewards.flatMap((row, index) => row.map((reward, run) => ({ run, index, reward })));
  const { runs, tasks, runMeans, spread, interval, passAtK } = statisticsOf(samples);
  expect({ runs, tasks }).toEqual({ runs: 2, tasks: 3 });
  expect(runMeans[0]).toBeCloseTo(2 / 3);
  expect(runMeans[1]).toBeCloseTo(1 / 2);
  // |2/3 - 1/2| / sqrt(2)
  expect(spread).toBeCloseTo(0.117851, 6);
  // Task means 0.5, 1, 0.25: mean 0.583333, deviation 0.381881, error 0.220479.
  expect(interval![0]).toBeCloseTo(0.583333 - 1.959964 * 0.220479, 5);
  // 1.015 by the normal approximation, and no reward is above 1.
  expect(interval![1]).toBe(1);
  // Tasks solved by one of one: 1/2, 1, 0; by one of two: 1, 1, 0.
  expect(passAtK).toEqual({ "1": 0.5, "2": 2 / 3 });
});

// scipy 1.17.1: stats.binomtest(successes, trials).proportion_ci(method="wilson").
test.each([
  [0, 10, 0, 0.27753279986288926],
  [10, 10, 0.7224672001371109, 1],
  [8, 10, 0.4901624715366418, 0.9433178485456248],
  [298, 300, 0.9760224167496929, 0.9981698516420883],
  [139, 144, 0.9212970800343208, 0.9850792576242422],
  [1, 1, 0.20654931437723745, 1],
])("%i successes of %i tasks: Wilson's interval is scipy's", (successes, trials, low, high) => {
  const samples = Array.from({ length: trials }, (_, index) => ({
    run: 0,
    index,
    reward: index < successes ? 1 : 0.5,
  }));
  const { successInterval } = statisticsOf(samples);
  expect(successInterval![0]).toBeCloseTo(low, 12);
  expect(successInterval![1]).toBeCloseTo(high, 12);
});

test("tasks played several times count once each: 2 of 2 tasks and 20 runs is no surer than one run", () => {
  const samples = [0, 1].flatMap((index) => Array.from({ length: 20 }, (_, run) => ({ run, index, reward: 1 })));
  expect(statisticsOf(samples).successInterval).toEqual(wilsonInterval(1, 2));
});

test("rewards outside of 0 to 1 have an interval there", () => {
  const [low, high] = statisticsOf([-3, -1].map((reward, index) => ({ run: 0, index, reward }))).interval!;
  expect(low).toBeCloseTo(-2 - 1.959964, 5);
  expect(high).toBeCloseTo(-2 + 1.959964, 5);
});

test("intervals of rewards in 0 to 1 never leave it, and hold the rate", () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 40 }), (rewards) => {
      const samples = rewards.map((reward, index) => ({ run: 0, index, reward }));
      const { successInterval, interval } = statisticsOf(samples);
      for (const [low, high] of [successInterval!, interval!]) {
        expect(low).toBeGreaterThanOrEqual(0);
        expect(high).toBeLessThanOrEqual(1);
      }
      const rate = rewards.filter((reward) => reward >= 1).length / rewards.length;
      expect(successInterval![0]).toBeLessThanOrEqual(rate + 1e-12);
      expect(successInterval![1]).toBeGreaterThanOrEqual(rate - 1e-12);
    }),
  );
});

test("a task whose environment failed once counts with the runs that it has", () => {
  const samples = [
    { run: 0, index: 0, reward: 0 },
    { run: 1, index: 0, reward: 1 },
    { run: 0, index: 1, reward: 1 },
  ];
  expect(statisticsOf(samples).passAtK).toEqual({ "1": 0.75, "2": 1 });
  expect(statisticsOf([])).toMatchObject({ runs: 0, spread: null, interval: null, passAtK: {} });
});

test("pass@k never falls with k and ends at whether any sample succeeded", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), fc.nat(200), (n, successes) => {
      const c = Math.min(n, successes);
      const values = Array.from({ length: n }, (_, k) => passAt(k + 1, n, c));
      for (const [at, value] of values.entries())
        if (at > 0) expect(value).toBeGreaterThanOrEqual(values[at - 1]! - 1e-12);
      expect(values[0]).toBeCloseTo(c / n, 9);
      expect(values.at(-1)).toBeCloseTo(c > 0 ? 1 : 0, 9);
    }),
  );
});
