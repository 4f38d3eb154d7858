/** Elementwise operators: one thread for four elements. */
import { AgentRLError } from "../../../errors.ts";
import { type Device, isHalf } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";
import { windowsOf } from "../windows.ts";
import { isInPlace } from "./in-place.ts";

/** As in shaders/elementwise.wgsl. */
export const WORKGROUP = 64;
const PER_THREAD = 4;

/** Workgroups that deal `length` elements to threads. */
export function groupsFor(gpu: Gpu, length: number): [number, number] {
  return gpu.fold(Math.ceil(length / (WORKGROUP * PER_THREAD)));
}

export function fill(gpu: Gpu, tensor: WebGpuTensor, value: number): void {
  if (Object.is(value, 0)) {
    gpu.recorder.clear(tensor);
    return;
  }
  if (isHalf(tensor.dtype)) {
    const what = `A tensor of ${tensor.dtype} is filled with zeros only`;
    throw new AgentRLError("DEVICE", what, { where: tensor.label, got: value });
  }
  const constants = { TYPE: tensor.dtype };
  for (const { first, count: length } of windowsOf(gpu, "fill", tensor.length)) {
    const bindings = [gpu.view(tensor, first, length)];
    const params = { length, value };
    gpu.recorder.dispatch({ kernel: "fill", constants, bindings, params, groups: groupsFor(gpu, length) });
  }
}

export function add(gpu: Gpu, x: Parameters<Device["add"]>[0]): void {
  const { length } = x;
  const a = operand("add", "a", x.a, "f32", length);
  const b = operand("add", "b", x.b, "f32", length);
  const out = operand("add", "out", x.out, "f32", length);
  const others = [a, b].filter((one) => !isInPlace("add", one, out));
  const constants = { OTHERS: others.length };
  const bindings = [out, ...others];
  const params = { length };
  gpu.recorder.dispatch({ kernel: "add", constants, bindings, params, groups: groupsFor(gpu, length) });
}

export function scale(gpu: Gpu, x: Parameters<Device["scale"]>[0]): void {
  const { length, factor } = x;
  const from = operand("scale", "x", x.x, "f32", length);
  const out = operand("scale", "out", x.out, "f32", length);
  const inPlace = isInPlace("scale", from, out);
  for (const { first, count } of windowsOf(gpu, "scale", length)) {
    gpu.recorder.dispatch({
      kernel: "scale",
      constants: { IN_PLACE: inPlace },
      bindings: (inPlace ? [out] : [out, from]).map((tensor) => gpu.view(tensor, first, count)),
      params: { length: count, factor },
      groups: groupsFor(gpu, count),
    });
  }
}

export function swiglu(gpu: Gpu, x: Parameters<Device["swiglu"]>[0]): void {
  const { length } = x;
  const gate = operand("swiglu", "gate", x.gate, "f32", length);
  const up = operand("swiglu", "up", x.up, "f32", length);
  const out = operand("swiglu", "out", x.out, "f32", length);
  const bindings = [gate, up, out];
  gpu.recorder.dispatch({ kernel: "swiglu", bindings, params: { length }, groups: groupsFor(gpu, length) });
}

export function swigluBackward(gpu: Gpu, x: Parameters<Device["swigluBackward"]>[0]): void {
  const { length } = x;
  const gate = operand("swigluBackward", "gate", x.gate, "f32", length);
  const up = operand("swigluBackward", "up", x.up, "f32", length);
  const dOut = operand("swigluBackward", "dOut", x.dOut, "f32", length);
  const dGate = operand("swigluBackward", "dGate", x.dGate, "f32", length);
  const dUp = operand("swigluBackward", "dUp", x.dUp, "f32", length);
  const bindings = [gate, up, dOut, dGate, dUp];
  gpu.recorder.dispatch({ kernel: "swiglu_backward", bindings, params: { length }, groups: groupsFor(gpu, length) });
}
