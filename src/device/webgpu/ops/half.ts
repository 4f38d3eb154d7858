/** Rounding to f16 and bf16, into tensors of either type or of f32. */
import { AgentRLError } from "../../../errors.ts";
import { type Device, isHalf, weightTypes } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";
import { windowsOf } from "../windows.ts";
import { groupsFor } from "./elementwise.ts";
import { isInPlace } from "./in-place.ts";

/** What a KV cache may be stored in. */
export const cacheTypes = ["f32", "f16"] as const;

/** Numbers on their way from the host into a tensor of 16 bits (16 MiB). */
const STAGED = 4 << 20;

export function roundHalf(gpu: Gpu, { x, out, length, dtype }: Parameters<Device["roundHalf"]>[0]): void {
  const from = operand("roundHalf", "x", x, "f32", length);
  const to = operand("roundHalf", "out", out, weightTypes, length);
  const type = dtype ?? (isHalf(to.dtype) ? to.dtype : "f16");
  if (isHalf(to.dtype) && type !== to.dtype) {
    throw new AgentRLError("DEVICE", "roundHalf: an argument does not fit", {
      where: "roundHalf, dtype",
      got: type,
      expected: `${to.dtype}, the type of out`,
    });
  }
  const inPlace = isInPlace("roundHalf", from, to);
  const packed = to.dtype === "bf16";
  const constants = packed
    ? { LANE: "f32", HALF: false }
    : { LANE: "f32", HALF: to.dtype === "f16", TO: type, IN_PLACE: inPlace };
  for (const { first, count } of windowsOf(gpu, "roundHalf", length)) {
    gpu.recorder.dispatch({
      kernel: packed ? "store_bf16" : "round_half",
      constants,
      bindings: (inPlace ? [to] : [to, from]).map((tensor) => gpu.view(tensor, first, count)),
      params: { length: count },
      groups: groupsFor(gpu, packed ? Math.ceil(count / 2) : count),
    });
  }
}

/** The data, rounded, from element `offset` of a tensor of 16 bits on. */
export function writeHalf(gpu: Gpu, tensor: WebGpuTensor, data: Float32Array, offset: number): void {
  const staging = gpu.scratch("half.staging", Math.min(data.length, STAGED));
  for (let first = 0; first < data.length; first += STAGED) {
    const some = data.subarray(first, first + STAGED);
    gpu.recorder.write(staging, some, 0);
    roundHalf(gpu, { x: staging, out: gpu.view(tensor, offset + first, some.length), length: some.length });
  }
}
