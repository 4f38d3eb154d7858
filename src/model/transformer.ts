/**
 * The decoder layer as operators, written once for training and for inference (Llama: pre-norm RMSNorm, rotary
 * grouped-query attention, SwiGLU; Touvron et al. 2023; families.ts says what other families add). What differs between the two, attention over packed sequences
 * or over a KV cache, lies between `projectQueries` and `finishLayer`. The operators obey the invariance rule, so one
 * code path is all it takes for both to give the same bits.
 *
 * A row is one token. rows x hiddenSize of residual stream go in and out.
 */
import type { Device, Tensor } from "../device/device.ts";
import type { ModelConfig } from "./config.ts";
import { linear } from "./linear.ts";
import { linearShape } from "./parameters.ts";
import { ropeFrequency } from "./rope-config.ts";
import type { ComputeWeights, LayerWeights } from "./weights.ts";

/**
 * The table of `Device.rope`, f32 [positions, headDim]. Angles are taken in float64: transformers takes them in
 * float32, which differs by position * 2^-24 at most.
 */
export function ropeTable(config: ModelConfig, positions: number): Float32Array {
  const half = config.headDim / 2;
  const table = new Float32Array(positions * config.headDim);
  for (let i = 0; i < half; i++) {
    const frequency = ropeFrequency(config, i);
    for (let position = 0; position < positions; position++) {
      const at = position * config.headDim + i;
      table[at] = Math.cos(position * frequency);
      table[at + half] = Math.sin(position * frequency);
    }
  }
  return table;
}

export function attentionShape(config: ModelConfig) {
  const { heads, kvHeads, headDim } = config;
  return { heads, kvHeads, headDim, scale: 1 / Math.sqrt(headDim) };
}

export interface Rotation {
  /** ropeTable on the device. */
  cosSin: Tensor;
  /** u32 [rows] */
  positions: Tensor;
}

/** normed = norm of the residual stream, the input of the three attention projections. */
export function normInput(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  io: { residual: Tensor; normed: Tensor; invRms: Tensor; rows: number },
): void {
  const { hiddenSize: dim, rmsNormEps: eps } = config;
  const { residual: x, normed: out, invRms, rows } = io;
  device.rmsNorm({ x, weight: weights.attentionNorm, out, invRms, rows, dim, eps });
}

/** Memory that the projections of some models need besides; which, is said by `projectionPlan`. */
export interface ProjectionScratch {
  /** [rows, rank] of adapters. */
  lowRank?: Tensor;
  /** Queries and keys before their norms, [rows, heads, headDim] and [rows, kvHeads, headDim], and [rows, heads] of the norms. */
  qRaw?: Tensor;
  kRaw?: Tensor;
  headInvRms?: Tensor;
}

/** k, v [rows, kvHeads, headDim] of normed rows; k rotated. */
export function projectKeysValues(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  io: { normed: Tensor; k: Tensor; v: Tensor; rows: number },
  rotation: Rotation,
  scratch: ProjectionScratch,
): void {
  const { kvHeads: heads, headDim } = config;
  const { normed: x, k, v, rows } = io;
  const { lowRank, kRaw: raw } = scratch;
  const size = { rows, ...linearShape(config, "k") };
  linear(device, weights.k, { x, out: weights.kNorm === undefined ? k : raw!, lowRank, ...size });
  linear(device, weights.v, { x, out: v, lowRank, ...size });
  if (weights.kNorm !== undefined)
    normHeads(device, config, weights.kNorm, { raw: raw!, out: k, rows, heads }, scratch);
  device.rope({ x: k, ...rotation, rows, heads, headDim });
}

/** q [rows, heads, headDim] of normed rows, rotated. */
export function projectQueries(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  io: { normed: Tensor; q: Tensor; rows: number },
  rotation: Rotation,
  scratch: ProjectionScratch,
): void {
  const { heads, headDim } = config;
  const { normed: x, q, rows } = io;
  const { lowRank, qRaw: raw } = scratch;
  const size = { rows, ...linearShape(config, "q") };
  linear(device, weights.q, { x, out: weights.qNorm === undefined ? q : raw!, lowRank, ...size });
  if (weights.qNorm !== undefined)
    normHeads(device, config, weights.qNorm, { raw: raw!, out: q, rows, heads }, scratch);
  device.rope({ x: q, ...rotation, rows, heads, headDim });
}

/** Each head of each row is a row of the norm. */
export function normHeads(
  device: Device,
  { headDim: dim, rmsNormEps: eps }: ModelConfig,
  weight: Tensor,
  { raw: x, out, rows, heads }: { raw: Tensor; out: Tensor; rows: number; heads: number },
  { headInvRms }: ProjectionScratch,
): void {
  device.rmsNorm({ x, weight, out, invRms: headInvRms!, rows: rows * heads, dim, eps });
}

/** Buffers of the feed-forward half of a layer. */
export interface FeedForwardBuffers {
  /** [rows, hiddenSize] */
  normed: Tensor;
  /** [rows] */
  invRms: Tensor;
  /** [rows, intermediateSize] each. */
  gate: Tensor;
  up: Tensor;
  activated: Tensor;
  /** [rows, rank] of adapters. */
  lowRank?: Tensor;
}

/**
 * middle = residual + attended * Wo; out = middle + feedForward(norm(middle)). The three may be one tensor (inference);
 * training keeps them apart. Both sums start the matmul's chain at the residual instead of adding afterwards.
 */
export function finishLayer(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  io: { residual: Tensor; attended: Tensor; middle: Tensor; out: Tensor; rows: number },
  buffers: FeedForwardBuffers,
): void {
  const { hiddenSize: dim, intermediateSize } = config;
  const { middle, out, rows } = io;
  const { gate, up, activated, lowRank } = buffers;
  openFeedForward(device, config, weights, io, buffers);
  device.swiglu({ gate, up, out: activated, length: rows * intermediateSize });
  if (out !== middle) device.copy(middle, out, rows * dim);
  linear(device, weights.down, { x: activated, out, rows, ...linearShape(config, "down"), accumulate: true, lowRank });
}

/** The first part of finishLayer: up to `middle`, `gate` and `up`, which the backward pass reads. */
export function openFeedForward(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  io: { residual: Tensor; attended: Tensor; middle: Tensor; rows: number },
  buffers: Omit<FeedForwardBuffers, "activated">,
): void {
  const { hiddenSize: dim, rmsNormEps: eps } = config;
  const { residual, attended, middle, rows } = io;
  const { normed, invRms, gate, up, lowRank } = buffers;
  if (middle !== residual) device.copy(residual, middle, rows * dim);
  linear(device, weights.o, {
    x: attended,
    out: middle,
    rows,
    ...linearShape(config, "o"),
    accumulate: true,
    lowRank,
  });
  device.rmsNorm({ x: middle, weight: weights.mlpNorm, out: normed, invRms, rows, dim, eps });
  const widen = { x: normed, rows, ...linearShape(config, "gate"), lowRank };
  linear(device, weights.gate, { out: gate, ...widen });
  linear(device, weights.up, { out: up, ...widen });
}

/** The hidden states that the head reads. */
export function normOutput(
  device: Device,
  config: ModelConfig,
  weights: ComputeWeights,
  io: { residual: Tensor; hidden: Tensor; invRms: Tensor; rows: number },
): void {
  const { hiddenSize: dim, rmsNormEps: eps } = config;
  const { residual: x, hidden: out, invRms, rows } = io;
  device.rmsNorm({ x, weight: weights.finalNorm, out, invRms, rows, dim, eps });
}

/** The head's operands that all of its operators share. */
export function headShape(config: ModelConfig, weights: ComputeWeights, hidden: Tensor, rows: number) {
  const { hiddenSize: dim, vocabSize: vocab, tieWordEmbeddings: tied } = config;
  return { hidden, weight: weights.head, tied, rows, dim, vocab };
}
