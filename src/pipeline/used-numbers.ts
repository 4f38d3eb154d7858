/**
 * A set of group numbers that are used up. Almost all below some number are and few above it, so it takes the room of the
 * few, however long a run lasts.
 */
import { toRanges } from "./messages.ts";

export class UsedNumbers {
  /** Every number below is in the set. */
  #frontier = 0;
  readonly #above = new Set<number>();

  constructor(ranges: readonly (readonly [number, number])[] = []) {
    for (const [from, to] of ranges) {
      if (from <= this.#frontier) this.#frontier = Math.max(this.#frontier, to + 1);
      else for (let number = from; number <= to; number++) this.#above.add(number);
    }
    this.#advance();
  }

  get size(): number {
    return this.#frontier + this.#above.size;
  }

  has(number: number): boolean {
    return (number >= 0 && number < this.#frontier) || this.#above.has(number);
  }

  add(number: number): void {
    if (number >= this.#frontier) this.#above.add(number);
    this.#advance();
  }

  /** The least number from `from` on that is not in the set. */
  nextUnused(from: number): number {
    let number = Math.max(from, this.#frontier);
    while (this.#above.has(number)) number++;
    return number;
  }

  *[Symbol.iterator](): Generator<number> {
    for (let number = 0; number < this.#frontier; number++) yield number;
    yield* [...this.#above].sort((a, b) => a - b);
  }

  /** Ascending inclusive ranges. */
  ranges(): [number, number][] {
    const above = toRanges(this.#above);
    return this.#frontier === 0 ? above : [[0, this.#frontier - 1], ...above];
  }

  #advance(): void {
    while (this.#above.delete(this.#frontier)) this.#frontier++;
  }
}
