import type { Device } from "../../device.ts";
import type { Gpu } from "../gpu.ts";

export function rmsNorm(_gpu: Gpu, _x: Parameters<Device["rmsNorm"]>[0]): void {
  throw new Error("rmsNorm");
}
export function rmsNormBackward(_gpu: Gpu, _x: Parameters<Device["rmsNormBackward"]>[0]): void {
  throw new Error("rmsNormBackward");
}
