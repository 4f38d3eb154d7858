/** Writing a file so that a crash or a full disk leaves either the old file or the new one, never a part of one. */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import path from "node:path";
import { AgentRLError } from "../errors.ts";

let temporaryFiles = 0;

/**
 * Writes to a file beside `file`, syncs it, and renames it over `file`: a reader sees the old or the new, whole.
 * @throws AgentRLError DISK
 */
export function writeDurably(file: string, write: (descriptor: number) => void): void {
  const temporary = `${file}.${process.pid}-${temporaryFiles++}.tmp`;
  try {
    withDescriptor(temporary, "wx", (descriptor) => {
      write(descriptor);
      fsyncSync(descriptor);
    });
    renameSync(temporary, file);
    // The rename itself is durable only once the folder is.
    withDescriptor(path.dirname(path.resolve(file)), "r", fsyncSync);
  } catch (cause) {
    rmSync(temporary, { force: true });
    const { code, message } = cause as NodeJS.ErrnoException;
    if (cause instanceof AgentRLError || code === undefined) throw cause;
    throw new AgentRLError("DISK", "A file cannot be written.", {
      where: file,
      got: message,
      expected: "a writable folder with enough free space",
      hint: code === "ENOSPC" ? "Free some space on the disk." : "Check the path and its permissions.",
      cause,
    });
  }
}

/** Writes all of `bytes` at the file's current position. */
export function writeFully(descriptor: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(descriptor, bytes, done, Math.min(bytes.length - done, 1 << 30));
  }
}

function withDescriptor(file: string, flags: string, use: (descriptor: number) => void): void {
  const descriptor = openSync(file, flags);
  try {
    use(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
