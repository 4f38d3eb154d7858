/** What repeated runs over the same tasks say: mean, spread, confidence interval and pass@k. */
import { groupBy } from "../group-by.ts";

/** One counted episode: which task of the split, in which run. */
export interface Sample {
  run: number;
  index: number;
  reward: number;
}

export type Interval = [low: number, high: number];

export interface Statistics {
  runs: number;
  /** Tasks with at least one counted episode. */
  tasks: number;
  /** Mean reward of each run. */
  runMeans: number[];
  /** Standard deviation of `runMeans` (n - 1); null for a single run. */
  spread: number | null;
  /**
   * 95 % confidence interval of the success rate over tasks of this kind: Wilson's score interval (`wilsonInterval`), in 0
   * to 1. Null without tasks.
   */
  successInterval: Interval | null;
  /**
   * 95 % confidence interval of the mean reward over tasks of this kind, by the normal approximation: episodes of one task
   * are a cluster, so running a task more often does not count as more tasks (Miller 2024, arXiv 2411.00640). Where all
   * rewards are in 0 to 1, it ends there as well. Null for a single task.
   */
  interval: Interval | null;
  /** Share of tasks that one of k tries solves, by k; over the tasks with at least k counted episodes. */
  passAtK: Record<string, number>;
}

export function statisticsOf(samples: readonly Sample[]): Statistics {
  const byRun = groupBy(samples, ({ run }) => run);
  const byTask = groupBy(samples, ({ index }) => index);
  const runMeans = [...byRun].sort(([a], [b]) => a - b).map(([, episodes]) => mean(episodes.map(rewardOf)));
  const taskMeans = [...byTask.values()].map((episodes) => mean(episodes.map(rewardOf)));
  const taskSuccess = mean([...byTask.values()].map((episodes) => episodes.filter(isSuccess).length / episodes.length));
  const most = Math.max(0, ...[...byTask.values()].map((episodes) => episodes.length));
  const passAtK: Record<string, number> = {};
  for (const k of [...powersOfTwo(most), most]) {
    const counted = [...byTask.values()].filter((episodes) => episodes.length >= k);
    if (k === 0 || counted.length === 0) continue;
    passAtK[k] = mean(counted.map((episodes) => passAt(k, episodes.length, episodes.filter(isSuccess).length)));
  }
  return {
    runs: byRun.size,
    tasks: byTask.size,
    runMeans,
    spread: runMeans.length < 2 ? null : standardDeviation(runMeans),
    successInterval: byTask.size === 0 ? null : wilsonInterval(taskSuccess, byTask.size),
    interval: taskMeans.length < 2 ? null : within(rangeOf(samples.map(rewardOf)), normalInterval(taskMeans)),
    passAtK,
  };
}

/** The normal distribution's 97.5 % point. */
const Z = 1.959963984540054;

/**
 * Wilson's score interval of 95 % for a proportion (Wilson 1927, JASA 22:209-212): always in 0 to 1, and of a sensible
 * width also where all or none succeeded.
 * @param share Mean of `count` independent values in 0 to 1. For values other than 0 and 1, as the share of a task's runs
 * that succeed, the interval is too wide rather than too narrow: their variance is at most `share * (1 - share)`.
 */
export function wilsonInterval(share: number, count: number): Interval {
  const scale = 1 / (1 + Z ** 2 / count);
  const centre = scale * (share + Z ** 2 / (2 * count));
  const half = scale * Z * Math.sqrt((share * (1 - share)) / count + Z ** 2 / (4 * count ** 2));
  return within([0, 1], [centre - half, centre + half]);
}

function normalInterval(values: readonly number[]): Interval {
  const half = (Z * standardDeviation(values)) / Math.sqrt(values.length);
  return [mean(values) - half, mean(values) + half];
}

/** What rewards may be: those that leave 0 to 1 are a user's own, whose bounds are not known. */
function rangeOf(rewards: readonly number[]): Interval {
  return rewards.every((reward) => reward >= 0 && reward <= 1) ? [0, 1] : [-Infinity, Infinity];
}

function within([least, most]: Interval, [low, high]: Interval): Interval {
  return [Math.max(least, low), Math.min(most, high)];
}

/**
 * The unbiased estimate of the probability that at least one of k samples succeeds, from n samples of which c did:
 * 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374), as a product, so that no factorial overflows.
 */
export function passAt(k: number, n: number, c: number): number {
  if (n - c < k) return 1;
  let allFail = 1;
  for (let i = n - c + 1; i <= n; i++) allFail *= 1 - k / i;
  return 1 - allFail;
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function standardDeviation(values: readonly number[]): number {
  const centre = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1));
}

function* powersOfTwo(below: number): Generator<number> {
  for (let k = 1; k < below; k *= 2) yield k;
}

const rewardOf = ({ reward }: Sample) => reward;
const isSuccess = ({ reward }: Sample) => reward >= 1;
