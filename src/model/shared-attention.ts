/**
 * Attention over sequences that share the rows of their common prefixes (PackedBatch.source). Queries, keys and values
 * are copied out to the attention rows, where every sequence stands whole, and results are taken back from the first
 * attention row of each row. A row's repeats have the same tokens before them, so they would give the same bits.
 *
 * Going back, the repeats' outputs were not used: their gradient is 0 and so is that of their queries. Their keys and
 * values were, by the rest of each sequence, so these gradients are summed, attention rows in ascending order.
 */
import type { Device, Tensor } from "../device/device.ts";
import { type BufferPlan, type Buffers, f32, u32 } from "./buffers.ts";
import type { ModelConfig } from "./config.ts";
import type { RowLayout } from "./packed-batch.ts";
import { attentionShape } from "./transformer.ts";

/** Scratch of one layer at a time; the layers share it. */
export function spreadPlan(config: ModelConfig, limits: { maxRows: number; maxSpread: number }) {
  const { maxRows, maxSpread } = limits;
  const queries = f32(maxSpread * config.heads * config.headDim);
  const keys = f32(maxSpread * config.kvHeads * config.headDim);
  return {
    source: u32(maxSpread),
    owner: u32(maxRows),
    q: queries,
    k: keys,
    v: keys,
    attended: queries,
    dAttended: queries,
    dQ: queries,
    dK: keys,
    dV: keys,
  } satisfies Record<string, BufferPlan>;
}

export type SpreadBuffers = Buffers<ReturnType<typeof spreadPlan>>;

export interface AttentionRows {
  rows: number;
  /** Attention rows. */
  spread: number;
  sequences: number;
  /** u32 [sequences + 1] in attention rows. */
  offsets: Tensor;
}

/** Tensors of the rows; `lse` [spread, heads] is of the attention rows. */
export interface AttentionTensors {
  q: Tensor;
  k: Tensor;
  v: Tensor;
  attended: Tensor;
  lse: Tensor;
}

export function writeSpread(device: Device, buffers: SpreadBuffers, source: Uint32Array, { owner }: RowLayout): void {
  device.write(buffers.source, source);
  device.write(buffers.owner, owner);
}

/** `attended` and `lse` of q, k, v. */
export function sharedAttention(
  device: Device,
  config: ModelConfig,
  io: AttentionTensors,
  { rows, spread, sequences, offsets }: AttentionRows,
  buffers: SpreadBuffers,
): void {
  const { q, k, v, attended: out, owner } = buffers;
  spreadInputs(device, config, io, spread, buffers);
  device.attention({ ...attentionShape(config), q, k, v, out, lse: io.lse, offsets, sequences, rows: spread });
  device.gatherRows({ x: out, index: owner, out: io.attended, rows, dim: config.heads * config.headDim });
}

/** dQ, dK, dV (overwritten) of dAttended, all of the rows. */
export function sharedAttentionBackward(
  device: Device,
  config: ModelConfig,
  io: AttentionTensors & { dAttended: Tensor; dQ: Tensor; dK: Tensor; dV: Tensor },
  { rows, spread, sequences, offsets }: AttentionRows,
  buffers: SpreadBuffers,
): void {
  const width = config.heads * config.headDim;
  const kvWidth = config.kvHeads * config.headDim;
  const { q, k, v, attended: out, dAttended: dOut, dQ, dK, dV, source, owner } = buffers;
  spreadInputs(device, config, io, spread, buffers);
  device.gatherRows({ x: io.attended, index: source, out, rows: spread, dim: width });
  device.fill(device.view(dOut, 0, spread * width), 0);
  device.scatterRows({ x: io.dAttended, index: owner, out: dOut, rows, dim: width });
  const forward = { ...attentionShape(config), q, k, v, out, lse: io.lse, offsets, sequences, rows: spread };
  device.attentionBackward({ ...forward, dOut, dQ, dK, dV });
  device.gatherRows({ x: dQ, index: owner, out: io.dQ, rows, dim: width });
  // The sum over repeats is the gradient of an embedding whose ids are `source`.
  for (const [repeated, sum] of [
    [dK, io.dK],
    [dV, io.dV],
  ] as const) {
    device.fill(device.view(sum, 0, rows * kvWidth), 0);
    device.embedBackward({ ids: source, dOut: repeated, dTable: sum, rows: spread, dim: kvWidth, vocab: rows });
  }
}

function spreadInputs(
  device: Device,
  { heads, kvHeads, headDim }: ModelConfig,
  io: { q: Tensor; k: Tensor; v: Tensor },
  rows: number,
  { q, k, v, source: index }: SpreadBuffers,
): void {
  device.gatherRows({ x: io.q, index, out: q, rows, dim: heads * headDim });
  device.gatherRows({ x: io.k, index, out: k, rows, dim: kvHeads * headDim });
  device.gatherRows({ x: io.v, index, out: v, rows, dim: kvHeads * headDim });
}
