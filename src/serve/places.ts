/**
 * Conversations of the engine, lent in the order in which they are asked for. Those who wait are bounded in number; who
 * goes away while it waits is forgotten.
 */
import { ApiError } from "./api-error.ts";

/** Seconds that a client is told to wait when the queue is full. */
const retryAfter = 1;

interface Waiting {
  count: number;
  admit: () => void;
}

export class Places {
  readonly #maxWaiting: number;
  #free: number;
  #waiting: Waiting[] = [];

  constructor(places: number, maxWaiting: number) {
    this.#free = places;
    this.#maxWaiting = maxWaiting;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get free(): number {
    return this.#free;
  }

  /**
   * Takes `count` places, once they are free and all who came before have theirs. Give them back with `release`.
   * @throws ApiError 503 when too many wait; the signal's reason when it is aborted.
   */
  async take(count: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#waiting.length === 0 && this.#free >= count) {
      this.#free -= count;
      return;
    }
    if (this.#waiting.length >= this.#maxWaiting) {
      throw new ApiError(503, `${this.#waiting.length} requests are waiting already`, { code: "busy", retryAfter });
    }
    await new Promise<void>((resolve, reject) => {
      const waiting: Waiting = {
        count,
        admit: () => {
          signal.removeEventListener("abort", leave);
          resolve();
        },
      };
      const leave = () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiting);
        reject(signal.reason);
        // Those behind it may fit where it did not.
        this.release(0);
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.push(waiting);
    });
  }

  release(count: number): void {
    this.#free += count;
    while (this.#waiting.length > 0 && this.#waiting[0]!.count <= this.#free) {
      const next = this.#waiting.shift()!;
      this.#free -= next.count;
      next.admit();
    }
  }
}
