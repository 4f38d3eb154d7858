/** How long things take in a simulation: models of an engine, a learner, a disk and environments. */
import type { Latency } from "../env/delayed.ts";

export interface Timing {
  /** Of an environment's answer. */
  environment: Latency;
  /** Of a turn's tokens, long turns being rare. */
  turn: Latency;
  /** Turns of an episode: 1 to this many, evenly. */
  turns: number;
  /** Milliseconds of an optimizer step and of a checkpoint. */
  train: number;
  checkpoint: number;
  /** Milliseconds until a process has set itself up. */
  setUp: number;
}

export const defaultTiming: Timing = {
  environment: { medianMs: 200, p99Ms: 3000 },
  turn: { medianMs: 300, p99Ms: 2000 },
  turns: 4,
  train: 1500,
  checkpoint: 200,
  setUp: 2000,
};
