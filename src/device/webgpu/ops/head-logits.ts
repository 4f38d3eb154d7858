/**
 * Logits of some rows and vocabulary entries at a time, for the operators of the head: they are walked in blocks of rows
 * and groups of whole chunks, whose logits fit a fixed budget. Nothing that is computed depends on the blocks: a logit
 * is one chain over dim, and rows are reduced by chunk.
 */
import { AgentRLError } from "../../../errors.ts";
import { type HeadShape, VOCAB_CHUNK, weightTypes } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import { VIEW_ALIGNMENT, type WebGpuTensor } from "../tensor.ts";
import { stridedMatmul } from "./matmul.ts";

/** Logits in memory at once (32 MiB). */
export const LOGITS_BUDGET = 8 << 20;
/** Rows in a block at most: more would only leave fewer vocabulary entries in a group. */
const BLOCK_ROWS = 1024;

/** Constants of every kernel of the head. */
export const headConstants = { CHUNK: VOCAB_CHUNK };
export const HEAD_THREADS = 64;

export interface Head extends HeadShape {
  hidden: WebGpuTensor;
  weight: WebGpuTensor;
}

/** `count` from `first` on, of rows or of vocabulary entries. */
export interface Range {
  first: number;
  count: number;
}

export function checkHead(operator: string, x: HeadShape): Head {
  const { rows, dim, vocab, tied } = x;
  const hidden = operand(operator, "hidden", x.hidden, "f32", rows * dim);
  const weight = operand(operator, "weight", x.weight, weightTypes, vocab * dim);
  return { hidden, weight, tied, rows, dim, vocab };
}

export function chunksOf(vocab: number): number {
  return Math.ceil(vocab / VOCAB_CHUNK);
}

export function rowBlocks(rows: number, most = BLOCK_ROWS): Range[] {
  return ranges(rows, Math.min(BLOCK_ROWS, most));
}

/** Groups of whole chunks, as many as fit the budget with this many rows: one at least. */
export function chunkGroups(vocab: number, rows: number, budget: number): Range[] {
  return ranges(vocab, Math.max(1, Math.floor(budget / (rows * VOCAB_CHUNK))) * VOCAB_CHUNK);
}

export function ranges(total: number, step: number): Range[] {
  return Array.from({ length: Math.ceil(total / step) }, (_, i) => {
    return { first: i * step, count: Math.min(step, total - i * step) };
  });
}

/** out[rows.count, columns.count] = hidden · weightᵀ for these rows and vocabulary entries; a row takes `stride` elements. */
export function logits(gpu: Gpu, x: Head, rows: Range, columns: Range, out: WebGpuTensor, stride: number): void {
  const { dim, vocab } = x;
  const m = rows.count;
  for (const part of weightParts(gpu, x, columns)) {
    const { vocabulary, features } = part;
    const a = windowOf(gpu, x.hidden, rows.first * dim + features.first, (m - 1) * dim + features.count);
    const b = part.window(x.weight);
    stridedMatmul(gpu, {
      layout: x.tied ? "nt" : "nn",
      a: a.tensor,
      aOffset: a.offset,
      lda: dim,
      b: b.tensor,
      bOffset: b.offset,
      ldb: x.tied ? dim : vocab,
      out,
      outOffset: vocabulary.first - columns.first,
      ldc: stride,
      m,
      n: vocabulary.count,
      k: features.count,
      // A chain over dim that is cut in two goes on from where it was stored: the same bits.
      accumulate: features.first > 0,
    });
  }
}

/** A part of the weight that one binding holds. */
export interface WeightPart {
  vocabulary: Range;
  features: Range;
  /** The part of `tensor`, which has the shape of the weight. */
  window(tensor: WebGpuTensor): Window;
}

/**
 * The parts of the weight's `columns`, ascending: all in one where the weight fits a binding, else runs of vocabulary
 * entries where it is tied, and runs of features where it is not.
 */
export function weightParts(gpu: Gpu, x: Head, columns: Range): WeightPart[] {
  const { dim, vocab, tied, weight } = x;
  const fits = weight.length <= gpu.maxBindingElements;
  const line = tied ? dim : vocab;
  const lines = fits ? Number.POSITIVE_INFINITY : Math.floor((gpu.maxBindingElements - VIEW_ALIGNMENT) / line);
  if (lines < 1) {
    throw new AgentRLError("DEVICE", "One line of the head's weight is larger than this adapter can bind at once", {
      where: weight.label || "head",
      got: `${line} elements`,
      expected: `at most ${gpu.maxBindingElements - VIEW_ALIGNMENT} elements`,
    });
  }
  const all = { first: 0, count: dim };
  if (tied) {
    return ranges(columns.count, Math.min(lines, columns.count)).map(({ first, count }) => {
      const vocabulary = { first: columns.first + first, count };
      const window = (tensor: WebGpuTensor) => windowOf(gpu, tensor, vocabulary.first * dim, count * dim);
      return { vocabulary, features: all, window };
    });
  }
  return ranges(dim, Math.min(lines, dim)).map((features) => {
    const start = features.first * vocab + columns.first;
    const length = (features.count - 1) * vocab + columns.count;
    return { vocabulary: columns, features, window: (tensor: WebGpuTensor) => windowOf(gpu, tensor, start, length) };
  });
}

/** Where a kernel finds a run of a tensor: a tensor that can be bound, and the run's offset in it. */
export interface Window {
  tensor: WebGpuTensor;
  offset: number;
}

/** The whole tensor where it can be bound, so that all runs of it share a bind group; else an aligned view. */
export function windowOf(gpu: Gpu, tensor: WebGpuTensor, start: number, length: number): Window {
  if (tensor.length <= gpu.maxBindingElements) return { tensor, offset: start };
  const offset = start % VIEW_ALIGNMENT;
  return { tensor: gpu.view(tensor, start - offset, offset + length), offset };
}
