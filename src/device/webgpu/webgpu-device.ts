/**
 * The WebGPU device: operators are WGSL kernels, recorded when called and computed in batches; only reads wait. Once the
 * device is lost, every call throws AgentRLError "DEVICE_LOST".
 */
import { globals } from "webgpu";
import { AgentRLError } from "../../errors.ts";
import {
  type AdamWArgs,
  type AttentionArgs,
  type AttentionBackwardArgs,
  type AttentionCachedArgs,
  type Device,
  type DType,
  elementBytes,
  type HeadBackwardArgs,
  type HeadLogProbArgs,
  type HeadSampleArgs,
  isHalf,
  type KvWriteArgs,
  type MatmulArgs,
  type ProductShape,
  type Storage,
  type Tensor,
} from "../device.ts";
import { type AdapterOptions, openAdapter } from "./adapter.ts";
import { Gpu } from "./gpu.ts";
import * as attention from "./ops/attention.ts";
import * as elementwise from "./ops/elementwise.ts";
import * as half from "./ops/half.ts";
import * as head from "./ops/head.ts";
import { matmul } from "./ops/matmul.ts";
import * as optimizer from "./ops/optimizer.ts";
import * as rmsnorm from "./ops/rmsnorm.ts";
import { rope } from "./ops/rope.ts";
import * as rows from "./ops/rows.ts";
import { WebGpuTensor } from "./tensor.ts";
import { tune } from "./tuning.ts";

// GPUBufferUsage and the like, which browsers have as globals.
Object.assign(globalThis, globals);

export class WebGpuDevice implements Device {
  readonly kind = "webgpu";
  readonly gpu: Gpu;

  private constructor(gpu: Gpu) {
    this.gpu = gpu;
  }

  /** @throws AgentRLError DEVICE when there is no adapter. */
  static async open(options: AdapterOptions = {}): Promise<WebGpuDevice> {
    return new WebGpuDevice(new Gpu(await openAdapter(options)));
  }

  get name(): string {
    const { info, profile } = this.gpu.adapter;
    const software = info.software ? ", computed on the CPU" : "";
    return `webgpu (${info.device || info.description || info.vendor}, profile ${profile}${software})`;
  }

  get storage(): Storage {
    return this.gpu.adapter.storage;
  }

  /** Chooses the fastest kernel for each of these products, by a short measured run where none is on record. */
  tune(shapes: readonly ProductShape[]): Promise<void> {
    return tune(this.gpu, shapes);
  }

  // ---- Memory ----

  alloc(length: number, dtype: DType = "f32", label = ""): WebGpuTensor {
    return this.gpu.alloc(length, dtype, label);
  }

  free(tensor: Tensor): void {
    this.gpu.free(mine(tensor));
  }

  view(tensor: Tensor, offset: number, length: number): WebGpuTensor {
    return this.gpu.view(mine(tensor), offset, length);
  }

  write(tensor: Tensor, data: Float32Array | Uint32Array, offset = 0): void {
    const target = mine(tensor);
    const dtype = data instanceof Float32Array ? "f32" : "u32";
    const rounded = dtype === "f32" && isHalf(target.dtype);
    if (!(rounded || dtype === target.dtype) || offset + data.length > target.length) {
      throw new AgentRLError("DEVICE", "data does not fit the tensor it is written to", {
        where: `write to ${target.label || "tensor"}`,
        got: `${data.length} elements of ${dtype} at ${offset}`,
        expected: `at most ${target.length - offset} elements of ${target.dtype}`,
      });
    }
    if (rounded) half.writeHalf(this.gpu, target, data as Float32Array, offset);
    else this.gpu.recorder.write(target, data, offset);
  }

  async readF32(tensor: Tensor, length = tensor.length): Promise<Float32Array> {
    return new Float32Array(await this.gpu.recorder.read(this.#readable(tensor, "f32", length), length));
  }

  async readU32(tensor: Tensor, length = tensor.length): Promise<Uint32Array> {
    return new Uint32Array(await this.gpu.recorder.read(this.#readable(tensor, "u32", length), length));
  }

  fill(tensor: Tensor, value: number): void {
    elementwise.fill(this.gpu, mine(tensor), value);
  }

  copy(from: Tensor, to: Tensor, length: number): void {
    const source = this.#readable(from, from.dtype, length);
    const target = this.#readable(to, from.dtype, length);
    this.gpu.recorder.copy(source, target, length * elementBytes(from.dtype));
  }

  #readable(tensor: Tensor, dtype: DType, length: number): WebGpuTensor {
    const found = mine(tensor);
    if (found.dtype !== dtype || found.length < length || found.allocation.freed) {
      throw new AgentRLError("DEVICE", "a tensor does not hold what is read from it", {
        where: found.label || "tensor",
        got: found.allocation.freed ? "a tensor that was freed" : `${found.length} elements of ${found.dtype}`,
        expected: `at least ${length} elements of ${dtype}`,
      });
    }
    return found;
  }

  // ---- Operators ----

  matmul(x: MatmulArgs): void {
    matmul(this.gpu, x);
  }

  embed(x: Parameters<Device["embed"]>[0]): void {
    rows.embed(this.gpu, x);
  }

  embedBackward(x: Parameters<Device["embedBackward"]>[0]): void {
    rows.embedBackward(this.gpu, x);
  }

  gatherRows(x: Parameters<Device["gatherRows"]>[0]): void {
    rows.gatherRows(this.gpu, x);
  }

  scatterRows(x: Parameters<Device["scatterRows"]>[0]): void {
    rows.scatterRows(this.gpu, x);
  }

  kvWrite(x: KvWriteArgs): void {
    rows.kvWrite(this.gpu, x);
  }

  rmsNorm(x: Parameters<Device["rmsNorm"]>[0]): void {
    rmsnorm.rmsNorm(this.gpu, x);
  }

  rmsNormBackward(x: Parameters<Device["rmsNormBackward"]>[0]): void {
    rmsnorm.rmsNormBackward(this.gpu, x);
  }

  rope(x: Parameters<Device["rope"]>[0]): void {
    rope(this.gpu, x);
  }

  swiglu(x: Parameters<Device["swiglu"]>[0]): void {
    elementwise.swiglu(this.gpu, x);
  }

  swigluBackward(x: Parameters<Device["swigluBackward"]>[0]): void {
    elementwise.swigluBackward(this.gpu, x);
  }

  add(x: Parameters<Device["add"]>[0]): void {
    elementwise.add(this.gpu, x);
  }

  scale(x: Parameters<Device["scale"]>[0]): void {
    elementwise.scale(this.gpu, x);
  }

  roundHalf(x: Parameters<Device["roundHalf"]>[0]): void {
    half.roundHalf(this.gpu, x);
  }

  attention(x: AttentionArgs): void {
    attention.attention(this.gpu, x);
  }

  attentionBackward(x: AttentionBackwardArgs): void {
    attention.attentionBackward(this.gpu, x);
  }

  attentionCached(x: AttentionCachedArgs): void {
    attention.attentionCached(this.gpu, x);
  }

  headLogProb(x: HeadLogProbArgs): void {
    head.headLogProb(this.gpu, x);
  }

  headBackward(x: HeadBackwardArgs): void {
    head.headBackward(this.gpu, x);
  }

  headSample(x: HeadSampleArgs): void {
    head.headSample(this.gpu, x);
  }

  adamw(x: AdamWArgs): void {
    optimizer.adamw(this.gpu, x);
  }

  sumSquares(tensor: Tensor, length: number): Promise<number> {
    return optimizer.sumSquares(this.gpu, mine(tensor), length);
  }

  destroy(): void {
    this.gpu.destroy();
  }
}

function mine(tensor: Tensor): WebGpuTensor {
  if (tensor instanceof WebGpuTensor) return tensor;
  throw new AgentRLError("DEVICE", "a tensor of another device was given", {
    where: tensor.label || "tensor",
    expected: "a tensor of this WebGPU device",
  });
}
