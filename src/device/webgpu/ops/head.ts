/**
 * The fused head: from final hidden states to log-probabilities and entropies, and from their derivatives to gradients.
 * Logits of all rows and the whole vocabulary never exist at once; the backward pass computes them again.
 */
import type { HeadBackwardArgs, HeadLogProbArgs } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";
import {
  checkHead,
  chunkGroups,
  HEAD_THREADS,
  type Head,
  headConstants,
  LOGITS_BUDGET,
  logits,
  type Range,
  rowBlocks,
  weightParts,
  windowOf,
} from "./head-logits.ts";
import { gatherTargets, mergeChunks, normalize, partialsOf, reduceChunks } from "./head-softmax.ts";
import { stridedMatmul } from "./matmul.ts";

export { headSample } from "./sample.ts";

export function headLogProb(gpu: Gpu, x: HeadLogProbArgs, budget = LOGITS_BUDGET): void {
  const head = checkHead("headLogProb", x);
  const { rows, vocab } = x;
  const targets = operand("headLogProb", "targets", x.targets, "u32", rows);
  const temperatures = operand("headLogProb", "temperatures", x.temperatures, "f32", rows);
  const logProbs = operand("headLogProb", "logProbs", x.logProbs, "f32", rows);
  const entropies = operand("headLogProb", "entropies", x.entropies, "f32", rows);
  const lse = operand("headLogProb", "lse", x.lse, "f32", rows);
  for (const block of rowBlocks(rows)) {
    const groups = chunkGroups(vocab, block.count, budget);
    const some = gpu.scratch("head.logits", block.count * groups[0]!.count);
    const partials = partialsOf(gpu, block, vocab);
    for (const columns of groups) {
      logits(gpu, head, block, columns, some, columns.count);
      reduceChunks(gpu, some, temperatures, partials, block, columns, vocab);
      gatherTargets(gpu, some, temperatures, targets, logProbs, block, columns);
    }
    mergeChunks(gpu, partials, lse, entropies, block, vocab);
    normalize(gpu, lse, logProbs, block);
  }
}

export function headBackward(gpu: Gpu, x: HeadBackwardArgs, budget = LOGITS_BUDGET): void {
  const head = checkHead("headBackward", x);
  const { rows, dim, vocab } = x;
  const targets = operand("headBackward", "targets", x.targets, "u32", rows);
  const vectors = (["temperatures", "lse", "entropies", "dLogProbs", "dEntropies"] as const).map((name) =>
    operand("headBackward", name, x[name], "f32", rows),
  );
  const [temperatures, ...perRow] = vectors;
  const dHidden = operand("headBackward", "dHidden", x.dHidden, "f32", rows * dim);
  const dWeight =
    x.dWeight === undefined ? undefined : operand("headBackward", "dWeight", x.dWeight, "f32", vocab * dim);
  for (const block of rowBlocks(rows)) {
    const groups = chunkGroups(vocab, block.count, budget);
    const some = gpu.scratch("head.logits", block.count * groups[0]!.count);
    for (const columns of groups) {
      logits(gpu, head, block, columns, some, columns.count);
      gpu.recorder.dispatch({
        kernel: "head_gradient",
        constants: headConstants,
        bindings: [some, temperatures!, targets, ...perRow],
        params: { first_row: block.first, stride: columns.count, first: columns.first, columns: columns.count },
        groups: [Math.ceil(columns.count / HEAD_THREADS), block.count],
      });
      hiddenGradient(gpu, head, some, dHidden, block, columns);
      if (dWeight !== undefined) weightGradient(gpu, head, some, dWeight, block, columns);
    }
  }
}

/** dHidden[rows, dim] (+)= dLogits[rows, columns] · weight; vocabulary ascending. */
function hiddenGradient(
  gpu: Gpu,
  x: Head,
  dLogits: WebGpuTensor,
  dHidden: WebGpuTensor,
  rows: Range,
  columns: Range,
): void {
  for (const { vocabulary, features, window } of weightParts(gpu, x, columns)) {
    const b = window(x.weight);
    const out = windowOf(gpu, dHidden, rows.first * x.dim + features.first, (rows.count - 1) * x.dim + features.count);
    stridedMatmul(gpu, {
      layout: x.tied ? "nn" : "nt",
      a: dLogits,
      aOffset: vocabulary.first - columns.first,
      lda: columns.count,
      b: b.tensor,
      bOffset: b.offset,
      ldb: x.tied ? x.dim : x.vocab,
      out: out.tensor,
      outOffset: out.offset,
      ldc: x.dim,
      m: rows.count,
      n: features.count,
      k: vocabulary.count,
      accumulate: vocabulary.first > 0,
    });
  }
}

/** dWeight += dLogitsᵀ · hidden (tied) or hiddenᵀ · dLogits; rows ascending. */
function weightGradient(
  gpu: Gpu,
  x: Head,
  dLogits: WebGpuTensor,
  dWeight: WebGpuTensor,
  rows: Range,
  columns: Range,
): void {
  for (const { vocabulary, features, window } of weightParts(gpu, x, columns)) {
    const start = rows.first * x.dim + features.first;
    const hidden = windowOf(gpu, x.hidden, start, (rows.count - 1) * x.dim + features.count);
    const ofHidden = { tensor: hidden.tensor, offset: hidden.offset, stride: x.dim, count: features.count };
    const ofLogits = {
      tensor: dLogits,
      offset: vocabulary.first - columns.first,
      stride: columns.count,
      count: vocabulary.count,
    };
    const [a, b] = x.tied ? [ofLogits, ofHidden] : [ofHidden, ofLogits];
    const out = window(dWeight);
    stridedMatmul(gpu, {
      layout: "tn",
      a: a.tensor,
      aOffset: a.offset,
      lda: a.stride,
      b: b.tensor,
      bOffset: b.offset,
      ldb: b.stride,
      out: out.tensor,
      outOffset: out.offset,
      ldc: x.tied ? x.dim : x.vocab,
      m: a.count,
      n: b.count,
      k: rows.count,
      accumulate: true,
    });
  }
}
