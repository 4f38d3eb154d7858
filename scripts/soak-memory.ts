/** Whether a process's memory is flat: the mean of each tenth of its time, and what it does after the warm-up. */
import { mean } from "../src/env/statistics.ts";

export interface MemorySample {
  process: string;
  /** Since the run began. */
  minutes: number;
  bytes: number;
}

export interface MemoryTrend {
  process: string;
  /** Mean of each tenth of its samples, in bytes. */
  tenths: number[];
  /** After the warm-up, in bytes. */
  median: number;
  /** Change along the least-squares line from the end of the warm-up to the last sample, in per cent of the median. */
  drift: number;
  /** Largest distance of a sample, and of the mean of a tenth of the time after the warm-up, from the median, in per cent. */
  largestDeviation: number;
  largestTenthDeviation: number;
}

/** @param warmup Minutes that do not count. Processes without two samples after it are left out. */
export function memoryTrend(samples: readonly MemorySample[], warmup: number): MemoryTrend[] {
  const processes = [...new Set(samples.map(({ process }) => process))];
  return processes.flatMap((process) => {
    const own = samples.filter((sample) => sample.process === process);
    const counted = own.filter(({ minutes }) => minutes >= warmup);
    if (counted.length < 2) return [];
    const sorted = counted.map(({ bytes }) => bytes).sort((a, b) => a - b);
    const median = (sorted[Math.floor((sorted.length - 1) / 2)]! + sorted[Math.ceil((sorted.length - 1) / 2)]!) / 2;
    const deviation = (values: readonly number[]) =>
      Math.max(...values.map((value) => (100 * Math.abs(value - median)) / median));
    const span = counted.at(-1)!.minutes - counted[0]!.minutes;
    return [
      {
        process,
        tenths: tenthsOf(own),
        median,
        drift: (100 * slope(counted) * span) / median,
        largestDeviation: deviation(sorted),
        largestTenthDeviation: deviation(tenthsOf(counted)),
      },
    ];
  });
}

export function formatMemory(trend: MemoryTrend): string {
  const { process, tenths, median, drift, largestDeviation, largestTenthDeviation } = trend;
  const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0);
  return [
    `${process}: MB by tenths of the time: ${tenths.map(megabytes).join(" ")}`,
    `  after the warm-up: median ${megabytes(median)} MB, drift ${drift.toFixed(1)} %, tenths within ${largestTenthDeviation.toFixed(1)} %, samples within ${largestDeviation.toFixed(1)} %`,
  ].join("\n");
}

function tenthsOf(samples: readonly MemorySample[]): number[] {
  const parts = Math.min(10, samples.length);
  return Array.from({ length: parts }, (_, i) => {
    const part = samples.slice(
      Math.floor((i * samples.length) / parts),
      Math.floor(((i + 1) * samples.length) / parts),
    );
    return mean(part.map(({ bytes }) => bytes));
  });
}

/** Bytes per minute, by least squares. */
function slope(samples: readonly MemorySample[]): number {
  const x = mean(samples.map(({ minutes }) => minutes));
  const y = mean(samples.map(({ bytes }) => bytes));
  const products = samples.reduce((sum, { minutes, bytes }) => sum + (minutes - x) * (bytes - y), 0);
  const squares = samples.reduce((sum, { minutes }) => sum + (minutes - x) ** 2, 0);
  return squares === 0 ? 0 : products / squares;
}
