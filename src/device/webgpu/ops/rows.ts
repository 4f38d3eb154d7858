import type { Device, KvWriteArgs } from "../../device.ts";
import type { Gpu } from "../gpu.ts";

export function embed(_gpu: Gpu, _x: Parameters<Device["embed"]>[0]): void {
  throw new Error("embed");
}
export function embedBackward(_gpu: Gpu, _x: Parameters<Device["embedBackward"]>[0]): void {
  throw new Error("embedBackward");
}
export function gatherRows(_gpu: Gpu, _x: Parameters<Device["gatherRows"]>[0]): void {
  throw new Error("gatherRows");
}
export function scatterRows(_gpu: Gpu, _x: Parameters<Device["scatterRows"]>[0]): void {
  throw new Error("scatterRows");
}
export function kvWrite(_gpu: Gpu, _x: KvWriteArgs): void {
  throw new Error("kvWrite");
}
