/**
 * The CPU device: operators are C++ kernels in the addon and done when the call returns. Tensors are typed arrays, so
 * that memory which others own, such as a slot of the shared weight board, is a tensor as it stands.
 */
import { availableParallelism } from "node:os";
import { AgentRLError } from "../errors.ts";
import { addon } from "./addon.ts";
import {
  type AdamWArgs,
  type AttentionArgs,
  type AttentionBackwardArgs,
  type AttentionCachedArgs,
  type Device,
  type DType,
  elementBytes,
  type HalfType,
  type HeadBackwardArgs,
  type HeadLogProbArgs,
  type HeadSampleArgs,
  isHalf,
  type KvWriteArgs,
  type MatmulArgs,
  type Storage,
  type Tensor,
  type WeightType,
} from "./device.ts";

type NativeData = Float32Array | Uint32Array | Uint16Array;

/** A run of memory on the CPU. `data` is the memory itself: reading it needs no `readF32`. */
export class NativeTensor implements Tensor {
  /** Of f16 and bf16 the bits. */
  readonly data: NativeData;
  readonly dtype: DType;
  readonly label: string;

  constructor(data: NativeData, dtype: DType, label = "") {
    this.data = data;
    this.dtype = dtype;
    this.label = label;
  }

  get length(): number {
    return this.data.length;
  }
}

/** The memory of a tensor; the addon checks type and length. */
function f32(tensor: Tensor): Float32Array {
  return (tensor as NativeTensor).data as Float32Array;
}

function f32OrUndefined(tensor: Tensor | undefined): Float32Array | undefined {
  return tensor === undefined ? undefined : f32(tensor);
}

function u32(tensor: Tensor): Uint32Array {
  return (tensor as NativeTensor).data as Uint32Array;
}

/** Memory and type of a tensor that may be stored in 16 bits. */
function stored(tensor: Tensor): [data: Float32Array | Uint16Array, dtype: WeightType] {
  const { data, dtype } = tensor as NativeTensor;
  return [data as Float32Array | Uint16Array, dtype as WeightType];
}

export interface NativeDeviceOptions {
  /** Threads that compute, the calling one included. @default the cores that this process may use */
  threads?: number;
  /** What passes keep weights in. @default "f32" */
  weights?: WeightType;
}

export class NativeDevice implements Device {
  readonly kind = "native";
  readonly storage: Storage;
  readonly threads: number;

  // The addon has one pool per process; the device that computes sets its size.
  static #threadsInForce = 0;

  #owned = new Set<ArrayBuffer>();

  constructor(options: NativeDeviceOptions = {}) {
    this.threads = options.threads ?? availableParallelism();
    this.storage = { weights: options.weights ?? "f32", kvCache: "f32" };
    if (!Number.isInteger(this.threads) || this.threads < 1 || this.threads > 256) {
      throw new AgentRLError("DEVICE", "the native device cannot have this many threads", {
        where: "NativeDevice({ threads })",
        got: this.threads,
        expected: "a whole number from 1 to 256",
      });
    }
  }

  get name(): string {
    return `native (${addon.simd()}, ${this.threads} thread${this.threads === 1 ? "" : "s"})`;
  }

  /**
   * A tensor of memory that exists already: not copied, never freed here. 16 bits are taken as they are, subnormal numbers
   * and infinities too.
   */
  static wrap(data: Float32Array | Uint32Array, label?: string): NativeTensor;
  static wrap(data: Uint16Array, label: string, dtype: HalfType): NativeTensor;
  static wrap(data: NativeData, label = "wrapped", dtype?: HalfType): NativeTensor {
    return new NativeTensor(data, dtype ?? (data instanceof Float32Array ? "f32" : "u32"), label);
  }

  alloc(length: number, dtype: DType = "f32", label = ""): NativeTensor {
    // 64 bytes over, so that the data can start on a cache line.
    const buffer = new ArrayBuffer(length * elementBytes(dtype) + 64);
    const offset = addon.alignOffset(buffer);
    this.#owned.add(buffer);
    return new NativeTensor(new arrays[dtype](buffer, offset, length), dtype, label);
  }

  /** Gives the memory back at once: the tensor and its views then have length 0, and using one is an error. */
  free(tensor: Tensor): void {
    const buffer = f32(tensor).buffer as ArrayBuffer;
    if (this.#owned.delete(buffer)) addon.release(buffer);
  }

  view(tensor: Tensor, offset: number, length: number): NativeTensor {
    const { data, dtype, label } = tensor as NativeTensor;
    if (!(offset >= 0 && length >= 0 && offset + length <= data.length)) {
      throw new AgentRLError("DEVICE", "a view reaches outside its tensor", {
        where: `view of ${label || "tensor"}`,
        got: `elements ${offset} to ${offset + length}`,
        expected: `at most ${data.length} elements`,
      });
    }
    return new NativeTensor(data.subarray(offset, offset + length), dtype, label);
  }

  write(tensor: Tensor, data: Float32Array | Uint32Array, offset = 0): void {
    const { data: target, dtype } = tensor as NativeTensor;
    const type = data instanceof Float32Array ? "f32" : "u32";
    const rounded = type === "f32" && isHalf(dtype);
    if (!(rounded || type === dtype) || offset + data.length > target.length) {
      throw new AgentRLError("DEVICE", "data does not fit the tensor it is written to", {
        where: `write to ${tensor.label || "tensor"}`,
        got: `${data.length} elements of ${data.constructor.name} at ${offset}`,
        expected: `at most ${target.length - offset} elements of ${arrays[dtype].name}`,
      });
    }
    if (rounded) {
      this.#begin();
      const out = target.subarray(offset, offset + data.length) as Uint16Array;
      addon.roundHalf(data as Float32Array, out, dtype, dtype, data.length);
    } else {
      target.set(data, offset);
    }
  }

  async readF32(tensor: Tensor, length?: number): Promise<Float32Array> {
    return this.#readable(tensor, "f32").slice(0, length) as Float32Array;
  }

  async readU32(tensor: Tensor, length?: number): Promise<Uint32Array> {
    return this.#readable(tensor, "u32").slice(0, length) as Uint32Array;
  }

  fill(tensor: Tensor, value: number): void {
    const { data, dtype, label } = tensor as NativeTensor;
    if (isHalf(dtype) && !Object.is(value, 0)) {
      throw new AgentRLError("DEVICE", `A tensor of ${dtype} is filled with zeros only`, { where: label, got: value });
    }
    data.fill(value);
  }

  copy(from: Tensor, to: Tensor, length: number): void {
    const source = from as NativeTensor;
    const target = this.#readable(to, source.dtype);
    if (length > source.length || length > target.length) {
      throw new AgentRLError("DEVICE", "a copy does not fit its tensors", {
        where: `copy of ${from.label || "tensor"} to ${to.label || "tensor"}`,
        got: `${length} elements`,
        expected: `at most ${Math.min(source.length, target.length)} elements`,
      });
    }
    target.set(source.data.subarray(0, length));
  }

  #readable(tensor: Tensor, dtype: DType): NativeData {
    const found = tensor as NativeTensor;
    if (found.dtype === dtype) return found.data;
    throw new AgentRLError("DEVICE", "a tensor does not hold what is read from it", {
      where: found.label || "tensor",
      got: found.dtype,
      expected: dtype,
    });
  }

  #begin(): void {
    if (NativeDevice.#threadsInForce === this.threads) return;
    addon.setThreads(this.threads);
    NativeDevice.#threadsInForce = this.threads;
  }

  // ---- Matrix product and rows ----

  matmul(x: MatmulArgs): void {
    this.#begin();
    addon.matmul(
      x.layout,
      f32(x.a),
      ...stored(x.b),
      f32(x.out),
      f32OrUndefined(x.bias),
      x.m,
      x.n,
      x.k,
      x.accumulate === true,
    );
  }

  embed(x: Parameters<Device["embed"]>[0]): void {
    this.#begin();
    addon.embed(...stored(x.table), u32(x.ids), f32(x.out), x.rows, x.dim, x.vocab);
  }

  embedBackward(x: Parameters<Device["embedBackward"]>[0]): void {
    this.#begin();
    addon.embedBackward(u32(x.ids), f32(x.dOut), f32(x.dTable), x.rows, x.dim, x.vocab);
  }

  gatherRows(x: Parameters<Device["gatherRows"]>[0]): void {
    this.#begin();
    addon.gatherRows(f32(x.x), u32(x.index), f32(x.out), x.rows, x.dim);
  }

  scatterRows(x: Parameters<Device["scatterRows"]>[0]): void {
    this.#begin();
    addon.scatterRows(f32(x.x), u32(x.index), f32(x.out), x.rows, x.dim);
  }

  kvWrite(x: KvWriteArgs): void {
    this.#begin();
    addon.kvWrite(f32(x.k), f32(x.v), f32(x.kCache), f32(x.vCache), u32(x.slots), x.rows, x.width);
  }

  // ---- Elementwise ----

  add(x: Parameters<Device["add"]>[0]): void {
    this.#begin();
    addon.add(f32(x.a), f32(x.b), f32(x.out), x.length);
  }

  scale(x: Parameters<Device["scale"]>[0]): void {
    this.#begin();
    addon.scale(f32(x.x), f32(x.out), x.factor, x.length);
  }

  roundHalf(x: Parameters<Device["roundHalf"]>[0]): void {
    this.#begin();
    const [out, type] = stored(x.out);
    addon.roundHalf(f32(x.x), out, type, x.dtype ?? (type === "f32" ? "f16" : type), x.length);
  }

  swiglu(x: Parameters<Device["swiglu"]>[0]): void {
    this.#begin();
    addon.swiglu(f32(x.gate), f32(x.up), f32(x.out), x.length);
  }

  swigluBackward(x: Parameters<Device["swigluBackward"]>[0]): void {
    this.#begin();
    addon.swigluBackward(f32(x.gate), f32(x.up), f32(x.dOut), f32(x.dGate), f32(x.dUp), x.length);
  }

  // ---- Normalisation, rotary embedding, attention ----

  rmsNorm(x: Parameters<Device["rmsNorm"]>[0]): void {
    this.#begin();
    addon.rmsNorm(f32(x.x), f32(x.weight), f32(x.out), f32(x.invRms), x.rows, x.dim, x.eps);
  }

  rmsNormBackward(x: Parameters<Device["rmsNormBackward"]>[0]): void {
    this.#begin();
    addon.rmsNormBackward(
      f32(x.x),
      f32(x.weight),
      f32(x.invRms),
      f32(x.dOut),
      f32(x.dX),
      f32OrUndefined(x.dWeight),
      x.rows,
      x.dim,
      x.accumulate ?? false,
    );
  }

  rope(x: Parameters<Device["rope"]>[0]): void {
    this.#begin();
    addon.rope(f32(x.x), f32(x.cosSin), u32(x.positions), x.rows, x.heads, x.headDim, x.inverse ?? false);
  }

  attention(x: AttentionArgs): void {
    this.#begin();
    checkRows("attention", x);
    addon.attention(
      f32(x.q),
      f32(x.k),
      f32(x.v),
      f32(x.out),
      f32(x.lse),
      u32(x.offsets),
      x.heads,
      x.kvHeads,
      x.headDim,
      x.scale,
      x.sequences,
    );
  }

  attentionBackward(x: AttentionBackwardArgs): void {
    this.#begin();
    checkRows("attentionBackward", x);
    addon.attentionBackward(
      f32(x.q),
      f32(x.k),
      f32(x.v),
      f32(x.out),
      f32(x.lse),
      u32(x.offsets),
      f32(x.dOut),
      f32(x.dQ),
      f32(x.dK),
      f32(x.dV),
      x.heads,
      x.kvHeads,
      x.headDim,
      x.scale,
      x.sequences,
    );
  }

  attentionCached(x: AttentionCachedArgs): void {
    this.#begin();
    addon.attentionCached(
      f32(x.q),
      f32(x.kCache),
      f32(x.vCache),
      f32(x.out),
      u32(x.positions),
      u32(x.sequenceOf),
      u32(x.pageTable),
      x.heads,
      x.kvHeads,
      x.headDim,
      x.scale,
      x.pageTableStride,
      x.rows,
    );
  }

  // ---- Head and optimizer ----

  headLogProb(x: HeadLogProbArgs): void {
    this.#begin();
    addon.headLogProb(
      f32(x.hidden),
      ...stored(x.weight),
      u32(x.targets),
      f32(x.temperatures),
      f32(x.logProbs),
      f32(x.entropies),
      f32(x.lse),
      x.tied,
      x.rows,
      x.dim,
      x.vocab,
    );
  }

  headBackward(x: HeadBackwardArgs): void {
    this.#begin();
    addon.headBackward(
      f32(x.hidden),
      ...stored(x.weight),
      u32(x.targets),
      f32(x.temperatures),
      f32(x.lse),
      f32(x.entropies),
      f32(x.dLogProbs),
      f32(x.dEntropies),
      f32(x.dHidden),
      f32OrUndefined(x.dWeight),
      x.tied,
      x.rows,
      x.dim,
      x.vocab,
    );
  }

  headSample(x: HeadSampleArgs): void {
    this.#begin();
    addon.headSample(
      f32(x.hidden),
      ...stored(x.weight),
      f32(x.temperatures),
      u32(x.topK),
      f32(x.topP),
      f32(x.minP),
      u32(x.seeds),
      u32(x.tokens),
      f32(x.logProbs),
      f32(x.keptMass),
      x.tied,
      x.rows,
      x.dim,
      x.vocab,
    );
  }

  adamw(x: AdamWArgs): void {
    this.#begin();
    addon.adamw(
      f32(x.param),
      f32(x.out),
      f32(x.grad),
      f32(x.m),
      f32(x.v),
      x.length,
      x.lr,
      x.beta1,
      x.beta2,
      x.eps,
      x.weightDecay,
      x.step,
      x.gradScale,
    );
  }

  async sumSquares(tensor: Tensor, length: number): Promise<number> {
    this.#begin();
    return addon.sumSquares(f32(tensor), length);
  }

  // ---- Memory ----

  destroy(): void {
    for (const buffer of this.#owned) addon.release(buffer);
    this.#owned.clear();
  }
}

const arrays = { f32: Float32Array, u32: Uint32Array, f16: Uint16Array, bf16: Uint16Array } as const;

/** What other devices take on trust. The addon checks the offsets themselves. */
function checkRows(operator: string, { offsets, sequences, rows }: AttentionArgs): void {
  const end = u32(offsets)[sequences];
  if (end === undefined || end === rows) return;
  throw new AgentRLError("DEVICE", `${operator}: argument rows does not fit`, {
    where: `native device, ${operator}(rows)`,
    got: rows,
    expected: `offsets[${sequences}] = ${end}`,
  });
}
