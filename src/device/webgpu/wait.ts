/**
 * Waiting for the GPU. Dawn's Node binding polls in a busy loop while a promise of it is pending, which on a software
 * adapter takes a core from the work that is waited for. So most of the expected time is slept away first.
 */
import { setTimeout as delay } from "node:timers/promises";

/** Below this a timer costs more than the polling that it saves. */
const LEAST_SLEEP_MS = 2;
/** Share of the expected time that is slept: waking late costs the device idle time, waking early only polling. */
const SLEPT_SHARE = 0.8;
const SMOOTHING = 0.3;

/** Expected times by what was waited for, a moving average of what it took. */
export class WaitEstimates {
  readonly #expectedMs = new Map<string, number>();

  /** Sleeps for most of the time that work of this kind has taken lately, then waits for `done`. */
  async wait<T>(kind: string, done: () => Promise<T>): Promise<T> {
    const started = performance.now();
    const sleep = (this.#expectedMs.get(kind) ?? 0) * SLEPT_SHARE;
    if (sleep >= LEAST_SLEEP_MS) await delay(sleep);
    const asked = performance.now();
    const result = await done();
    const finished = performance.now();
    // Work that was over before the sleep was took less than measured: the estimate goes down until it is met.
    const took = finished - asked < 0.5 && sleep >= LEAST_SLEEP_MS ? sleep * SLEPT_SHARE : finished - started;
    const before = this.#expectedMs.get(kind) ?? took;
    this.#expectedMs.set(kind, before + SMOOTHING * (took - before));
    return result;
  }
}
