/** What the operators of the WebGPU device work with: the adapter's abilities, memory, and the recorder. */
import { AgentRLError } from "../../errors.ts";
import { type DType, elementBytes, type Tensor } from "../device.ts";
import type { OpenAdapter } from "./adapter.ts";
import { Recorder } from "./recorder.ts";
import { type Allocation, WebGpuTensor } from "./tensor.ts";

export class Gpu {
  readonly adapter: OpenAdapter;
  readonly device: GPUDevice;
  readonly limits: GPUSupportedLimits;
  readonly features: ReadonlySet<string>;
  readonly recorder: Recorder;
  /** Elements of 4 bytes that one binding can hold; a larger tensor is worked on in windows (`view`). */
  readonly maxBindingElements: number;
  /** Buffers made so far. */
  buffersCreated = 0;
  readonly #allocations = new Set<Allocation>();
  readonly #scratch = new Map<string, WebGpuTensor>();
  #nextId = 1;

  constructor(adapter: OpenAdapter) {
    this.adapter = adapter;
    this.device = adapter.device;
    this.limits = adapter.device.limits;
    this.features = adapter.device.features as ReadonlySet<string>;
    this.recorder = new Recorder(adapter.device);
    this.maxBindingElements = Math.floor(this.limits.maxStorageBufferBindingSize / 4);
    this.device.addEventListener("uncapturederror", (event) => {
      this.recorder.fail(
        new AgentRLError("DEVICE", "The WebGPU device refused a command", { got: event.error.message }),
      );
    });
    this.device.lost.then((lost) => {
      this.recorder.fail(
        new AgentRLError("DEVICE_LOST", "The WebGPU device was lost", {
          where: adapter.info.description,
          got: `${lost.reason}: ${lost.message}`,
          hint: "start the run again with the same --out: it resumes from its last checkpoint",
        }),
      );
    });
  }

  /** Zero-filled. @throws AgentRLError DEVICE where it is too large, or f16 and the adapter has no shader-f16. */
  alloc(length: number, dtype: DType = "f32", label = ""): WebGpuTensor {
    if (dtype === "f16" && !this.features.has("shader-f16")) {
      throw new AgentRLError("DEVICE", "This adapter has no f16 tensors", {
        where: `alloc of ${label || "tensor"}, on ${this.adapter.info.description}`,
        expected: "the feature shader-f16",
      });
    }
    // Copies are in units of 4 bytes, and a binding must not be empty.
    const bytes = Math.max(4, Math.ceil((length * elementBytes(dtype)) / 4) * 4);
    if (bytes > this.limits.maxBufferSize) {
      throw new AgentRLError("DEVICE", "A tensor is larger than a buffer of this adapter can be", {
        where: label || "tensor",
        got: `${bytes} bytes`,
        expected: `at most ${this.limits.maxBufferSize} bytes (maxBufferSize)`,
      });
    }
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = this.device.createBuffer({ label, size: bytes, usage });
    this.buffersCreated++;
    const allocation = { id: this.#nextId++, buffer, bytes, label, lastUse: 0, freed: false };
    this.#allocations.add(allocation);
    return new WebGpuTensor(allocation, dtype, 0, length);
  }

  free({ allocation }: WebGpuTensor): void {
    if (!this.#allocations.delete(allocation)) return;
    // Recorded commands may still use it.
    this.recorder.flush();
    this.recorder.bindGroups.forget(allocation);
    allocation.freed = true;
    allocation.buffer.destroy();
  }

  /** For `freeSince`. */
  mark(): number {
    return this.#nextId;
  }

  /** Frees what was allocated after the mark, except scratch. */
  freeSince(mark: number): void {
    const scratch = new Set([...this.#scratch.values()].map(({ allocation }) => allocation));
    for (const allocation of [...this.#allocations]) {
      if (allocation.id >= mark && !scratch.has(allocation)) this.free(new WebGpuTensor(allocation, "f32", 0, 0));
    }
  }

  /** @throws AgentRLError DEVICE when it reaches outside the tensor. */
  view(tensor: WebGpuTensor, offset: number, length: number): WebGpuTensor {
    if (!(offset >= 0 && length >= 0 && offset + length <= tensor.length)) {
      throw new AgentRLError("DEVICE", "a view reaches outside its tensor", {
        where: `view of ${tensor.label || "tensor"}`,
        got: `elements ${offset} to ${offset + length}`,
        expected: `at most ${tensor.length} elements`,
      });
    }
    return new WebGpuTensor(tensor.allocation, tensor.dtype, tensor.offset + offset, length);
  }

  /**
   * Memory that an operator needs while it runs, kept between calls under `name` and grown where it is too small.
   * Its contents are whatever the last user left.
   */
  scratch(name: string, length: number, dtype: DType = "f32"): WebGpuTensor {
    let tensor = this.#scratch.get(name);
    if (tensor === undefined || tensor.length < length) {
      if (tensor !== undefined) this.free(tensor);
      tensor = this.alloc(length, dtype, `scratch.${name}`);
      this.#scratch.set(name, tensor);
    }
    return this.view(tensor, 0, length);
  }

  /**
   * Workgroups for `count` of them in a row: WebGPU allows 65,535 in one dimension, so a long row is folded. The kernel
   * finds its number as `group.y * num_workgroups.x + group.x` and must check it against its own count.
   */
  fold(count: number): [number, number] {
    const most = this.limits.maxComputeWorkgroupsPerDimension;
    if (count <= most) return [count, 1];
    const y = Math.ceil(count / most);
    return [Math.ceil(count / y), y];
  }

  destroy(): void {
    this.recorder.fail(new AgentRLError("DEVICE", "The device was closed", { where: "WebGpuDevice.destroy" }));
    this.recorder.destroy();
    for (const { buffer } of this.#allocations) buffer.destroy();
    this.#allocations.clear();
    this.device.destroy();
  }
}

/** Checks that a tensor is of this device, alive, of the type and of at least `length` elements. */
export function operand(
  operator: string,
  argument: string,
  tensor: Tensor,
  dtype: DType | readonly DType[],
  length: number,
): WebGpuTensor {
  const fail = (got: unknown, expected: string): never => {
    throw new AgentRLError("DEVICE", `${operator}: an argument does not fit`, {
      where: `${operator}, ${argument}`,
      got,
      expected,
    });
  };
  if (!(tensor instanceof WebGpuTensor)) fail("a tensor of another device", "a tensor of this WebGPU device");
  const mine = tensor as WebGpuTensor;
  if (mine.allocation.freed) fail("a tensor that was freed", "a live tensor");
  const fits = typeof dtype === "string" ? mine.dtype === dtype : dtype.includes(mine.dtype);
  if (!fits) fail(mine.dtype, typeof dtype === "string" ? dtype : dtype.join(" or "));
  if (mine.length < length) fail(`${mine.length} elements`, `at least ${length} elements`);
  return mine;
}
