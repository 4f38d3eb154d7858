/**
 * One matrix of a layer applied to rows, with its bias and its adapter where it has them, and the way back. The adapter's
 * product goes on from the matrix's sum, so that the order of every addition is that of the formula in lora.ts.
 */
import type { Device, Tensor } from "../device/device.ts";
import type { Adapter } from "./lora.ts";

export interface Linear {
  /** [inner, outer]; f32, or 16 bits that are read exactly. */
  readonly weight: Tensor;
  /** [outer] */
  readonly bias?: Tensor;
  readonly adapter?: Adapter & { readonly rank: number; readonly scale: number };
}

/** Where a matrix's gradients are added to; what is absent is frozen. */
export interface LinearGradient {
  readonly weight?: Tensor;
  readonly bias?: Tensor;
  readonly adapter?: Adapter;
}

export interface LinearSize {
  rows: number;
  inner: number;
  outer: number;
}

/** out [rows, outer] (+)= x [rows, inner] through the matrix. `lowRank` [rows, rank]: needed where there is an adapter. */
export function linear(
  device: Device,
  { weight, bias, adapter }: Linear,
  io: { x: Tensor; out: Tensor; accumulate?: boolean; lowRank?: Tensor | undefined } & LinearSize,
): void {
  const { x, out, rows, inner, outer, accumulate = false, lowRank } = io;
  const product = { out, m: rows, n: outer, k: inner, accumulate };
  device.matmul({ layout: "nn", a: x, b: weight, ...product, ...(bias && { bias }) });
  if (adapter === undefined) return;
  narrow(device, adapter, { x, out: lowRank!, rows, inner });
  device.matmul({ layout: "nn", a: lowRank!, b: adapter.b, out, m: rows, n: outer, k: adapter.rank, accumulate: true });
}

export interface LinearScratch {
  /** [rows, rank]; needed where there is an adapter. */
  lowRank?: Tensor;
  dLowRank?: Tensor;
  /** [rows] of ones; needed where a bias is trained. */
  ones?: Tensor;
}

/**
 * The way back, given `x` that went in and `dOut` of what came out. Adds to the gradients, rows in ascending order:
 * dW += x' dOut, db += sum of dOut, dB += (s x A)' dOut, dA += x' (s dOut B'); then dX (+)= dOut W' + (s dOut B') A'.
 */
export function linearBackward(
  device: Device,
  { weight, adapter }: Linear,
  grads: LinearGradient,
  io: { x: Tensor; dOut: Tensor; dX: Tensor; accumulate?: boolean } & LinearSize,
  { lowRank, dLowRank, ones }: LinearScratch,
): void {
  const { x, dOut, dX, rows, inner, outer, accumulate = false } = io;
  const addGradient = (a: Tensor, b: Tensor, out: Tensor, m: number, n: number) =>
    device.matmul({ layout: "tn", a, b, out, m, n, k: rows, accumulate: true });
  if (grads.weight !== undefined) addGradient(x, dOut, grads.weight, inner, outer);
  if (grads.bias !== undefined) addGradient(ones!, dOut, grads.bias, 1, outer);
  device.matmul({ layout: "nt", a: dOut, b: weight, out: dX, m: rows, n: inner, k: outer, accumulate });
  if (adapter === undefined) return;

  const { a, b, rank, scale: factor } = adapter;
  device.matmul({ layout: "nt", a: dOut, b, out: dLowRank!, m: rows, n: rank, k: outer });
  device.scale({ x: dLowRank!, out: dLowRank!, factor, length: rows * rank });
  device.matmul({ layout: "nt", a: dLowRank!, b: a, out: dX, m: rows, n: inner, k: rank, accumulate: true });
  if (grads.adapter === undefined) return;
  narrow(device, adapter, { x, out: lowRank!, rows, inner });
  addGradient(lowRank!, dOut, grads.adapter.b, rank, outer);
  addGradient(x, dLowRank!, grads.adapter.a, inner, rank);
}

/** out [rows, rank] = s x A */
function narrow(
  device: Device,
  { a, rank, scale: factor }: NonNullable<Linear["adapter"]>,
  { x, out, rows, inner }: { x: Tensor; out: Tensor; rows: number; inner: number },
): void {
  device.matmul({ layout: "nn", a: x, b: a, out, m: rows, n: rank, k: inner });
  device.scale({ x: out, out, factor, length: rows * rank });
}
