/** Simulated time: events in the order of their moments, and between two moments as much computing as there is. */
import type { Clock, Timer } from "../pipeline/clock.ts";

interface Event {
  at: number;
  /** Breaks ties: what was asked for first comes first. */
  order: number;
  work: () => void;
  cancelled: boolean;
}

export class VirtualClock implements Clock {
  /** A binary heap, the next event first. */
  readonly #events: Event[] = [];
  #now = 0;
  #order = 0;
  /** Events that have come to pass. */
  passed = 0;

  now(): number {
    return this.#now;
  }

  get pending(): number {
    return this.#events.length;
  }

  after(ms: number, work: () => void): Timer {
    const event = { at: this.#now + Math.max(0, ms), order: this.#order++, work, cancelled: false };
    this.#push(event);
    return {
      cancel: () => {
        event.cancelled = true;
      },
    };
  }

  /** All clocks leap: what was due meanwhile is due at once, as when a laptop wakes up. */
  jump(ms: number): void {
    this.#now += ms;
  }

  /**
   * Lets time go by until `work` is settled, or `until` says so, or nothing more would ever happen.
   * @returns what of the three it was.
   */
  async run(work: Promise<unknown>, until: () => boolean = () => false): Promise<"settled" | "until" | "nothing"> {
    let settled = false;
    const settle = () => {
      settled = true;
    };
    work.then(settle, settle);
    for (;;) {
      // What the last event has set going, to its end: there is nothing real to wait for.
      await new Promise((resolve) => setImmediate(resolve));
      if (settled) return "settled";
      if (until()) return "until";
      const event = this.#pop();
      if (event === undefined) return "nothing";
      this.#now = Math.max(this.#now, event.at);
      this.passed++;
      event.work();
    }
  }

  #push(event: Event): void {
    const heap = this.#events;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(event, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = event;
  }

  /** The next event that is not cancelled. */
  #pop(): Event | undefined {
    for (;;) {
      const first = this.#events[0];
      if (first === undefined) return undefined;
      this.#removeFirst();
      if (!first.cancelled) return first;
    }
  }

  #removeFirst(): void {
    const heap = this.#events;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
      if (!before(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
  }
}

function before(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
