import type { AttentionArgs, AttentionBackwardArgs, AttentionCachedArgs } from "../../device.ts";
import type { Gpu } from "../gpu.ts";

export function attention(_gpu: Gpu, _x: AttentionArgs): void {
  throw new Error("attention");
}
export function attentionBackward(_gpu: Gpu, _x: AttentionBackwardArgs): void {
  throw new Error("attentionBackward");
}
export function attentionCached(_gpu: Gpu, _x: AttentionCachedArgs): void {
  throw new Error("attentionCached");
}
