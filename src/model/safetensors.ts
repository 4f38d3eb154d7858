/**
 * The safetensors format (https://github.com/huggingface/safetensors#format): an 8-byte little-endian header length, a
 * JSON header {name: {dtype, shape, data_offsets}}, then the tensors back to back. The reader checks the whole header
 * at once and reads a tensor only when asked, so that a model needs its weights in memory once and not twice. Calls are
 * synchronous: loading and checkpointing happen where nothing else can go on in the process.
 */
import { closeSync, fstatSync, openSync } from "node:fs";
import { AgentRLError } from "../errors.ts";
import { writeDurably, writeFully } from "./durable.ts";
import { bfloat16ToFloat32, float16ToFloat32, float32ToBfloat16, float32ToFloat16 } from "./half.ts";
import { readFully } from "./read-fully.ts";
import {
  bytesPerElement,
  type Header,
  malformed,
  parseHeader,
  type TensorEntry,
  type TensorInfo,
} from "./safetensors-header.ts";

export interface Tensor {
  shape: number[];
  /** Row-major. */
  data: Float32Array;
}

/** The reference implementation's bound on the header. */
const maxHeaderBytes = 100_000_000;
/** Half-precision tensors are converted in pieces of this size. */
const chunkBytes = 1 << 22;

export class SafetensorsReader {
  readonly file: string;
  /** The header's free-form string map. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly #descriptor: number;
  readonly #entries: ReadonlyMap<string, TensorEntry>;
  readonly #dataStart: number;

  private constructor(file: string, descriptor: number, header: Header, dataStart: number) {
    this.file = file;
    this.#descriptor = descriptor;
    this.#entries = header.entries;
    this.metadata = header.metadata;
    this.#dataStart = dataStart;
  }

  /** See openSafetensors. */
  static open(file: string): SafetensorsReader {
    let descriptor: number;
    try {
      descriptor = openSync(file, "r");
    } catch (cause) {
      throw new AgentRLError("MODEL_FILE", "A safetensors file cannot be opened.", {
        where: file,
        got: (cause as Error).message,
        expected: "a readable .safetensors file",
        hint: "Check the model folder's path, and that the download is complete.",
        cause,
      });
    }
    try {
      const stat = fstatSync(descriptor);
      if (!stat.isFile()) throw malformed(file, "is not a file", "a directory or device", "a regular file");
      const prefix = new Uint8Array(8);
      if (readFully(descriptor, prefix, 0) < 8) {
        throw malformed(file, "is truncated", `${stat.size} bytes`, "at least 8 bytes: the header's length");
      }
      const headerBytes = new DataView(prefix.buffer).getBigUint64(0, true);
      const room = stat.size - 8;
      if (headerBytes > BigInt(Math.min(room, maxHeaderBytes))) {
        throw malformed(
          file,
          headerBytes > BigInt(maxHeaderBytes) ? "has an impossible header length" : "is truncated inside its header",
          `a header of ${headerBytes} bytes in a file of ${stat.size} bytes`,
          `a header of at most ${Math.min(room, maxHeaderBytes)} bytes`,
        );
      }
      const raw = new Uint8Array(Number(headerBytes));
      readFully(descriptor, raw, 8);
      const dataStart = 8 + raw.length;
      return new SafetensorsReader(file, descriptor, parseHeader(file, raw, stat.size - dataStart), dataStart);
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
  }

  names(): string[] {
    return [...this.#entries.keys()];
  }

  info(name: string): TensorInfo | undefined {
    return this.#entries.get(name);
  }

  /** The tensor with its elements as float32, row-major. @throws AgentRLError MODEL_FILE */
  read(name: string): Tensor {
    const entry = this.#entries.get(name);
    if (entry === undefined) {
      throw new AgentRLError("MODEL_FILE", `Tensor "${name}" is not in the file.`, {
        where: this.file,
        got: `${this.#entries.size} tensors: ${this.names().slice(0, 8).join(", ")}`,
        expected: `a tensor named "${name}"`,
        hint: "Check that the weights belong to this config.json.",
      });
    }
    const length = (entry.end - entry.start) / bytesPerElement[entry.dtype]!;
    const out = new Float32Array(length);
    if (entry.dtype === "F32") {
      this.#fill(name, entry, new Uint8Array(out.buffer), 0);
      return { shape: entry.shape, data: out };
    }
    const convert = entry.dtype === "BF16" ? bfloat16ToFloat32 : entry.dtype === "F16" ? float16ToFloat32 : undefined;
    if (convert === undefined) {
      throw new AgentRLError("MODEL_FILE", `Tensor "${name}" has a dtype that the model cannot use.`, {
        where: this.file,
        got: entry.dtype,
        expected: "F32, F16 or BF16",
        hint: "Convert the weights to bfloat16 or float32.",
      });
    }
    const chunk = new Uint16Array(Math.min(length, chunkBytes / 2));
    for (let done = 0; done < length; done += chunk.length) {
      const part = chunk.subarray(0, Math.min(chunk.length, length - done));
      this.#fill(name, entry, new Uint8Array(part.buffer, 0, part.byteLength), done * 2);
      convert(part, out.subarray(done, done + part.length));
    }
    return { shape: entry.shape, data: out };
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #fill(name: string, entry: TensorEntry, target: Uint8Array, skip: number): void {
    const got = readFully(this.#descriptor, target, this.#dataStart + entry.start + skip);
    if (got < target.length) {
      throw malformed(this.file, `ends inside tensor "${name}"`, `${got} bytes`, `${target.length} bytes`);
    }
  }
}

/** Opens the file and checks its header. Close the reader when done. @throws AgentRLError MODEL_FILE */
export function openSafetensors(file: string): SafetensorsReader {
  return SafetensorsReader.open(file);
}

/** How numbers are stored in a file: as they are, or rounded to the nearest of 16 bits. */
export type FileDType = "f32" | "bf16" | "f16";

const stored = {
  f32: { dtype: "F32", bytes: 4 },
  bf16: { dtype: "BF16", bytes: 2, convert: float32ToBfloat16 },
  f16: { dtype: "F16", bytes: 2, convert: float32ToFloat16 },
} as const;

/**
 * Writes float32 tensors, in name order, so that equal weights give equal files. The file appears under its name only
 * when it is complete and on disk.
 * @throws AgentRLError DISK when the disk is full or the folder cannot be written.
 */
export function writeSafetensors(
  file: string,
  tensors: ReadonlyMap<string, Tensor>,
  { metadata = { format: "pt" }, dtype = "f32" }: { metadata?: Record<string, string>; dtype?: FileDType } = {},
): void {
  const format = stored[dtype];
  const header: [string, unknown][] = [["__metadata__", metadata]];
  const names = [...tensors.keys()].sort();
  let offset = 0;
  for (const name of names) {
    const { shape, data } = tensors.get(name)!;
    const length = shape.reduce((a, b) => a * b, 1);
    if (name === "__metadata__" || length !== data.length) {
      throw new AgentRLError("MODEL_FILE", `Tensor "${name}" cannot be written.`, {
        where: file,
        got: `${data.length} elements for shape [${shape.join(", ")}]`,
        expected: `${length} elements, under a name other than "__metadata__"`,
        hint: "Pass the data and the shape of one and the same tensor.",
      });
    }
    const end = offset + length * format.bytes;
    header.push([name, { dtype: format.dtype, shape, data_offsets: [offset, end] }]);
    offset = end;
  }
  // Padded with spaces so that the tensors start on a multiple of 8, as the format asks.
  let json = Buffer.from(JSON.stringify(Object.fromEntries(header)), "utf8");
  json = Buffer.concat([json, Buffer.alloc((8 - (json.length % 8)) % 8, 0x20)]);
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(json.length));

  writeDurably(file, (descriptor) => {
    writeFully(descriptor, Buffer.concat([prefix, json]));
    for (const name of names) {
      const { data } = tensors.get(name)!;
      let values: Float32Array | Uint16Array = data;
      if ("convert" in format) {
        values = new Uint16Array(data.length);
        format.convert(data, values);
      }
      writeFully(descriptor, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    }
  });
}
