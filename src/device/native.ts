/**
 * The CPU device: operators are C++ kernels in the addon and done when the call returns. Tensors are typed arrays, so
 * that memory which others own, such as a slot of the shared weight board, is a tensor as it stands.
 */
import { availableParallelism } from "node:os";
import { AgentRLError } from "../errors.ts";
import { addon } from "./addon.ts";
import type { Device, DType, Tensor } from "./device.ts";

/** A run of memory on the CPU. `data` is the memory itself: reading it needs no `readF32`. */
export class NativeTensor implements Tensor {
  readonly data: Float32Array | Uint32Array;
  readonly label: string;

  constructor(data: Float32Array | Uint32Array, label = "") {
    this.data = data;
    this.label = label;
  }

  get dtype(): DType {
    return this.data instanceof Float32Array ? "f32" : "u32";
  }

  get length(): number {
    return this.data.length;
  }
}

/** The memory of a tensor; the addon checks type and length. */
function f32(tensor: Tensor): Float32Array {
  return (tensor as NativeTensor).data as Float32Array;
}

function u32(tensor: Tensor): Uint32Array {
  return (tensor as NativeTensor).data as Uint32Array;
}

export interface NativeDeviceOptions {
  /** Threads that compute, the calling one included. @default the cores that this process may use */
  threads?: number;
}

export class NativeDevice implements Device {
  readonly kind = "native";
  readonly threads: number;

  // The addon has one pool per process; the device that computes sets its size.
  static #threadsInForce = 0;

  #owned = new Set<ArrayBuffer>();

  constructor(options: NativeDeviceOptions = {}) {
    this.threads = options.threads ?? availableParallelism();
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

  /** A tensor of memory that exists already: not copied, never freed here. */
  static wrap(data: Float32Array | Uint32Array, label = "wrapped"): NativeTensor {
    return new NativeTensor(data, label);
  }

  alloc(length: number, dtype: DType = "f32", label = ""): NativeTensor {
    // 64 bytes over, so that the data can start on a cache line.
    const buffer = new ArrayBuffer(length * 4 + 64);
    const offset = addon.alignOffset(buffer);
    this.#owned.add(buffer);
    const data = dtype === "f32" ? new Float32Array(buffer, offset, length) : new Uint32Array(buffer, offset, length);
    return new NativeTensor(data, label);
  }

  /** Gives the memory back at once: the tensor and its views then have length 0, and using one is an error. */
  free(tensor: Tensor): void {
    const buffer = f32(tensor).buffer as ArrayBuffer;
    if (this.#owned.delete(buffer)) addon.release(buffer);
  }

  view(tensor: Tensor, offset: number, length: number): NativeTensor {
    const { data, label } = tensor as NativeTensor;
    if (!(offset >= 0 && length >= 0 && offset + length <= data.length)) {
      throw new AgentRLError("DEVICE", "a view reaches outside its tensor", {
        where: `view of ${label || "tensor"}`,
        got: `elements ${offset} to ${offset + length}`,
        expected: `at most ${data.length} elements`,
      });
    }
    return new NativeTensor(data.subarray(offset, offset + length), label);
  }

  write(tensor: Tensor, data: Float32Array | Uint32Array, offset = 0): void {
    const target = (tensor as NativeTensor).data;
    if (data.constructor !== target.constructor || offset + data.length > target.length) {
      throw new AgentRLError("DEVICE", "data does not fit the tensor it is written to", {
        where: `write to ${tensor.label || "tensor"}`,
        got: `${data.length} elements of ${data.constructor.name} at ${offset}`,
        expected: `at most ${target.length - offset} elements of ${target.constructor.name}`,
      });
    }
    target.set(data, offset);
  }

  async readF32(tensor: Tensor, length?: number): Promise<Float32Array> {
    return f32(tensor).slice(0, length);
  }

  async readU32(tensor: Tensor, length?: number): Promise<Uint32Array> {
    return u32(tensor).slice(0, length);
  }

  fill(tensor: Tensor, value: number): void {
    (tensor as NativeTensor).data.fill(value);
  }

  copy(from: Tensor, to: Tensor, length: number): void {
    this.write(to, (from as NativeTensor).data.subarray(0, length));
  }

  #begin(): void {
    if (NativeDevice.#threadsInForce === this.threads) return;
    addon.setThreads(this.threads);
    NativeDevice.#threadsInForce = this.threads;
  }

  // ---- Elementwise ----

  add(x: Parameters<Device["add"]>[0]): void {
    this.#begin();
    addon.add(f32(x.a), f32(x.b), f32(x.out), x.length);
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

  // ---- End ----

  destroy(): void {
    for (const buffer of this.#owned) addon.release(buffer);
    this.#owned.clear();
  }
}
