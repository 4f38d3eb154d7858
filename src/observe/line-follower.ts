/** Reads a file of lines that another process appends to, or writes anew and renames into its place. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

export interface NewLines {
  /** Without their line feeds. */
  lines: string[];
  /** The file is another than before: of what it held, only these lines count. */
  anew: boolean;
}

export class LineFollower {
  readonly #file: string;
  /** How far it has been read, and which file that was. */
  #offset = 0;
  #identity = "";

  constructor(file: string) {
    this.#file = file;
  }

  /** What has come since the last call; nothing where there is no file yet. The line that is being written is left for later. */
  poll(): NewLines {
    const descriptor = openIfThere(this.#file);
    if (descriptor === null) return { lines: [], anew: false };
    try {
      const { ino, birthtimeMs, size } = fstatSync(descriptor);
      const identity = `${ino} ${birthtimeMs}`;
      const anew = this.#identity !== "" && (identity !== this.#identity || size < this.#offset);
      if (anew) this.#offset = 0;
      this.#identity = identity;
      const bytes = readAt(descriptor, this.#offset, size - this.#offset);
      const end = bytes.lastIndexOf(0x0a) + 1;
      this.#offset += end;
      return { lines: bytes.toString("utf8", 0, end).split("\n").slice(0, -1), anew };
    } finally {
      closeSync(descriptor);
    }
  }
}

/** The last lines of a file, at most `count`, oldest first, however long it is; none where there is no file. */
export function lastLines(file: string, count: number): string[] {
  const descriptor = openIfThere(file);
  if (descriptor === null) return [];
  try {
    const { size } = fstatSync(descriptor);
    for (let length = 1 << 16; ; length *= 2) {
      const start = Math.max(0, size - length);
      const bytes = readAt(descriptor, start, size - start);
      const lines = bytes
        .toString("utf8", 0, bytes.lastIndexOf(0x0a) + 1)
        .split("\n")
        .slice(0, -1);
      // The first is a part of one, unless the file begins with it.
      if (start === 0) return lines.slice(-count);
      if (lines.length > count) return lines.slice(-count);
    }
  } finally {
    closeSync(descriptor);
  }
}

/** Fewer bytes where the file ends before. */
export function readAt(descriptor: number, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let done = 0;
  while (done < length) {
    const read = readSync(descriptor, bytes, done, length - done, offset + done);
    if (read === 0) break;
    done += read;
  }
  return bytes.subarray(0, done);
}

function openIfThere(file: string): number | null {
  try {
    return openSync(file, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}
