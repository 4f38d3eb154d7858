/** An open GGUF file: its header, and its tensors under ggml's names, each read when asked. */
import { closeSync, openSync } from "node:fs";
import { readFully } from "../read-fully.ts";
import type { Tensor } from "../safetensors.ts";
import { fetchAgain, ggufError } from "./errors.ts";
import { type GgufHeader, readGgufHeader } from "./header.ts";
import { tensorTypes } from "./tensor-types.ts";

/** Bytes read at once, about: whole blocks of any type, at an even place. */
const pieceBytes = 1 << 22;

export class GgufFile {
  readonly header: GgufHeader;
  readonly #descriptor: number;

  /** Opens the file and checks its header. @throws AgentRLError MODEL_FILE */
  constructor(file: string) {
    this.header = readGgufHeader(file);
    this.#descriptor = openSync(file, "r");
  }

  /** As float32, in ggml's order of rows. @throws AgentRLError MODEL_FILE */
  read(name: string): Tensor {
    const { file, tensors } = this.header;
    const tensor = tensors.get(name);
    if (tensor === undefined) {
      const got = `${tensors.size} tensors: ${[...tensors.keys()].slice(0, 8).join(", ")}`;
      throw ggufError(file, `Tensor "${name}" is not in the file.`, got, `a tensor named "${name}"`, fetchAgain);
    }
    const { block, bytes, decode } = tensorTypes[tensor.type]!;
    const data = new Float32Array((tensor.bytes / bytes) * block);
    const step = Math.floor(pieceBytes / bytes);
    const raw = new Uint8Array(Math.min(step * bytes, tensor.bytes));
    for (let done = 0; done < tensor.bytes; done += raw.length) {
      const piece = raw.subarray(0, Math.min(raw.length, tensor.bytes - done));
      if (readFully(this.#descriptor, piece, tensor.offset + done) < piece.length) {
        throw ggufError(file, `The GGUF file ends inside tensor "${name}".`, "its end", "the whole tensor", fetchAgain);
      }
      const first = (done / bytes) * block;
      decode(piece, data.subarray(first, first + (piece.length / bytes) * block));
    }
    return { shape: tensor.shape, data };
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
