/** The metrics of a run as TensorBoard's event files, RUN/tensorboard: one each time that the run is started. */
import { closeSync, fstatSync, ftruncateSync, mkdirSync, openSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { writeFully } from "../../model/durable.ts";
import type { RunStep } from "../../pipeline/run-log.ts";
import { scalarEvent, startEvent, versionEvent } from "./event-file.ts";
import { evaluationScalars, scalarsOf } from "./scalars.ts";
import type { Sink } from "./sinks.ts";

export class TensorBoardSink implements Sink {
  readonly #descriptor: number;
  readonly #now: () => number;
  #lastStep: number;

  /**
   * @param step The step that the run goes on from.
   * @param now Seconds since 1970.
   */
  constructor(run: string, step: number, now = () => Date.now() / 1000) {
    this.#now = now;
    this.#lastStep = step;
    const folder = join(run, "tensorboard");
    mkdirSync(folder, { recursive: true });
    const host = hostname().replaceAll(/[^\w.-]/g, "_");
    const name = `events.out.tfevents.${Math.floor(now())}.${host}.${process.pid}.${step}`;
    this.#descriptor = openSync(join(folder, name), "a");
    this.#append(versionEvent(now()));
    this.#append(startEvent(now(), step + 1));
  }

  line(line: RunStep): void {
    // The line of an evaluation repeats that of its step, which may be some steps ago.
    if (line.evaluation !== undefined) {
      this.#append(scalarEvent(this.#now(), line.step, evaluationScalars(line)));
      return;
    }
    if (line.step <= this.#lastStep) this.#append(startEvent(this.#now(), line.step));
    this.#append(scalarEvent(this.#now(), line.step, scalarsOf(line)));
    this.#lastStep = line.step;
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  /** A record that a full disk takes a part of is taken back: TensorBoard reads no further than a torn one. */
  #append(record: Buffer): void {
    const { size } = fstatSync(this.#descriptor);
    try {
      writeFully(this.#descriptor, record);
    } catch (error) {
      ftruncateSync(this.#descriptor, size);
      throw error;
    }
  }
}
