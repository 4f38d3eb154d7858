/** Reads the traces of a run, also while it writes them. */
import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { AgentRLError } from "../../errors.ts";
import { decodeTrace, type Trace, type TraceEntry, type TraceSummary } from "./trace.ts";

export class TraceReader {
  readonly #folder: string;
  readonly #entries = new Map<string, TraceEntry>();
  #list: TraceSummary[] = [];
  /** How far the index has been read, and which file it was: it is written anew when old traces are removed. */
  #read = { offset: 0, identity: "" };
  #lastStep = -1;

  private constructor(run: string) {
    this.#folder = join(run, "traces");
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
    const lines = this.#newLines();
    for (const line of lines) this.#take(line);
    if (lines.length > 0) this.#list = [...this.#entries.values()].map(withoutPlace);
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

  #newLines(): string[] {
    const file = join(this.#folder, "index.jsonl");
    let descriptor: number;
    try {
      descriptor = openSync(file, "r");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    }
    try {
      const { ino, birthtimeMs, size } = fstatSync(descriptor);
      const identity = `${ino} ${birthtimeMs}`;
      if (identity !== this.#read.identity || size < this.#read.offset) this.#forget(identity);
      const bytes = readAt(descriptor, this.#read.offset, size - this.#read.offset);
      // What follows the last line feed is being written, or was torn by a crash.
      const end = bytes.lastIndexOf(0x0a) + 1;
      this.#read.offset += end;
      return bytes.toString("utf8", 0, end).split("\n").slice(0, -1);
    } finally {
      closeSync(descriptor);
    }
  }

  #forget(identity: string): void {
    this.#entries.clear();
    this.#list = [];
    this.#read = { offset: 0, identity };
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

/** Fewer bytes where the file ends before. */
function readAt(descriptor: number, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let done = 0;
  while (done < length) {
    const read = readSync(descriptor, bytes, done, length - done, offset + done);
    if (read === 0) break;
    done += read;
  }
  return bytes.subarray(0, done);
}
