/**
 * The header of a GGUF file: metadata, and where each tensor lies, checked against the file's length so that a truncated
 * download is found before anything is loaded. `@huggingface/gguf` reads it, asynchronously; models are opened where
 * nothing else can go on in the process, so it does so in a thread while this one waits.
 */
import { closeSync, fstatSync, openSync } from "node:fs";
import { createRequire } from "node:module";
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import { AgentRLError } from "../../errors.ts";
import { fetchAgain, ggufError } from "./errors.ts";
import { tensorTypes } from "./tensor-types.ts";

export interface GgufTensor {
  /** ggml's name of the type, a key of `tensorTypes`. */
  type: string;
  /** Outermost dimension first, as Hugging Face and PyTorch write shapes: [out, in]. */
  shape: number[];
  /** In the file. */
  offset: number;
  /** In the file. */
  bytes: number;
}

export interface GgufHeader {
  file: string;
  /** Numbers of 64 bits as `number`. */
  metadata: Readonly<Record<string, unknown>>;
  tensors: ReadonlyMap<string, GgufTensor>;
}

/** @throws AgentRLError MODEL_FILE for a file that is damaged, truncated, or has a tensor of a type that cannot be read. */
export function readGgufHeader(file: string): GgufHeader {
  let descriptor: number;
  try {
    descriptor = openSync(file, "r");
  } catch (cause) {
    throw new AgentRLError("MODEL_FILE", "A GGUF file cannot be opened.", {
      where: file,
      got: (cause as Error).message,
      expected: "a readable .gguf file",
      hint: "Check the path, and that the download is complete.",
      cause,
    });
  }
  try {
    const { size } = fstatSync(descriptor);
    return checkHeader(file, size, parse(file, descriptor, size));
  } finally {
    closeSync(descriptor);
  }
}

/** What the thread posts. */
interface ParsedHeader {
  metadata: Record<string, unknown>;
  tensors: { name: string; type: string; dimensions: bigint[]; offset: bigint }[];
  dataStart: bigint;
  littleEndian: boolean;
}

/**
 * Plain JavaScript, as a thread made from text takes it. The library asks for ranges of a URL; they are answered from the
 * file's descriptor, which is the process's. Beyond the file's end it would read zeros.
 */
const threadSource = `
const { readSync } = require("node:fs");
const { workerData: { library, descriptor, size, port, done } } = require("node:worker_threads");
async function read(_url, { headers }) {
  const [start, last] = headers.Range.match(/\\d+/g).map(Number);
  if (start >= size) throw new Error("the file ends inside its header");
  const bytes = new Uint8Array(Math.min(last + 1, size) - start);
  let at = 0;
  while (at < bytes.length) {
    const got = readSync(descriptor, bytes, at, bytes.length - at, start + at);
    if (got === 0) throw new Error("the file ends inside its header");
    at += got;
  }
  return new Response(bytes, { headers: { "content-range": "bytes " + start + "-" + last + "/" + size } });
}
(async () => {
  const { gguf, GGMLQuantizationType } = require(library);
  const { metadata, tensorInfos, tensorDataOffset, littleEndian } = await gguf("https://local.file", { fetch: read });
  const tensors = tensorInfos.map(({ name, dtype, shape, offset }) => ({
    name, type: GGMLQuantizationType[dtype] ?? "number " + dtype, dimensions: shape, offset,
  }));
  return { header: { metadata, tensors, dataStart: tensorDataOffset, littleEndian } };
})().catch((error) => ({ problem: String(error?.message ?? error) })).then((answer) => {
  port.postMessage(answer);
  Atomics.store(done, 0, 1);
  Atomics.notify(done, 0);
});`;
const threadTimeoutMs = 120_000;

function parse(file: string, descriptor: number, size: number): ParsedHeader {
  const { port1: here, port2: port } = new MessageChannel();
  const done = new Int32Array(new SharedArrayBuffer(4));
  const library = createRequire(import.meta.url).resolve("@huggingface/gguf");
  const worker = new Worker(threadSource, {
    eval: true,
    workerData: { library, descriptor, size, port, done },
    transferList: [port],
    // What this process was started with is not the thread's.
    execArgv: [],
  });
  worker.unref();
  const state = Atomics.wait(done, 0, 0, threadTimeoutMs);
  const answer = receiveMessageOnPort(here)?.message as { header?: ParsedHeader; problem?: string } | undefined;
  here.close();
  void worker.terminate();
  if (answer?.header !== undefined) return answer.header;
  const got = answer?.problem ?? (state === "timed-out" ? `no answer in ${threadTimeoutMs / 1000} s` : "nothing");
  throw ggufError(file, "The GGUF file's header cannot be read.", got, "a whole GGUF file, version 2 or 3", fetchAgain);
}

function checkHeader(file: string, size: number, parsed: ParsedHeader): GgufHeader {
  const { metadata, littleEndian } = parsed;
  const fail = (what: string, got: unknown, expected: string, hint = fetchAgain): never => {
    throw ggufError(file, what, got, expected, hint);
  };
  if (!littleEndian) {
    fail(
      "The GGUF file is of a big-endian machine.",
      "big-endian",
      "little-endian",
      "Use the usual variant of the file.",
    );
  }
  const dataStart = Number(parsed.dataStart);
  if (dataStart > size) {
    fail("The GGUF file is truncated inside its header.", `${size} bytes`, `a header of ${dataStart} bytes`);
  }
  const alignment = Number(metadata["general.alignment"] ?? 32);
  const tensors = new Map<string, GgufTensor>();
  for (const { name, type, dimensions, offset: relative } of parsed.tensors) {
    if (tensors.has(name)) fail(`The GGUF file names tensor "${name}" twice.`, "two entries", "unique names");
    const kind = Object.hasOwn(tensorTypes, type) ? tensorTypes[type]! : undefined;
    if (kind === undefined) {
      const known = Object.keys(tensorTypes).join(", ");
      const hint = "Use another quantisation of the model, for example Q8_0, Q4_K_M or F16.";
      return fail(`Tensor "${name}" is of a type that cannot be read.`, type, `one of ${known}`, hint);
    }
    const shape = dimensions.map(Number).reverse();
    const elements = shape.reduce((a, b) => a * b, 1);
    const offset = dataStart + Number(relative);
    if (!Number.isSafeInteger(elements) || elements < 1 || shape.at(-1)! % kind.block !== 0) {
      fail(`Tensor "${name}" has a malformed shape.`, `${type} [${shape}]`, `rows of a multiple of ${kind.block}`);
    }
    if (!Number.isSafeInteger(offset) || offset % alignment !== 0) {
      fail(`Tensor "${name}" has a malformed offset.`, offset, `a multiple of ${alignment}`);
    }
    tensors.set(name, { type, shape, offset, bytes: (elements / kind.block) * kind.bytes });
  }
  // Tensors lie one behind the other: what overlaps was written wrongly.
  let end = dataStart;
  for (const [name, { offset, bytes }] of [...tensors].sort(([, a], [, b]) => a.offset - b.offset)) {
    if (offset < end) fail(`Tensor "${name}" overlaps another.`, `offset ${offset}`, `at least ${end}`);
    end = offset + bytes;
    if (end > size) {
      const expected = `at least ${end} bytes, to the end of tensor "${name}"`;
      fail("The GGUF file is truncated.", `${size} bytes`, expected);
    }
  }
  return { file, metadata: Object.fromEntries(Object.entries(metadata).map(([k, v]) => [k, plain(v)])), tensors };
}

function plain(value: unknown): unknown {
  return typeof value === "bigint" ? Number(value) : value;
}
