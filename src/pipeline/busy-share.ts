/**
 * Share of the wall time in which something is at work, from what it reports of its busy time now and then. A share is taken
 * between two reports, so that it is right however seldom they come; what no report has told yet counts in the next share.
 */
export class BusyShare {
  #first: { at: number; busyMs: number };
  #last: { at: number; busyMs: number };

  /** @param at when it began, on the clock of the reports, in milliseconds. */
  constructor(at: number) {
    this.#first = { at, busyMs: 0 };
    this.#last = this.#first;
  }

  /** @param busyMs since it began. */
  report(at: number, busyMs: number): void {
    this.#last = { at, busyMs };
  }

  /** From the last report that the share before has seen to the newest; null without one in between. */
  take(): number | null {
    const span = this.#last.at - this.#first.at;
    if (span <= 0) return null;
    const share = (this.#last.busyMs - this.#first.busyMs) / span;
    this.#first = this.#last;
    return Math.min(1, share);
  }
}
