/** How long things take in a simulation: models of an engine, a learner, a disk and environments. */
import type { Rng } from "../env/rng.ts";

export interface Timing {
  /** Milliseconds of an environment's answer: log-normal. */
  environment: { median: number; p99: number };
  /** Milliseconds of a turn's tokens: log-normal, long turns being rare. */
  turn: { median: number; p99: number };
  /** Turns of an episode: 1 to this many, evenly. */
  turns: number;
  /** Milliseconds of an optimizer step and of a checkpoint. */
  train: number;
  checkpoint: number;
  /** Milliseconds until a process has set itself up. */
  setUp: number;
}

export const defaultTiming: Timing = {
  environment: { median: 200, p99: 3000 },
  turn: { median: 300, p99: 2000 },
  turns: 4,
  train: 1500,
  checkpoint: 200,
  setUp: 2000,
};

/** The 99th percentile of the standard normal distribution. */
const z99 = 2.3263478740408408;

/** A draw from the log-normal distribution of this median and 99th percentile (Box-Muller). */
export function logNormal(rng: Rng, { median, p99 }: { median: number; p99: number }): number {
  const sigma = Math.log(p99 / median) / z99;
  const radius = Math.sqrt(-2 * Math.log(1 - rng.next()));
  return median * Math.exp(sigma * radius * Math.cos(2 * Math.PI * rng.next()));
}
