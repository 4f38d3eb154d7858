import { AgentRLError } from "../../../errors.ts";
import type { Device } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";

/** Pairs of a workgroup: 64 threads, 4 pairs each (shaders/elementwise.wgsl). */
const PAIRS = 256;

/** A position outside the table is not noticed: positions lie in the device's memory. */
export function rope(gpu: Gpu, x: Parameters<Device["rope"]>[0]): void {
  const { rows, heads, headDim } = x;
  if (!(headDim > 0 && headDim % 2 === 0)) {
    throw new AgentRLError("DEVICE", "rope: an argument does not fit", {
      where: "rope, headDim",
      got: headDim,
      expected: "an even number above 0",
    });
  }
  const values = operand("rope", "x", x.x, "f32", rows * heads * headDim);
  const cosSin = operand("rope", "cosSin", x.cosSin, "f32", headDim);
  const positions = operand("rope", "positions", x.positions, "u32", rows);
  const pairs = (rows * heads * headDim) / 2;
  gpu.recorder.dispatch({
    kernel: "rope",
    constants: { HALF: headDim / 2 },
    bindings: [values, cosSin, positions],
    params: { pairs, heads, direction: x.inverse ? -1 : 1 },
    groups: gpu.fold(Math.ceil(pairs / PAIRS)),
  });
}
