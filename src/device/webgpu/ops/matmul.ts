import type { MatmulArgs } from "../../device.ts";
import type { Gpu } from "../gpu.ts";

export function matmul(_gpu: Gpu, _x: MatmulArgs): void {
  throw new Error("matmul");
}
