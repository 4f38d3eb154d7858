import type { HeadBackwardArgs, HeadLogProbArgs, HeadSampleArgs } from "../../device.ts";
import type { Gpu } from "../gpu.ts";

export function headLogProb(_gpu: Gpu, _x: HeadLogProbArgs): void {
  throw new Error("headLogProb");
}
export function headBackward(_gpu: Gpu, _x: HeadBackwardArgs): void {
  throw new Error("headBackward");
}
export function headSample(_gpu: Gpu, _x: HeadSampleArgs): void {
  throw new Error("headSample");
}
