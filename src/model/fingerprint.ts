/** What identifies a model by its files: for a saved evaluation, and for a run that is resumed. */
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readdirSync, readSync } from "node:fs";
import { join, resolve } from "node:path";

/**
 * SHA-256 over the names, sizes, first and last 64 KiB of a model folder's files: two checkpoints of a run differ in it, and
 * it takes no time on a large model.
 */
export function modelFingerprint(folder: string): string {
  const hash = createHash("sha256");
  for (const name of readdirSync(resolve(folder)).sort()) {
    if (!/\.(json|safetensors|jinja)$/.test(name)) continue;
    const fd = openSync(join(folder, name), "r");
    try {
      const { size } = fstatSync(fd);
      hash.update(`${name}\0${size}\0`);
      const edge = Buffer.alloc(Math.min(size, 1 << 16));
      for (const position of [0, size - edge.length]) {
        readSync(fd, edge, 0, edge.length, position);
        hash.update(edge);
      }
    } finally {
      closeSync(fd);
    }
  }
  return hash.digest("hex");
}
