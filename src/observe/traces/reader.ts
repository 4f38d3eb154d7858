/** Reads the traces of a run, also while it writes them. */
import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";
import { AgentRLError } from "../../errors.ts";
import { LineFollower, readAt } from "../line-follower.ts";
import { decodeTrace, type Trace, type TraceEntry, type TraceSummary } from "./trace.ts";

export class TraceReader {
  readonly #folder: string;
  readonly #index: LineFollower;
  readonly #entries = new Map<string, TraceEntry>();
  #list: TraceSummary[] = [];
  #lastStep = -1;

  private constructor(run: string) {
    this.#folder = join(run, "traces");
    this.#index = new LineFollower(join(this.#folder, "index.jsonl"));
  }

  /** A run without traces, or one that has not written any yet, has none. @throws AgentRLError USAGE for no folder. */
  static open(run: string): TraceReader {
    if (!existsSync(run)) {
      throw new AgentRLError("USAGE", "There is no such run", { where: run, expected: "the folder of a run" });
    }
    return new TraceReader(run);
  }

  /** All of them, in the order of training; those that were written since the last call as well. */
  summaries(): readonly TraceSummary[] {
    const { lines, anew } = this.#index.poll();
    // Written anew where old traces were removed, or those after the checkpoint that a run went on from.
    if (anew) this.#forget();
    for (const line of lines) this.#take(line);
    if (anew || lines.length > 0) this.#list = [...this.#entries.values()].map(withoutPlace);
    return this.#list;
  }

  /** @throws AgentRLError USAGE when there is no such trace, SAMPLE_FILE when it is damaged. */
  read(id: string): Trace {
    if (!this.#entries.has(id)) this.summaries();
    const entry = this.#entries.get(id);
    if (entry === undefined) {
      throw new AgentRLError("USAGE", "There is no such trace", {
        where: this.#folder,
        got: id,
        expected: "step-group-sample, as in 12-340-3",
        hint: "Old traces are removed when there are too many, and what was trained after the last checkpoint before a crash is replaced.",
      });
    }
    const file = join(this.#folder, entry.file);
    const block = readPart(file, entry.offset, entry.length);
    return decodeTrace(block, entry.at, withoutPlace(entry), `${file}, ${id}`);
  }

  #forget(): void {
    this.#entries.clear();
    this.#lastStep = -1;
  }

  #take(line: string): void {
    const entry = JSON.parse(line) as TraceEntry;
    // The run has gone back to a checkpoint: what it trained after that counts no more.
    if (entry.step < this.#lastStep) {
      for (const { id, step } of this.#entries.values()) if (step >= entry.step) this.#entries.delete(id);
    }
    this.#lastStep = entry.step;
    this.#entries.set(entry.id, entry);
  }
}

function withoutPlace({
  file: _file,
  offset: _offset,
  length: _length,
  at: _at,
  ...summary
}: TraceEntry): TraceSummary {
  return summary;
}

function readPart(file: string, offset: number, length: number): Buffer {
  let descriptor: number;
  try {
    descriptor = openSync(file, "r");
  } catch (cause) {
    throw new AgentRLError("USAGE", "The trace is not kept any more", { where: file, cause });
  }
  try {
    return readAt(descriptor, offset, length);
  } finally {
    closeSync(descriptor);
  }
}
