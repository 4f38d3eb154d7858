/**
 * Callers that wait on one handle, and the one native wait that runs for all of them. Each has its own deadline.
 */

export interface Waiting {
  /** In the time of `performance.now()`. */
  readonly deadline: number;
  /** Tries once more; true: the caller has its answer. */
  attempt(): boolean;
  expire(): void;
  fail(error: unknown): void;
}

/** What a native wait says: try now, do not yet, or the handle is gone. */
export type Woken = "ready" | "not yet" | "cancelled";

/** Milliseconds a native wait lasts at most, so that callers who join later with a nearer deadline are served. */
const longestWait = 100;

export class WaitQueue<W extends Waiting> {
  readonly #waiting: W[] = [];
  readonly #wait: (first: W, milliseconds: number) => Promise<Woken>;
  readonly #inOrder: boolean;
  readonly #cancelled: () => unknown;
  #running = false;

  /** `inOrder`: nobody is tried before those in front have their answer. `cancelled` makes the error for all. */
  constructor(
    wait: (first: W, milliseconds: number) => Promise<Woken>,
    options: { inOrder: boolean; cancelled: () => unknown },
  ) {
    this.#wait = wait;
    this.#inOrder = options.inOrder;
    this.#cancelled = options.cancelled;
  }

  get length(): number {
    return this.#waiting.length;
  }

  add(caller: W): void {
    this.#waiting.push(caller);
    if (!this.#running) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running = true;
    try {
      for (;;) {
        const now = performance.now();
        const first = this.#waiting[0];
        if (first === undefined) return;
        const nearest = this.#waiting.reduce((least, { deadline }) => Math.min(least, deadline), Infinity);
        const woken = await this.#wait(first, Math.min(Math.max(nearest - now, 0), longestWait));
        if (woken === "cancelled") throw this.#cancelled();
        if (woken === "ready") this.#attempt();
        this.#expire();
      }
    } catch (error) {
      for (const caller of this.#waiting.splice(0)) caller.fail(error);
    } finally {
      this.#running = false;
    }
  }

  #attempt(): void {
    for (let i = 0; i < this.#waiting.length; ) {
      if (this.#waiting[i]!.attempt()) this.#waiting.splice(i, 1);
      else if (this.#inOrder) return;
      else i++;
    }
  }

  #expire(): void {
    const now = performance.now();
    for (let i = 0; i < this.#waiting.length; ) {
      const caller = this.#waiting[i]!;
      if (caller.deadline > now) i++;
      else {
        this.#waiting.splice(i, 1);
        caller.expire();
      }
    }
  }
}
