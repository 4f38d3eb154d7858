/** RMSNorm and its gradients: rows for the values, columns for the weight. */
import type { Device } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import { WORKGROUP } from "./elementwise.ts";
import { isInPlace } from "./in-place.ts";

export function rmsNorm(gpu: Gpu, x: Parameters<Device["rmsNorm"]>[0]): void {
  const { rows, dim, eps } = x;
  const from = operand("rmsNorm", "x", x.x, "f32", rows * dim);
  const weight = operand("rmsNorm", "weight", x.weight, "f32", dim);
  const out = operand("rmsNorm", "out", x.out, "f32", rows * dim);
  const invRms = operand("rmsNorm", "invRms", x.invRms, "f32", rows);
  const { lane, width } = lanesOf(dim);
  gpu.recorder.dispatch({
    kernel: "rmsnorm",
    constants: { LANE: lane },
    bindings: [from, weight, out, invRms],
    params: { rows, width, dim, eps },
    groups: gpu.fold(rows),
  });
}

export function rmsNormBackward(gpu: Gpu, x: Parameters<Device["rmsNormBackward"]>[0]): void {
  const { rows, dim, accumulate = false } = x;
  const from = operand("rmsNormBackward", "x", x.x, "f32", rows * dim);
  const weight = operand("rmsNormBackward", "weight", x.weight, "f32", dim);
  const invRms = operand("rmsNormBackward", "invRms", x.invRms, "f32", rows);
  const dOut = operand("rmsNormBackward", "dOut", x.dOut, "f32", rows * dim);
  const dX = operand("rmsNormBackward", "dX", x.dX, "f32", rows * dim);

  // First the weight's: dX may lie where dOut does.
  if (x.dWeight !== undefined) {
    const dWeight = operand("rmsNormBackward", "dWeight", x.dWeight, "f32", dim);
    gpu.recorder.dispatch({
      kernel: "rmsnorm_weight",
      bindings: [from, invRms, dOut, dWeight],
      params: { rows, dim },
      groups: [Math.ceil(dim / WORKGROUP)],
    });
  }
  const inPlace = isInPlace("rmsNormBackward", dOut, dX);
  const { lane, width } = lanesOf(dim);
  gpu.recorder.dispatch({
    kernel: "rmsnorm_backward",
    constants: { LANE: lane, IN_PLACE: inPlace, ACCUMULATE: accumulate },
    bindings: inPlace ? [from, weight, invRms, dX] : [from, weight, invRms, dX, dOut],
    params: { rows, width, dim },
    groups: gpu.fold(rows),
  });
}

/** A row as vectors of four where its dimension allows. */
function lanesOf(dim: number): { lane: "vec4f" | "f32"; width: number } {
  return dim % 4 === 0 ? { lane: "vec4f", width: dim / 4 } : { lane: "f32", width: dim };
}
