/** Device memory: one GPUBuffer for each allocation, and runs of it. */
import type { DType, Tensor } from "../device.ts";

/** One allocation. */
export interface Allocation {
  readonly id: number;
  readonly buffer: GPUBuffer;
  /** Elements of 4 bytes. */
  readonly length: number;
  readonly label: string;
  /** Number of the recorder's batch that used it last: a write from the host must not overtake recorded commands. */
  lastUse: number;
  freed: boolean;
}

/** Views must start at a multiple of this many elements (256 bytes, the most that WebGPU lets a driver ask for). */
export const VIEW_ALIGNMENT = 64;

export class WebGpuTensor implements Tensor {
  readonly allocation: Allocation;
  readonly dtype: DType;
  /** In elements, from the start of the allocation. */
  readonly offset: number;
  readonly length: number;

  constructor(allocation: Allocation, dtype: DType, offset: number, length: number) {
    this.allocation = allocation;
    this.dtype = dtype;
    this.offset = offset;
    this.length = length;
  }

  get label(): string {
    return this.allocation.label;
  }
}
