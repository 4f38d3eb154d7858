/**
 * The softmax over the vocabulary that scoring and sampling share, kernel by kernel, so that they agree to the bit. Every
 * chunk of a row is reduced by itself to (m, s, t) with m = max z, s = Σ e^(z - m) and t = Σ e^(z - m) (z - m), and a row's
 * chunks are merged last (Milakov & Gimelshein 2018). With z = logit / temperature
 *   lse = m + log s,  log p = z - lse,  entropy H = log s - t / s.
 */
import { VOCAB_CHUNK } from "../../device.ts";
import type { Gpu } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";
import { chunksOf, HEAD_THREADS, headConstants, type Range } from "./head-logits.ts";

/** Room for (m, s, t) and a fourth number of every chunk of the block's rows. */
export function partialsOf(gpu: Gpu, rows: Range, vocab: number): WebGpuTensor {
  return gpu.scratch("head.partials", rows.count * chunksOf(vocab) * 4);
}

/** (m, s, t) of the chunks of these columns. */
export function reduceChunks(
  gpu: Gpu,
  some: WebGpuTensor,
  temperatures: WebGpuTensor,
  partials: WebGpuTensor,
  rows: Range,
  columns: Range,
  vocab: number,
): void {
  gpu.recorder.dispatch({
    kernel: "head_partials",
    constants: headConstants,
    bindings: [some, temperatures, partials],
    params: {
      first_row: rows.first,
      stride: columns.count,
      columns: columns.count,
      first_chunk: columns.first / VOCAB_CHUNK,
      chunks: chunksOf(vocab),
    },
    groups: [chunksOf(columns.count), rows.count],
  });
}

/** lse and entropies of the block's rows, of all their chunks. */
export function mergeChunks(
  gpu: Gpu,
  partials: WebGpuTensor,
  lse: WebGpuTensor,
  entropies: WebGpuTensor,
  rows: Range,
  vocab: number,
): void {
  gpu.recorder.dispatch({
    kernel: "head_merge",
    constants: headConstants,
    bindings: [partials, lse, entropies],
    params: { first_row: rows.first, chunks: chunksOf(vocab) },
    groups: [rows.count],
  });
}

/** out[row] = z of the row's token, for the rows whose token is among these columns. */
export function gatherTargets(
  gpu: Gpu,
  some: WebGpuTensor,
  temperatures: WebGpuTensor,
  tokens: WebGpuTensor,
  out: WebGpuTensor,
  rows: Range,
  columns: Range,
): void {
  gpu.recorder.dispatch({
    kernel: "head_target",
    constants: headConstants,
    bindings: [some, temperatures, tokens, out],
    params: {
      first_row: rows.first,
      rows: rows.count,
      stride: columns.count,
      first: columns.first,
      columns: columns.count,
    },
    groups: [Math.ceil(rows.count / HEAD_THREADS)],
  });
}

/** logProbs = z - lse, in place. */
export function normalize(gpu: Gpu, lse: WebGpuTensor, logProbs: WebGpuTensor, rows: Range): void {
  gpu.recorder.dispatch({
    kernel: "head_normalize",
    constants: headConstants,
    bindings: [lse, logProbs],
    params: { first_row: rows.first, rows: rows.count },
    groups: [Math.ceil(rows.count / HEAD_THREADS)],
  });
}
