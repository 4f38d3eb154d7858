/**
 * The backward pass of transformer.ts, one function for each of its steps, in reverse. Gradients of weights are
 * accumulated; norms and activations are computed again from what the forward pass kept, which costs one cheap pass
 * over memory and saves a third of it.
 */
import type { Device, Tensor } from "../device/device.ts";
import type { ModelConfig } from "./config.ts";
import { normInput, type Rotation } from "./transformer.ts";
import type { LayerWeights } from "./weights.ts";

/** dWeight[inner, outer] += input^T dOut, rows in ascending order. */
function addWeightGradient(
  device: Device,
  io: { input: Tensor; dOut: Tensor; dWeight: Tensor; rows: number; inner: number; outer: number },
): void {
  const { input, dOut, dWeight, rows, inner, outer } = io;
  device.matmul({ layout: "tn", a: input, b: dOut, out: dWeight, m: inner, n: outer, k: rows, accumulate: true });
}

/** dInput[rows, inner] (+)= dOut weight^T, for weight [inner, outer]. */
function inputGradient(
  device: Device,
  io: {
    dOut: Tensor;
    weight: Tensor;
    dInput: Tensor;
    rows: number;
    inner: number;
    outer: number;
    accumulate?: boolean;
  },
): void {
  const { dOut, weight, dInput, rows, inner, outer, accumulate = false } = io;
  device.matmul({ layout: "nt", a: dOut, b: weight, out: dInput, m: rows, n: inner, k: outer, accumulate });
}

export interface FinishLayerScratch {
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

/**
 * Backward of finishLayer. `dResidual` comes in as the gradient of `out` and leaves as the gradient of `residual`
 * through the skip connection alone; what flows into the attention is in `dAttended` (overwritten).
 */
export function finishLayerBackward(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  grads: LayerWeights,
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
  const { hiddenSize: dim, intermediateSize, heads, headDim, rmsNormEps: eps } = config;
  const { attended, middle, gate, up, dResidual, dAttended, rows } = io;
  const { normed, dNormed, invRms, activated, dActivated, dUp } = scratch;
  const down = { rows, inner: intermediateSize, outer: dim };
  const widen = { rows, inner: dim, outer: intermediateSize };
  const output = { rows, inner: heads * headDim, outer: dim };

  device.swiglu({ gate, up, out: activated, length: rows * intermediateSize });
  addWeightGradient(device, { input: activated, dOut: dResidual, dWeight: grads.down, ...down });
  inputGradient(device, { dOut: dResidual, weight: weights.down, dInput: dActivated, ...down });
  // `activated` has been used up: its memory takes dGate.
  const dGate = activated;
  device.swigluBackward({ gate, up, dOut: dActivated, dGate, dUp, length: rows * intermediateSize });
  device.rmsNorm({ x: middle, weight: weights.mlpNorm, out: normed, invRms, rows, dim, eps });
  addWeightGradient(device, { input: normed, dOut: dGate, dWeight: grads.gate, ...widen });
  addWeightGradient(device, { input: normed, dOut: dUp, dWeight: grads.up, ...widen });
  inputGradient(device, { dOut: dGate, weight: weights.gate, dInput: dNormed, ...widen });
  inputGradient(device, { dOut: dUp, weight: weights.up, dInput: dNormed, ...widen, accumulate: true });
  device.rmsNormBackward({
    x: middle,
    weight: weights.mlpNorm,
    invRms,
    dOut: dNormed,
    dX: dResidual,
    dWeight: grads.mlpNorm,
    rows,
    dim,
    accumulate: true,
  });
  addWeightGradient(device, { input: attended, dOut: dResidual, dWeight: grads.o, ...output });
  inputGradient(device, { dOut: dResidual, weight: weights.o, dInput: dAttended, ...output });
}

/**
 * Backward of normInput, projectKeysValues and projectQueries. dQ, dK, dV come in as gradients of the rotated q, k and
 * of v, and are used up; `dResidual` is added to.
 */
export function projectionsBackward(
  device: Device,
  config: ModelConfig,
  weights: LayerWeights,
  grads: LayerWeights,
  io: { residual: Tensor; dQ: Tensor; dK: Tensor; dV: Tensor; dResidual: Tensor; rows: number },
  rotation: Rotation,
  scratch: { normed: Tensor; dNormed: Tensor; invRms: Tensor },
): void {
  const { hiddenSize: dim, heads, kvHeads, headDim } = config;
  const { residual, dQ, dK, dV, dResidual, rows } = io;
  const { normed, dNormed, invRms } = scratch;
  const queries = { rows, inner: dim, outer: heads * headDim };
  const keys = { rows, inner: dim, outer: kvHeads * headDim };

  device.rope({ x: dQ, ...rotation, rows, heads, headDim, inverse: true });
  device.rope({ x: dK, ...rotation, rows, heads: kvHeads, headDim, inverse: true });
  normInput(device, config, weights, { residual, normed, invRms, rows });
  addWeightGradient(device, { input: normed, dOut: dQ, dWeight: grads.q, ...queries });
  addWeightGradient(device, { input: normed, dOut: dK, dWeight: grads.k, ...keys });
  addWeightGradient(device, { input: normed, dOut: dV, dWeight: grads.v, ...keys });
  inputGradient(device, { dOut: dQ, weight: weights.q, dInput: dNormed, ...queries });
  inputGradient(device, { dOut: dK, weight: weights.k, dInput: dNormed, ...keys, accumulate: true });
  inputGradient(device, { dOut: dV, weight: weights.v, dInput: dNormed, ...keys, accumulate: true });
  device.rmsNormBackward({
    x: residual,
    weight: weights.attentionNorm,
    invRms,
    dOut: dNormed,
    dX: dResidual,
    dWeight: grads.attentionNorm,
    rows,
    dim,
    accumulate: true,
  });
}
