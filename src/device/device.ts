/**
 * The operators that the model, the engine and the loss are written on. One implementation per device (`native`: C++
 * in the addon; `webgpu`: WGSL), one conformance suite for all.
 *
 * The invariance rule binds every operator: an output element is reduced in an order that depends only on the model's
 * shapes, never on the number of rows, their packing, the tile, the thread count, or on whether the caller decodes or
 * trains. In particular
 *   - matmul sums k in ascending order through one fused multiply-add chain per output element, in every layout;
 *   - attention walks the keys of a row in blocks of `ATTENTION_BLOCK` starting at position 0 (online softmax), and
 *     `attention` and `attentionCached` give the same bits for the same row;
 *   - the head walks the vocabulary in chunks of `VOCAB_CHUNK`, and `headLogProb` and `headSample` give the same bits
 *     for the same row, token and temperature;
 *   - reductions over rows (gradients of weights) go through rows in ascending order.
 *
 * All matrices are dense, row-major, float32. Weights may be stored in 16 bits, and on some devices the KV cache
 * (`Storage`): such numbers are read exactly and computed with in float32, in the same chains, so that a result has the bits
 * that the same numbers give when they are stored in float32. Sizes are in elements. Operators return at once on `webgpu` (they are
 * recorded) and when done on `native`; only `read` waits. A shape that does not fit its tensor throws AgentRLError
 * "DEVICE" naming operator, argument, got and expected.
 */

/** Keys per block of the online softmax; also the page size of a KV cache. */
export const ATTENTION_BLOCK = 32;
/** Vocabulary entries per chunk of the fused head. */
export const VOCAB_CHUNK = 512;

/**
 * IEEE 754's binary16, and the upper half of a float32. A tensor of them is a weight: `b` of matmul (layouts nn and nt),
 * the head's `weight`, embed's `table`; where a device has f16 caches, f16 also keys and values. A device without such
 * tensors refuses to allocate them.
 */
export type HalfType = "f16" | "bf16";

/** What a weight may be stored in. */
export const weightTypes = ["f32", "f16", "bf16"] as const;
export type WeightType = (typeof weightTypes)[number];

export type DType = "f32" | "u32" | HalfType;

export function isHalf(dtype: DType): dtype is HalfType {
  return dtype === "f16" || dtype === "bf16";
}

export function elementBytes(dtype: DType): number {
  return isHalf(dtype) ? 2 : 4;
}

/** Where a model's passes keep 16 bits for a number. */
export interface Storage {
  /** Matrices that the passes compute with; those that the optimizer updates are f32 always. */
  readonly weights: WeightType;
  /** Keys and values that generation keeps; training rounds its own to the same numbers. */
  readonly kvCache: "f32" | "f16";
}

/** A run of device memory. Views share the memory of their parent. */
export interface Tensor {
  readonly dtype: DType;
  /** Number of elements. */
  readonly length: number;
  readonly label: string;
}

export type MatmulLayout = "nn" | "nt" | "tn";

export interface MatmulArgs {
  /**
   * out[m,n] = op(a) · op(b) (+ bias) (+ out when `accumulate`).
   * nn: a[m,k] b[k,n]. nt: a[m,k] b[n,k]. tn: a[k,m] b[k,n].
   * With `accumulate` the chain starts from the old value of out; with `bias` from bias[n]; both: from out + bias.
   */
  layout: MatmulLayout;
  a: Tensor;
  /** Of any type of number. */
  b: Tensor;
  out: Tensor;
  m: number;
  n: number;
  k: number;
  bias?: Tensor;
  accumulate?: boolean;
}

/** What a device chooses a kernel for a product by. */
export type ProductShape = Pick<MatmulArgs, "layout" | "m" | "n" | "k">;

export interface AttentionShape {
  heads: number;
  kvHeads: number;
  headDim: number;
  /** Usually 1/sqrt(headDim). */
  scale: number;
}

export interface AttentionArgs extends AttentionShape {
  /** [rows, heads, headDim] */
  q: Tensor;
  /** [rows, kvHeads, headDim] */
  k: Tensor;
  v: Tensor;
  /** [rows, heads, headDim] */
  out: Tensor;
  /** [rows, heads]: log-sum-exp of the scaled scores, kept for the backward pass. */
  lse: Tensor;
  /** u32 [sequences + 1]: row offsets of the packed sequences; each attends causally to itself only. */
  offsets: Tensor;
  sequences: number;
  /** offsets[sequences]: a device that cannot look into its memory has to know how much work to start. */
  rows: number;
}

export interface AttentionBackwardArgs extends AttentionArgs {
  dOut: Tensor;
  /** Overwritten, shapes of q, k, v. */
  dQ: Tensor;
  dK: Tensor;
  dV: Tensor;
}

export interface KvWriteArgs {
  /** [rows, kvHeads * headDim] */
  k: Tensor;
  v: Tensor;
  /** [pages, ATTENTION_BLOCK, kvHeads * headDim], both f32 or both f16: then rounded as `roundHalf` does. */
  kCache: Tensor;
  vCache: Tensor;
  /** u32 [rows]: page * ATTENTION_BLOCK + place in page. */
  slots: Tensor;
  rows: number;
  /** kvHeads * headDim */
  width: number;
}

export interface AttentionCachedArgs extends AttentionShape {
  /** [rows, heads, headDim] */
  q: Tensor;
  /** Both f32 or both f16. */
  kCache: Tensor;
  vCache: Tensor;
  out: Tensor;
  /** u32 [rows]: position of the row in its sequence; it attends to keys 0..position, which are in the cache already. */
  positions: Tensor;
  /** u32 [rows]: which line of `pageTable`. */
  sequenceOf: Tensor;
  /** u32 [lines, pageTableStride]: pages of a sequence in order. */
  pageTable: Tensor;
  pageTableStride: number;
  rows: number;
}

export interface HeadShape {
  /** [rows, dim] final hidden states (already normalised). */
  hidden: Tensor;
  /** [vocab, dim] when `tied` (the embedding table), else [dim, vocab]; of any type of number. */
  weight: Tensor;
  tied: boolean;
  rows: number;
  dim: number;
  vocab: number;
}

export interface HeadLogProbArgs extends HeadShape {
  /** u32 [rows] */
  targets: Tensor;
  /** f32 [rows], > 0: log-softmax is taken of logits / temperature over the whole vocabulary. */
  temperatures: Tensor;
  /** f32 [rows] outputs: log-probability of the target; entropy (nats); log-sum-exp of logits / temperature. */
  logProbs: Tensor;
  entropies: Tensor;
  lse: Tensor;
}

export interface HeadBackwardArgs extends HeadShape {
  targets: Tensor;
  temperatures: Tensor;
  lse: Tensor;
  entropies: Tensor;
  /** f32 [rows]: dLoss/dLogProb and dLoss/dEntropy of each row. */
  dLogProbs: Tensor;
  dEntropies: Tensor;
  /** [rows, dim], overwritten. */
  dHidden: Tensor;
  /** Shape of `weight`, accumulated into. Absent where the weight is not trained: its product is then not computed. */
  dWeight?: Tensor;
}

export interface HeadSampleArgs extends HeadShape {
  /** f32 [rows]. 0 = greedy: the arg-max (lowest id on a tie), its log-probability taken at temperature 1. */
  temperatures: Tensor;
  /** u32 [rows]: keep the k most likely; 0 = off. */
  topK: Tensor;
  /** f32 [rows]: keep the smallest set of likeliest tokens whose mass reaches p; 1 = off. */
  topP: Tensor;
  /** f32 [rows]: drop tokens below minP times the likeliest's probability; 0 = off. */
  minP: Tensor;
  /** u32 [rows, 4]: counter (3 words) and key word of the row's random number: Philox 4x32-10, first word / 2^32. */
  seeds: Tensor;
  /** u32 [rows] */
  tokens: Tensor;
  /** f32 [rows]: log-softmax over the WHOLE vocabulary at the row's temperature (as headLogProb gives it). */
  logProbs: Tensor;
  /** f32 [rows]: probability mass of the kept set (1 when nothing is cut). */
  keptMass: Tensor;
}

export interface AdamWArgs {
  /** Values read. */
  param: Tensor;
  /** Where updated values go: may be `param` itself, or a free slot of the weight board. */
  out: Tensor;
  grad: Tensor;
  m: Tensor;
  v: Tensor;
  length: number;
  lr: number;
  beta1: number;
  beta2: number;
  eps: number;
  /** Decoupled (Loshchilov & Hutter 2019): out = param - lr * (mHat / (sqrt(vHat) + eps) + weightDecay * param). */
  weightDecay: number;
  /** 1-based, for bias correction. */
  step: number;
  /** The gradient is multiplied by this first (clipping, normalising). */
  gradScale: number;
}

export interface Device {
  readonly kind: "native" | "webgpu";
  /** In words: SIMD level and threads, or the adapter. */
  readonly name: string;
  /** What the passes of a model go by on this device. */
  readonly storage: Storage;

  /** Zero-filled. */
  alloc(length: number, dtype?: DType, label?: string): Tensor;
  free(tensor: Tensor): void;
  /** A run of `tensor`, sharing memory. */
  view(tensor: Tensor, offset: number, length: number): Tensor;
  /** A tensor of 16 bits takes float32 numbers and rounds them as `roundHalf` does. */
  write(tensor: Tensor, data: Float32Array | Uint32Array, offset?: number): void;
  /** Reads asked for in one turn of the event loop may share one round trip to the device. */
  readF32(tensor: Tensor, length?: number): Promise<Float32Array>;
  readU32(tensor: Tensor, length?: number): Promise<Uint32Array>;
  /** A tensor of 16 bits takes zeros only. */
  fill(tensor: Tensor, value: number): void;
  copy(from: Tensor, to: Tensor, length: number): void;

  matmul(args: MatmulArgs): void;

  /** out[r,:] = table[ids[r],:]; table [vocab, dim] of any type of number, ids u32 [rows]. */
  embed(args: { table: Tensor; ids: Tensor; out: Tensor; rows: number; dim: number; vocab: number }): void;
  /** dTable[ids[r],:] += dOut[r,:], rows in ascending order for every table row. */
  embedBackward(args: { ids: Tensor; dOut: Tensor; dTable: Tensor; rows: number; dim: number; vocab: number }): void;
  /** out[i,:] = x[index[i],:] for i < rows; index u32. */
  gatherRows(args: { x: Tensor; index: Tensor; out: Tensor; rows: number; dim: number }): void;
  /** out[index[i],:] = x[i,:]; the other rows of out are left alone. Indices are distinct. */
  scatterRows(args: { x: Tensor; index: Tensor; out: Tensor; rows: number; dim: number }): void;

  /** out = x / sqrt(mean(x²) + eps) * weight per row; invRms[rows] is kept for the backward pass. (Zhang & Sennrich 2019) */
  rmsNorm(args: {
    x: Tensor;
    weight: Tensor;
    out: Tensor;
    invRms: Tensor;
    rows: number;
    dim: number;
    eps: number;
  }): void;
  /** dX is overwritten, or added to when `accumulate`; dWeight is accumulated into, and not computed where it is absent. */
  rmsNormBackward(args: {
    x: Tensor;
    weight: Tensor;
    invRms: Tensor;
    dOut: Tensor;
    dX: Tensor;
    dWeight?: Tensor;
    rows: number;
    dim: number;
    accumulate?: boolean;
  }): void;

  /**
   * Rotary embedding in place on x [rows, heads, headDim], Hugging Face's half-split form (Su et al. 2021): pairs
   * (i, i + headDim/2), angle position * theta^(-2i/headDim). cosSin is a table f32 [maxPositions, headDim] with the
   * headDim/2 cosines then the headDim/2 sines of each position. `inverse` rotates back: the backward pass.
   */
  rope(args: {
    x: Tensor;
    cosSin: Tensor;
    positions: Tensor;
    rows: number;
    heads: number;
    headDim: number;
    inverse?: boolean;
  }): void;

  /** out = silu(gate) * up, `length` elements. */
  swiglu(args: { gate: Tensor; up: Tensor; out: Tensor; length: number }): void;
  swigluBackward(args: { gate: Tensor; up: Tensor; dOut: Tensor; dGate: Tensor; dUp: Tensor; length: number }): void;
  /** out = a + b; out may be a or b. */
  add(args: { a: Tensor; b: Tensor; out: Tensor; length: number }): void;
  /** out = x * factor, the factor rounded to float32; out may be x. */
  scale(args: { x: Tensor; out: Tensor; factor: number; length: number }): void;
  /**
   * out = x rounded to the nearest number of `dtype`, ties to even; out may be x, or a tensor of that type. Beyond the
   * type's range stands its largest number (f16 ±65504, bf16 ±(2 - 2^-7) 2^127), never an infinity; below its smallest
   * normal one (2^-14, 2^-126) stands 0, since WGSL lets a driver flush subnormal numbers. So the result is the same on
   * every device, and reads back exactly. A NaN stays one.
   * @param args.dtype @default the type of out, f16 where that is f32
   */
  roundHalf(args: { x: Tensor; out: Tensor; length: number; dtype?: HalfType }): void;

  attention(args: AttentionArgs): void;
  attentionBackward(args: AttentionBackwardArgs): void;
  kvWrite(args: KvWriteArgs): void;
  attentionCached(args: AttentionCachedArgs): void;

  headLogProb(args: HeadLogProbArgs): void;
  headBackward(args: HeadBackwardArgs): void;
  headSample(args: HeadSampleArgs): void;

  adamw(args: AdamWArgs): void;
  /** Sum of squares of the first `length` elements, in a fixed tree. */
  sumSquares(tensor: Tensor, length: number): Promise<number>;

  /** Frees everything. */
  destroy(): void;
}
