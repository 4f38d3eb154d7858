/** What the episodes of a process are waiting for at this moment: said by the watchdog when nothing moves. */
import type { Clock } from "./clock.ts";

export class Waits {
  readonly #clock: Clock;
  readonly #waiting = new Set<{ what: string; since: number }>();
  /** Rises with every wait that ends. */
  ended = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async during<T>(what: string, work: () => Promise<T>): Promise<T> {
    const wait = { what, since: this.#clock.now() };
    this.#waiting.add(wait);
    try {
      return await work();
    } finally {
      this.#waiting.delete(wait);
      this.ended++;
    }
  }

  /** As in "3 for kg (the longest 41 s), 1 for the ring (2 s)"; "nothing". */
  describe(): string {
    const byWhat = new Map<string, { count: number; since: number }>();
    for (const { what, since } of this.#waiting) {
      const sum = byWhat.get(what) ?? { count: 0, since };
      byWhat.set(what, { count: sum.count + 1, since: Math.min(sum.since, since) });
    }
    if (byWhat.size === 0) return "nothing";
    const now = this.#clock.now();
    return [...byWhat]
      .sort(([, a], [, b]) => a.since - b.since)
      .map(([what, { count, since }]) => {
        const seconds = `${Math.round((now - since) / 1000)} s`;
        return `${count} for ${what} (${count > 1 ? "the longest " : ""}${seconds})`;
      })
      .join(", ");
  }
}
