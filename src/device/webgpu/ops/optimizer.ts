/** AdamW, and the sum of squares that gradient clipping needs: both over arenas larger than one binding may be. */
import type { AdamWArgs } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";
import { windowsOf } from "../windows.ts";
import { groupsFor } from "./elementwise.ts";
import { isInPlace } from "./in-place.ts";

export function adamw(gpu: Gpu, x: AdamWArgs): void {
  const { length, lr, beta1, beta2, eps, step } = x;
  const param = operand("adamw", "param", x.param, "f32", length);
  const out = operand("adamw", "out", x.out, "f32", length);
  const grad = operand("adamw", "grad", x.grad, "f32", length);
  const m = operand("adamw", "m", x.m, "f32", length);
  const v = operand("adamw", "v", x.v, "f32", length);
  const inPlace = isInPlace("adamw", param, out);
  const tensors = inPlace ? [grad, m, v, out] : [grad, m, v, out, param];
  const scalars = {
    lr,
    beta1,
    rest1: 1 - beta1,
    correct1: 1 / (1 - beta1 ** step),
    beta2,
    rest2: 1 - beta2,
    correct2: 1 / (1 - beta2 ** step),
    eps,
    decay: x.weightDecay,
    grad_scale: x.gradScale,
  };
  for (const { first, count } of windowsOf(gpu, "adamw", length)) {
    gpu.recorder.dispatch({
      kernel: "adamw",
      constants: { IN_PLACE: inPlace },
      bindings: tensors.map((tensor) => gpu.view(tensor, first, count)),
      params: { length: count, ...scalars },
      groups: groupsFor(gpu, count),
    });
  }
}

/** Elements of a block, as in shaders/sum_blocks.wgsl. */
const BLOCK = 4096;

/** Calls of this turn of the event loop: each needs a result of its own, since what a turn reads is copied at its end. */
const callsOfTurn = new WeakMap<Gpu, number>();

/** Blocks of 4,096 squares, blocks of 4,096 such sums, and those, a few numbers, in order in float64 on the host. */
export async function sumSquares(gpu: Gpu, tensor: WebGpuTensor, length: number): Promise<number> {
  const x = operand("sumSquares", "tensor", tensor, "f32", length);
  const call = callsOfTurn.get(gpu) ?? 0;
  if (call === 0) queueMicrotask(() => callsOfTurn.delete(gpu));
  callsOfTurn.set(gpu, call + 1);

  const blocks = Math.ceil(length / BLOCK);
  const sums = gpu.scratch("sumSquares.blocks", blocks);
  for (const { first, count } of windowsOf(gpu, "sumSquares", length, 1, BLOCK)) {
    sumBlocks(gpu, true, gpu.view(x, first, count), sums, first / BLOCK);
  }
  const totals = gpu.scratch(`sumSquares.totals${call}`, Math.ceil(blocks / BLOCK));
  sumBlocks(gpu, false, sums, totals, 0);
  const values = new Float32Array(await gpu.recorder.read(totals, totals.length));
  return values.reduce((total, value) => total + value, 0);
}

function sumBlocks(gpu: Gpu, squared: boolean, x: WebGpuTensor, out: WebGpuTensor, offset: number): void {
  const blocks = Math.ceil(x.length / BLOCK);
  gpu.recorder.dispatch({
    kernel: "sum_blocks",
    constants: { LANE: "f32", SQUARED: squared },
    bindings: [x, out],
    params: { length: x.length, blocks, offset },
    groups: gpu.fold(blocks),
  });
}
