/**
 * Causal attention and its gradient, each in two variants that give the same bits: "register", a thread for some heads of
 * one row, for adapters that compute on the CPU; "tiled", a workgroup for a tile of queries, or of keys, that it stages in
 * workgroup memory, for GPUs.
 */
import { AgentRLError } from "../../../errors.ts";
import {
  ATTENTION_BLOCK,
  type AttentionArgs,
  type AttentionBackwardArgs,
  type AttentionCachedArgs,
  type AttentionShape,
} from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";
import { cacheTypes } from "./half.ts";

export const attentionVariants = ["register", "tiled"] as const;
export type AttentionVariant = (typeof attentionVariants)[number];

export function attentionVariant(gpu: Gpu): AttentionVariant {
  return gpu.adapter.info.software ? "register" : "tiled";
}

/** Threads of a workgroup of the register variant: few, as one core of a CPU computes a workgroup. */
const REGISTER_WORKGROUP = 8;
/** Most heads that a thread of the register variant computes. */
const REGISTER_HEADS = 4;
/** Most heads in a tile of 32 queries; the rest of the tile is rows. */
const TILE_HEADS = 8;
/** Dimensions that the tiled variant stages at a time. */
const CHUNK = 32;
const STATISTICS_WORKGROUP = 64;

export function attention(gpu: Gpu, x: AttentionArgs, variant = attentionVariant(gpu)): void {
  const { rows, sequences } = x;
  const shape = shapeOf("attention", x);
  const { q, k, v, offsets, out, lse } = forwardOperands("attention", x);
  dispatchForward(gpu, x, variant, {
    paged: false,
    bindings: [q, k, v, offsets, out, lse],
    params: { ...shape, rows, sequences },
  });
}

/** Pages, lines and positions outside their tables are not noticed: they lie in the device's memory. */
export function attentionCached(gpu: Gpu, x: AttentionCachedArgs, variant = attentionVariant(gpu)): void {
  const op = "attentionCached";
  const { rows, pageTableStride } = x;
  const shape = shapeOf(op, x);
  const page = ATTENTION_BLOCK * x.kvHeads * x.headDim;
  const kCache = operand(op, "kCache", x.kCache, cacheTypes, page);
  const bindings = [
    operand(op, "q", x.q, "f32", rows * x.heads * x.headDim),
    kCache,
    operand(op, "vCache", x.vCache, kCache.dtype, page),
    operand(op, "positions", x.positions, "u32", rows),
    operand(op, "sequenceOf", x.sequenceOf, "u32", rows),
    operand(op, "pageTable", x.pageTable, "u32", pageTableStride),
    operand(op, "out", x.out, "f32", rows * x.heads * x.headDim),
  ];
  const params = { ...shape, rows, page_stride: pageTableStride };
  dispatchForward(gpu, x, variant, { paged: true, half: kCache.dtype === "f16", bindings, params });
}

export function attentionBackward(gpu: Gpu, x: AttentionBackwardArgs, variant = attentionVariant(gpu)): void {
  const op = "attentionBackward";
  const { rows, sequences, heads, kvHeads, headDim } = x;
  const shape = shapeOf(op, x);
  const { q, k, v, offsets, out, lse } = forwardOperands(op, x);
  const dOut = operand(op, "dOut", x.dOut, "f32", rows * heads * headDim);
  const dQ = operand(op, "dQ", x.dQ, "f32", rows * heads * headDim);
  const dK = operand(op, "dK", x.dK, "f32", rows * kvHeads * headDim);
  const dV = operand(op, "dV", x.dV, "f32", rows * kvHeads * headDim);
  const statistics = gpu.scratch("attention.statistics", 2 * rows * heads);

  gpu.recorder.dispatch({
    kernel: "attention_statistics",
    bindings: [out, lse, dOut, statistics],
    params: { queries: rows * heads, dims: shape.dims },
    groups: gpu.fold(Math.ceil((rows * heads) / STATISTICS_WORKGROUP)),
  });
  const params = { ...shape, rows, sequences };
  const common = [q, k, v, offsets, statistics, dOut];
  const dq = { paged: false, bindings: [...common, dQ], params };
  const dkv = { bindings: [...common, dK, dV], params };
  if (variant === "register") {
    dispatchRegister(gpu, x, "attention_dq_register", dq);
    const groups = gpu.fold(Math.ceil((rows * kvHeads) / REGISTER_WORKGROUP));
    const constants = { PAGED: false, HALF: false };
    gpu.recorder.dispatch({ kernel: "attention_dkv_register", constants, ...dkv, groups });
    return;
  }
  dispatchTiled(gpu, x, "attention_dq_tiled", dq);
  const constants = { PAGED: false, HALF: false, TILE_HEADS: 1, CHUNKS: Math.ceil(headDim / CHUNK) };
  gpu.recorder.dispatch({ kernel: "attention_dkv_tiled", constants, ...dkv, groups: gpu.fold(rows * kvHeads) });
}

/** A kernel that computes query rows. */
interface QueryKernel {
  paged: boolean;
  /** Keys and values are f16. */
  half?: boolean;
  bindings: readonly WebGpuTensor[];
  params: Readonly<Record<string, number>>;
}

function dispatchForward(
  gpu: Gpu,
  x: AttentionShape & { rows: number },
  variant: AttentionVariant,
  kernel: QueryKernel,
): void {
  if (variant === "register") dispatchRegister(gpu, x, "attention_register", kernel);
  else dispatchTiled(gpu, x, "attention_tiled", kernel);
}

function dispatchTiled(
  gpu: Gpu,
  { heads, kvHeads, headDim, rows }: AttentionShape & { rows: number },
  kernel: "attention_tiled" | "attention_dq_tiled",
  { paged, half = false, ...rest }: QueryKernel,
): void {
  const tileHeads = largestDivisor(heads / kvHeads, TILE_HEADS);
  gpu.recorder.dispatch({
    kernel,
    constants: { PAGED: paged, HALF: half, TILE_HEADS: tileHeads, CHUNKS: Math.ceil(headDim / CHUNK) },
    ...rest,
    groups: gpu.fold((rows * heads) / tileHeads),
  });
}

function dispatchRegister(
  gpu: Gpu,
  { heads, kvHeads, rows }: AttentionShape & { rows: number },
  kernel: "attention_register" | "attention_dq_register",
  { paged, half = false, ...rest }: QueryKernel,
): void {
  const queries = largestDivisor(heads / kvHeads, REGISTER_HEADS);
  gpu.recorder.dispatch({
    kernel,
    constants: { PAGED: paged, HALF: half, QUERIES: queries },
    ...rest,
    groups: gpu.fold(Math.ceil((rows * heads) / queries / REGISTER_WORKGROUP)),
  });
}

function largestDivisor(of: number, atMost: number): number {
  let divisor = Math.min(of, atMost);
  while (of % divisor !== 0) divisor--;
  return divisor;
}

function forwardOperands(op: string, x: AttentionArgs) {
  const queries = x.rows * x.heads * x.headDim;
  const keys = x.rows * x.kvHeads * x.headDim;
  return {
    q: operand(op, "q", x.q, "f32", queries),
    k: operand(op, "k", x.k, "f32", keys),
    v: operand(op, "v", x.v, "f32", keys),
    offsets: operand(op, "offsets", x.offsets, "u32", x.sequences + 1),
    out: operand(op, "out", x.out, "f32", queries),
    lse: operand(op, "lse", x.lse, "f32", x.rows * x.heads),
  };
}

/** Parameters of every kernel. */
function shapeOf(op: string, { heads, kvHeads, headDim, scale }: AttentionShape) {
  if (!(kvHeads > 0 && heads > 0 && heads % kvHeads === 0)) {
    refuse(op, "heads", heads, `a multiple of kvHeads = ${kvHeads}`);
  }
  if (!(headDim > 0 && headDim % 8 === 0 && headDim <= 256)) {
    refuse(op, "headDim", headDim, "a multiple of 8 from 8 to 256");
  }
  return { heads, kv_heads: kvHeads, dims: headDim / 4, scale };
}

function refuse(op: string, argument: string, got: number, expected: string): never {
  throw new AgentRLError("DEVICE", `${op}: an argument does not fit`, { where: `${op}, ${argument}`, got, expected });
}
