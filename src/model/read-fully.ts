import { readSync } from "node:fs";

/** Number of bytes read: fewer than asked for only at the end of the file. */
export function readFully(descriptor: number, target: Uint8Array, position: number): number {
  let done = 0;
  while (done < target.length) {
    const bytes = readSync(descriptor, target, done, Math.min(target.length - done, 1 << 30), position + done);
    if (bytes === 0) break;
    done += bytes;
  }
  return done;
}
