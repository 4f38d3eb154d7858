/**
 * metrics.jsonl: one JSON object a line, appended and never rewritten. A line is in the file when `write` returns. When
 * the disk is full the torn line is taken back and the run is told at once: a run that goes on without its metrics is
 * not worth its time.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { AgentRLError } from "../errors.ts";

/** System errors that say: the disk does not take more. */
const diskErrors: Record<string, string> = {
  ENOSPC: "no space is left on the disk",
  EDQUOT: "the user's disk quota is used up",
  EFBIG: "the file has reached the size limit",
  EIO: "the disk reports a fault",
  EROFS: "the disk is read-only",
};

export class MetricsSink {
  readonly #file: string;
  readonly #name: string;
  #fd: number | null;

  /**
   * Opens for appending; a last line that a crash left torn is removed.
   * @param name for messages. @throws AgentRLError DISK.
   */
  constructor(file: string, name = "metrics file") {
    this.#file = file;
    this.#name = name;
    try {
      this.#fd = openSync(file, "a+");
    } catch (cause) {
      throw diskError(`The ${name} cannot be opened`, file, cause);
    }
    try {
      dropTornLine(this.#fd);
    } catch (cause) {
      this.close();
      throw diskError(`The ${name} cannot be read`, file, cause);
    }
  }

  /**
   * A line each, all of them or none. NaN and infinities, which JSON lacks, are written as "NaN", "Infinity" and "-Infinity".
   * @throws AgentRLError DISK.
   */
  write(...records: object[]): void {
    if (this.#fd === null) throw new AgentRLError("DISK", `The ${this.#name} is closed`, { where: this.#file });
    const lines = records.map((record) => `${JSON.stringify(record, (_, value) => plain(value))}\n`);
    const bytes = Buffer.from(lines.join(""));
    let before: number | null = null;
    try {
      before = fstatSync(this.#fd).size;
      // A nearly full disk takes a part of the line first and fails at the rest.
      for (let done = 0; done < bytes.length; ) done += writeSync(this.#fd, bytes, done);
    } catch (cause) {
      throw diskError(`A line of the ${this.#name} could not be written`, this.#file, cause, this.#takeBack(before));
    }
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }

  /** Removes a partly written line; says so when even that fails. */
  #takeBack(size: number | null): string {
    if (size === null || this.#fd === null || !fstatSync(this.#fd).isFile()) return "";
    try {
      ftruncateSync(this.#fd, size);
      return "";
    } catch (error) {
      return ` The file may end in a torn line (${(error as Error).message}).`;
    }
  }
}

/**
 * Reads metrics back. A torn last line is left out; a step written twice (before and after a resume) counts once, and
 * those after it that the resumed run has not come to again do not.
 * @throws AgentRLError SAMPLE_FILE naming a line that is no JSON.
 */
export function readMetrics<T extends Line>(file: string): T[] {
  const lines = readFileSync(file, "utf8").split("\n");
  lines.pop();
  return stepsOf(parseMetrics<T>(lines, file));
}

/** @param where Of the lines, for messages. @throws AgentRLError SAMPLE_FILE naming a line that is no JSON. */
export function parseMetrics<T extends Line>(lines: readonly string[], where: string): T[] {
  return lines.map((line, i) => {
    try {
      return JSON.parse(line) as T;
    } catch (cause) {
      throw new AgentRLError("SAMPLE_FILE", "A line of the metrics file is not JSON.", {
        where: `${where}:${i + 1}`,
        got: line,
        expected: "one JSON object a line",
        hint: "Remove this line.",
        cause,
      });
    }
  });
}

/** What lines of a run's metrics, in the order of the file, come to: one a step, ascending. */
export function stepsOf<T extends Line>(lines: readonly T[]): T[] {
  const steps = new Map<number, T>();
  let newest = Number.NEGATIVE_INFINITY;
  for (const line of lines) {
    // The line of an evaluation comes later than those of the steps that were trained meanwhile.
    if (line.step <= newest && line.evaluation === undefined) {
      for (let step = line.step; step <= newest; step++) steps.delete(step);
      newest = line.step;
    }
    newest = Math.max(newest, line.step);
    steps.set(line.step, line);
  }
  return [...steps.values()].sort((a, b) => a.step - b.step);
}

interface Line {
  step: number;
  evaluation?: unknown;
}

/** AgentRLError "DISK" for a failed file operation, with what to do about it. */
export function diskError(what: string, file: string, cause: unknown, more = ""): AgentRLError {
  const code = (cause as NodeJS.ErrnoException).code ?? "";
  const reason = diskErrors[code];
  return new AgentRLError("DISK", `${what}${reason === undefined ? "" : `: ${reason}`}.${more}`, {
    where: file,
    got: (cause as Error).message,
    expected: reason === undefined ? "a writable file" : "room for a few more bytes",
    hint:
      reason === undefined
        ? "Check that the folder exists and may be written to."
        : "Make room (older checkpoints and runs can go), then go on with --resume: the last checkpoint is intact.",
    cause,
  });
}

function plain(value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

function dropTornLine(fd: number): void {
  const stat = fstatSync(fd);
  if (!stat.isFile()) return;
  const chunk = Buffer.alloc(4096);
  for (let end = stat.size; end > 0; ) {
    const start = Math.max(0, end - chunk.length);
    const read = readSync(fd, chunk, 0, end - start, start);
    const newline = chunk.subarray(0, read).lastIndexOf(0x0a);
    if (newline >= 0 || start === 0) {
      if (start + newline + 1 < stat.size) ftruncateSync(fd, start + newline + 1);
      return;
    }
    end = start;
  }
}
