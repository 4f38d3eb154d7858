import type { AdamWArgs } from "../../device.ts";
import type { Gpu } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";

export function adamw(_gpu: Gpu, _x: AdamWArgs): void {
  throw new Error("adamw");
}
export async function sumSquares(_gpu: Gpu, _tensor: WebGpuTensor, _length: number): Promise<number> {
  throw new Error("sumSquares");
}
