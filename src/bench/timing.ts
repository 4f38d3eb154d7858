/** Fair comparison of two ways to do one thing on a machine that does other things as well. */

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}

/** Seconds that `repeats` runs take. */
function time(run: () => void, repeats: number): number {
  const start = performance.now();
  for (let i = 0; i < repeats; i++) run();
  return (performance.now() - start) / 1000;
}

const ROUNDS = 9;

/**
 * Seconds per run of each candidate: the median of nine rounds. In every round the candidates take turns, so that what
 * else the machine does falls on all of them alike. All together take about `seconds`.
 */
export function compare(candidates: readonly (() => void)[], seconds: number): number[] {
  const share = seconds / candidates.length / ROUNDS;
  const repeats = candidates.map((run) => {
    run();
    let count = 1;
    while (time(run, count) < share / 4) count *= 2;
    return Math.max(1, Math.round((share * count) / time(run, count)));
  });
  const rounds = candidates.map(() => [] as number[]);
  for (let round = 0; round < ROUNDS; round++) {
    candidates.forEach((run, i) => void rounds[i]!.push(time(run, repeats[i]!) / repeats[i]!));
  }
  return rounds.map(median);
}
