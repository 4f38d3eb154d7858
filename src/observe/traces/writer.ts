/**
 * Episodes that were trained, written beside the run's metrics as it goes: RUN/traces/index.jsonl, a line each, and files of
 * records that it points into. Bounded: the oldest file goes when room is needed. What cannot be written is told and left
 * out; the next step tries anew.
 */
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { AgentRLError } from "../../errors.ts";
import { writeDurably, writeFully } from "../../model/durable.ts";
import type { Advantages } from "../../rl/advantages/estimator.ts";
import type { Trajectory } from "../../rl/trajectory.ts";
import type { Tokenizer } from "../../text/tokenizer.ts";
import { diskError, MetricsSink } from "../metrics.ts";
import { tokenBytes } from "./token-texts.ts";
import { compressBlock, encodeTrace, summaryOf, type TraceEntry, type TraceSummary } from "./trace.ts";

/** Files that the bound is divided into: what goes at once is one of them. */
const files = 8;
/** Of traces that are compressed together: whoever reads one reads the others as well. */
const blockBytes = 256 << 10;
const dataName = /^(\d{6,})\.msgpack$/;

export interface TraceWriterOptions {
  /** Folder of the run. */
  run: string;
  tokenizer: Tokenizer;
  /** Steps from one that is kept to the next. */
  every: number;
  /** Of all files together. */
  maxBytes: number;
  /** The step that the run goes on from: what was written after it is from before a crash, and is taken out. */
  step: number;
  /** Something could not be written. */
  onFault: (error: AgentRLError) => void;
}

export class TraceWriter {
  readonly #options: TraceWriterOptions;
  readonly #bytesOf: (token: number) => Uint8Array;
  #store: TraceFiles | null = null;
  /** What is on the disk of later steps is from before a crash. */
  #step: number;

  /** Does not throw. */
  constructor(options: TraceWriterOptions) {
    this.#options = options;
    this.#bytesOf = tokenBytes(options.tokenizer);
    this.#step = options.step;
    this.#guarded(() => this.#open());
  }

  /** The groups of a step, if it is one that is kept. Does not throw. */
  write(step: number, groups: readonly (readonly Trajectory[])[], advantages: Advantages): void {
    if (step % this.#options.every !== 0) return;
    this.#step = step - 1;
    this.#guarded(() => {
      const store = this.#store ?? this.#open();
      const block = { summaries: [] as TraceSummary[], traces: [] as Uint8Array[], bytes: 0 };
      const flush = () => {
        if (block.traces.length > 0) store.append(block.summaries.splice(0), compressBlock(block.traces.splice(0)));
        block.bytes = 0;
      };
      for (const trajectory of groups.flat()) {
        const trace = encodeTrace(trajectory, advantages, this.#bytesOf);
        block.summaries.push(summaryOf(step, trajectory, advantages));
        block.traces.push(trace);
        block.bytes += trace.length;
        if (block.bytes >= blockBytes) flush();
      }
      flush();
    });
  }

  close(): void {
    this.#store?.close();
    this.#store = null;
  }

  #open(): TraceFiles {
    const { run, maxBytes } = this.#options;
    this.#store = new TraceFiles(join(run, "traces"), maxBytes, this.#step);
    return this.#store;
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (cause) {
      // Opened anew at the next step: what is on the disk then counts.
      this.close();
      const where = join(this.#options.run, "traces");
      this.#options.onFault(
        cause instanceof AgentRLError ? cause : diskError("A trace cannot be written", where, cause),
      );
    }
  }
}

class TraceFiles {
  readonly #folder: string;
  readonly #maxBytes: number;
  /** Sizes of the data files by number, oldest first; the last is being written. */
  readonly #sizes = new Map<number, number>();
  #index: MetricsSink;
  #data: { number: number; descriptor: number } | null = null;

  /** @throws AgentRLError DISK, or the system's error. */
  constructor(folder: string, maxBytes: number, step: number) {
    this.#folder = folder;
    this.#maxBytes = maxBytes;
    mkdirSync(folder, { recursive: true });
    this.#index = this.#openIndex();
    const names = readdirSync(folder).flatMap((name) => dataName.exec(name)?.[1] ?? []);
    try {
      for (const number of names.map(Number).sort((a, b) => a - b)) {
        this.#sizes.set(number, statSync(this.#file(number)).size);
      }
      this.#keep((entry) => entry.step <= step && existsSync(join(folder, entry.file)));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  append(summaries: readonly TraceSummary[], block: Uint8Array): void {
    const { length } = block;
    this.#makeRoom(length);
    const { number, descriptor } = this.#data!;
    const offset = fstatSync(descriptor).size;
    writeFully(descriptor, block);
    this.#sizes.set(number, offset + length);
    this.#index.write(...summaries.map((summary, at) => ({ ...summary, file: nameOf(number), offset, length, at })));
  }

  close(): void {
    this.#closeData();
    this.#index.close();
  }

  #makeRoom(length: number): void {
    if (length > this.#maxBytes / 2) {
      throw new AgentRLError("DISK", "Traces are too large for the room that they may take", {
        where: this.#folder,
        got: `${length} bytes at once`,
        expected: `at most half of ${this.#maxBytes} bytes`,
        hint: "Raise observe.traces.maxMb, or set observe.traces.every: 0.",
      });
    }
    const current = [...this.#sizes].at(-1);
    const full = current !== undefined && current[1] > 0 && current[1] + length > this.#maxBytes / files;
    if (current === undefined || full) this.#begin((current?.[0] ?? 0) + 1);
    else this.#data ??= this.#openData(current[0]);
    const used = () => [...this.#sizes.values()].reduce((sum, size) => sum + size, statSync(this.#indexFile).size);
    const gone: number[] = [];
    while (used() + length > this.#maxBytes && this.#sizes.size > 1) {
      const [oldest] = this.#sizes.keys();
      rmSync(this.#file(oldest!), { force: true });
      this.#sizes.delete(oldest!);
      gone.push(oldest!);
      this.#keep(({ file }) => !gone.map(nameOf).includes(file));
    }
  }

  #begin(number: number): void {
    this.#closeData();
    this.#data = this.#openData(number);
    this.#sizes.set(number, fstatSync(this.#data.descriptor).size);
  }

  /** Writes the index anew without the others, where there are any: whoever reads it sees another file. */
  #keep(wanted: (entry: TraceEntry) => boolean): void {
    const lines = readFileSync(this.#indexFile, "utf8").split("\n").slice(0, -1);
    const kept = lines.filter((line) => wanted(JSON.parse(line) as TraceEntry));
    if (kept.length === lines.length) return;
    this.#index.close();
    writeDurably(this.#indexFile, (fd) => writeFully(fd, Buffer.from(kept.map((line) => `${line}\n`).join(""))));
    this.#index = this.#openIndex();
  }

  #openIndex(): MetricsSink {
    return new MetricsSink(this.#indexFile, "index of traces");
  }

  #openData(number: number) {
    return { number, descriptor: openSync(this.#file(number), "a") };
  }

  #closeData(): void {
    if (this.#data !== null) closeSync(this.#data.descriptor);
    this.#data = null;
  }

  get #indexFile(): string {
    return join(this.#folder, "index.jsonl");
  }

  #file(number: number): string {
    return join(this.#folder, nameOf(number));
  }
}

function nameOf(number: number): string {
  return `${String(number).padStart(6, "0")}.msgpack`;
}
