/**
 * The backward pass of transformer.ts, one function for each of its steps, in reverse. Gradients of what is trained are
 * accumulated; norms and activations are computed again from what the forward pass kept, which costs one cheap pass
 * over memory and saves a third of it.
 */
import type { Device, Tensor } from "../device/device.ts";
import type { ModelConfig } from "./config.ts";
import { type LinearScratch, linear, linearBackward } from "./linear.ts";
import { type LinearRole, linearShape } from "./parameters.ts";
import { normInput, type ProjectionScratch, type Rotation } from "./transformer.ts";
import type { LayerGradients, LayerWeights } from "./weights.ts";

export interface FinishLayerScratch extends LinearScratch {
  /** [rows, hiddenSize] */
  normed: Tensor;
  dNormed: Tensor;
  /** [rows] */
  invRms: Tensor;
  /** [rows, intermediateSize] */
  activated: Tensor;
  dActivated: Tensor;
  dUp: Tensor;
}

/** linearBackward of a layer's matrix by its role. */
function backOf(
  device: Device,
  config: ModelConfig,
  { weights, grads, rows }: { weights: LayerWeights; grads: LayerGradients; rows: number },
  scratch: LinearScratch,
) {
  return (role: LinearRole, io: { x: Tensor; dOut: Tensor; dX: Tensor; accumulate?: boolean }): void => {
    const size = { rows, ...linearShape(config, role) };
    linearBackward(device, weights[role], grads[role] ?? {}, { ...io, ...size }, scratch);
  };
}

/**
 * Backward of finishLayer. `dResidual` comes in as the gradient of `out` and leaves as the gradient of `residual`
 * through the skip connection alone; what flows into the attention is in `dAttended` (overwritten).
 */
export function finishLayerBackward(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  grads: LayerGradients,
  io: {
    attended: Tensor;
    middle: Tensor;
    gate: Tensor;
    up: Tensor;
    dResidual: Tensor;
    dAttended: Tensor;
    rows: number;
  },
  scratch: FinishLayerScratch,
): void {
  const { hiddenSize: dim, intermediateSize, rmsNormEps: eps } = config;
  const { attended, middle, gate, up, dResidual, dAttended, rows } = io;
  const { normed, dNormed, invRms, activated, dActivated, dUp } = scratch;
  const back = backOf(device, config, { weights, grads, rows }, scratch);

  device.swiglu({ gate, up, out: activated, length: rows * intermediateSize });
  back("down", { x: activated, dOut: dResidual, dX: dActivated });
  // `activated` has been used up: its memory takes dGate.
  const dGate = activated;
  device.swigluBackward({ gate, up, dOut: dActivated, dGate, dUp, length: rows * intermediateSize });
  device.rmsNorm({ x: middle, weight: weights.mlpNorm, out: normed, invRms, rows, dim, eps });
  back("gate", { x: normed, dOut: dGate, dX: dNormed });
  back("up", { x: normed, dOut: dUp, dX: dNormed, accumulate: true });
  device.rmsNormBackward({
    x: middle,
    weight: weights.mlpNorm,
    invRms,
    dOut: dNormed,
    dX: dResidual,
    ...(grads.mlpNorm && { dWeight: grads.mlpNorm }),
    rows,
    dim,
    accumulate: true,
  });
  back("o", { x: attended, dOut: dResidual, dX: dAttended });
}

export interface ProjectionsScratch extends LinearScratch, ProjectionScratch {
  /** [rows, hiddenSize] */
  normed: Tensor;
  dNormed: Tensor;
  /** [rows] */
  invRms: Tensor;
  /** Gradients of qRaw and kRaw, where there are these. */
  dQRaw?: Tensor;
  dKRaw?: Tensor;
}

/**
 * Backward of normInput, projectKeysValues and projectQueries. dQ, dK, dV come in as gradients of the rotated q, k and
 * of v, and are used up; `dResidual` is added to.
 */
export function projectionsBackward(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  grads: LayerGradients,
  io: { residual: Tensor; dQ: Tensor; dK: Tensor; dV: Tensor; dResidual: Tensor; rows: number },
  rotation: Rotation,
  scratch: ProjectionsScratch,
): void {
  const { hiddenSize: dim, heads, kvHeads, headDim } = config;
  const { residual, dQ, dK, dV, dResidual, rows } = io;
  const { normed, dNormed, invRms } = scratch;
  const back = backOf(device, config, { weights, grads, rows }, scratch);

  device.rope({ x: dQ, ...rotation, rows, heads, headDim, inverse: true });
  device.rope({ x: dK, ...rotation, rows, heads: kvHeads, headDim, inverse: true });
  normInput(device, config, weights, { residual, normed, invRms, rows });
  const q = { role: "q", weight: weights.qNorm, dWeight: grads.qNorm, raw: scratch.qRaw, dRaw: scratch.dQRaw } as const;
  const k = { role: "k", weight: weights.kNorm, dWeight: grads.kNorm, raw: scratch.kRaw, dRaw: scratch.dKRaw } as const;
  const dQIn = headNormBackward(device, config, weights, { ...q, dOut: dQ, normed, rows, heads }, scratch);
  const dKIn = headNormBackward(device, config, weights, { ...k, dOut: dK, normed, rows, heads: kvHeads }, scratch);
  back("q", { x: normed, dOut: dQIn, dX: dNormed });
  back("k", { x: normed, dOut: dKIn, dX: dNormed, accumulate: true });
  back("v", { x: normed, dOut: dV, dX: dNormed, accumulate: true });
  device.rmsNormBackward({
    x: residual,
    weight: weights.attentionNorm,
    invRms,
    dOut: dNormed,
    dX: dResidual,
    ...(grads.attentionNorm && { dWeight: grads.attentionNorm }),
    rows,
    dim,
    accumulate: true,
  });
}

/** Gradient of queries or keys before their norm, which are projected again for it; without a norm, `dOut` itself. */
function headNormBackward(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  io: {
    role: "q" | "k";
    weight: Tensor | undefined;
    dWeight: Tensor | undefined;
    raw: Tensor | undefined;
    dRaw: Tensor | undefined;
    dOut: Tensor;
    normed: Tensor;
    rows: number;
    heads: number;
  },
  scratch: ProjectionsScratch,
): Tensor {
  const { role, weight, dWeight, raw: x, dRaw: dX, dOut, normed, heads } = io;
  if (weight === undefined) return dOut;
  const { headDim: dim, rmsNormEps: eps } = config;
  const { lowRank, headInvRms: invRms } = scratch;
  const rows = io.rows * heads;
  linear(device, weights[role], { x: normed, out: x!, lowRank, rows: io.rows, ...linearShape(config, role) });
  // Its output is of no use; dX's memory takes it.
  device.rmsNorm({ x: x!, weight, out: dX!, invRms: invRms!, rows, dim, eps });
  device.rmsNormBackward({ x: x!, weight, invRms: invRms!, dOut, dX: dX!, ...(dWeight && { dWeight }), rows, dim });
  return dX!;
}
