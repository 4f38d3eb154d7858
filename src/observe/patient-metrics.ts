/**
 * Metrics of a run that goes on when the disk is full: lines that find no room wait in memory, in order, and are written
 * before the next one. How much may wait is bounded.
 */
import { AgentRLError, briefly } from "../errors.ts";
import type { MetricsSink } from "./metrics.ts";

/** Characters of JSON, some thousand steps. Beyond them the disk is not merely full for a while. */
const maxWaiting = 16 << 20;

export class PatientMetrics {
  readonly #sink: MetricsSink;
  readonly #notice: (message: string) => void;
  readonly #waiting: { record: object; length: number }[] = [];

  /** @param notice Is told when lines begin to wait, and when they are in the file. */
  constructor(sink: MetricsSink, notice: (message: string) => void) {
    this.#sink = sink;
    this.#notice = notice;
  }

  /** @throws AgentRLError DISK when more lines wait than there is room for in memory. */
  write(record: object): void {
    this.#waiting.push({ record, length: JSON.stringify(record).length });
    const others = this.#waiting.length - 1;
    const error = this.drain();
    if (error === null) {
      if (others > 0) this.#notice(`${others} lines of metrics that waited for room on the disk are written`);
      return;
    }
    if (others === 0) this.#notice(`metrics wait in memory for room on the disk: ${briefly(error)}`);
    if (this.#waiting.reduce((sum, { length }) => sum + length, 0) > maxWaiting) throw error;
  }

  /** Writes what waits. @returns why not all of it is in the file, or null. */
  drain(): AgentRLError | null {
    try {
      for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
        this.#sink.write(next.record);
        this.#waiting.shift();
      }
      return null;
    } catch (error) {
      if (error instanceof AgentRLError && error.code === "DISK") return error;
      throw error;
    }
  }

  close(): void {
    this.#sink.close();
  }
}
