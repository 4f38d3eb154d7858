/**
 * Waiting for the GPU. Dawn's Node binding polls in a busy loop while a promise of it is pending, which on a software
 * adapter takes a core from the work that is waited for. So most of the time that the work surely takes is slept away
 * first.
 */
import { setTimeout as delay } from "node:timers/promises";

/** Below this a timer costs more than the polling that it saves. */
const LEAST_SLEEP_MS = 2;
/** Share of the expected time that is slept: waking late costs the device idle time, waking early only polling. */
const SLEPT_SHARE = 0.8;
/** The shortest of so many waits is what is expected: one that was slow for another reason must not delay the next. */
const REMEMBERED = 4;

/** What waits took lately, by what was waited for. */
export class WaitEstimates {
  readonly #lately = new Map<string, number[]>();

  /**
   * Sleeps for most of the shortest time that work of this kind took lately, then waits for `done`. Work that was
   * compiled on the way (`cold`) says nothing of the next.
   */
  async wait<T>(kind: string, cold: boolean, done: () => Promise<T>): Promise<T> {
    if (cold) return done();
    const lately = this.#lately.get(kind) ?? [];
    this.#lately.set(kind, lately);
    const started = performance.now();
    const sleep = lately.length === 0 ? 0 : SLEPT_SHARE * Math.min(...lately);
    const slept = sleep >= LEAST_SLEEP_MS;
    if (slept) await delay(sleep);
    const woke = performance.now();
    const result = await done();
    const finished = performance.now();
    // Nothing was left to wait for: the work took less than the sleep, how much less is not known.
    const overslept = slept && finished - woke < 0.1 * sleep;
    lately.push(overslept ? sleep / 2 : finished - started);
    if (lately.length > REMEMBERED) lately.shift();
    return result;
  }
}
