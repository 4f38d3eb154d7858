/** What identifies a model by its files: for a saved evaluation, and for a run that is resumed. */
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readdirSync, readSync } from "node:fs";
import { basename, join } from "node:path";
import { ggufFileAt } from "./files.ts";

/**
 * SHA-256 over the names, sizes, first and last 64 KiB of the files that a model is loaded from: two checkpoints of a run differ in
 * it, and it takes no time on a large model.
 * @param place A model folder or a GGUF file.
 */
export function modelFingerprint(place: string): string {
  const hash = createHash("sha256");
  const gguf = ggufFileAt(place);
  // Other files may lie beside them, in a cache that others write to as well.
  const loaded =
    /^((generation_|tokenizer_|adapter_)?config|tokenizer)\.json$|^chat_template\.jinja$|\.safetensors(\.index\.json)?$/;
  const files =
    gguf === undefined
      ? readdirSync(place)
          .filter((name) => loaded.test(name))
          .sort()
          .map((name) => join(place, name))
      : [gguf];
  for (const file of files) {
    const fd = openSync(file, "r");
    try {
      const { size } = fstatSync(fd);
      hash.update(`${basename(file)}\0${size}\0`);
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
