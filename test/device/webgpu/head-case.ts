/** Inputs of the head's operators, and calls of them that return what was written. */
import type { Device } from "../../../src/device/device.ts";
import { headBackward, headLogProb } from "../../../src/device/webgpu/ops/head.ts";
import { headSample } from "../../../src/device/webgpu/ops/sample.ts";
import type { WebGpuDevice } from "../../../src/device/webgpu/webgpu-device.ts";
import type { Cut, HeadCase } from "../../conformance/reference-linear.ts";
import { generator, randomF32, randomU32, upload } from "../../conformance/support.ts";

export interface Case extends HeadCase {
  hidden: Float32Array;
  weight: Float32Array;
  targets: Uint32Array;
  temperatures: Float32Array;
  dLogProbs: Float32Array;
  dEntropies: Float32Array;
}

export function makeCase(rows: number, dim: number, vocab: number, tied: boolean, seed: number): Case {
  const next = generator(seed + 50);
  return {
    rows,
    dim,
    vocab,
    tied,
    hidden: randomF32(rows * dim, seed, 2),
    weight: randomF32(vocab * dim, seed + 1, 1),
    targets: randomU32(rows, seed + 2, vocab),
    temperatures: Float32Array.from({ length: rows }, () => [1, 0.7, 1.3][Math.floor(3 * next())]!),
    dLogProbs: randomF32(rows, seed + 3),
    dEntropies: randomF32(rows, seed + 4),
  };
}

/** The rows [from, to) of a case. */
export function rowsOf(x: Case, from: number, to: number): Case {
  return {
    ...x,
    rows: to - from,
    hidden: x.hidden.slice(from * x.dim, to * x.dim),
    targets: x.targets.slice(from, to),
    temperatures: x.temperatures.slice(from, to),
    dLogProbs: x.dLogProbs.slice(from, to),
    dEntropies: x.dEntropies.slice(from, to),
  };
}

/** A case whose logits are these in every row: the weight holds them, and hidden is the number 1. */
export function caseOfLogits(logits: Float32Array, rows: number, temperature: number): Case {
  return {
    ...makeCase(rows, 1, logits.length, true, 0),
    hidden: new Float32Array(rows).fill(1),
    weight: logits,
    temperatures: new Float32Array(rows).fill(temperature),
  };
}

/** Uploads what every operator of the head takes. */
function shape(device: Device, { rows, dim, vocab, tied, hidden, weight, temperatures }: Case) {
  return {
    hidden: upload(device, hidden),
    weight: upload(device, weight),
    temperatures: upload(device, temperatures),
    tied,
    rows,
    dim,
    vocab,
  };
}

/** Log-probabilities, entropies and log-sum-exp. `budget`: logits in memory at once. */
export async function forward(device: WebGpuDevice, x: Case, budget?: number): Promise<Float32Array[]> {
  const outputs = [device.alloc(x.rows), device.alloc(x.rows), device.alloc(x.rows)] as const;
  const [logProbs, entropies, lse] = outputs;
  headLogProb(
    device.gpu,
    { ...shape(device, x), targets: upload(device, x.targets), logProbs, entropies, lse },
    budget,
  );
  return Promise.all(outputs.map((output) => device.readF32(output)));
}

/** dHidden, which held something else before, and dWeight, which held `start`. */
export async function backward(
  device: WebGpuDevice,
  x: Case,
  start: Float32Array = new Float32Array(x.vocab * x.dim),
  budget?: number,
): Promise<Float32Array[]> {
  const [, entropies, lse] = await forward(device, x, budget);
  const dHidden = upload(device, new Float32Array(x.rows * x.dim).fill(7));
  const dWeight = upload(device, start);
  headBackward(
    device.gpu,
    {
      ...shape(device, x),
      targets: upload(device, x.targets),
      lse: upload(device, lse!),
      entropies: upload(device, entropies!),
      dLogProbs: upload(device, x.dLogProbs),
      dEntropies: upload(device, x.dEntropies),
      dHidden,
      dWeight,
    },
    budget,
  );
  return Promise.all([device.readF32(dHidden), device.readF32(dWeight)]);
}

export const uncut: Cut = { topK: 0, topP: 1, minP: 0 };

export interface Sampled {
  tokens: Uint32Array;
  logProbs: Float32Array;
  keptMass: Float32Array;
}

/** One token for each row, all cut alike. Any device, so that one can be held against the other. */
export async function sample(
  device: Device,
  x: Case,
  seeds: Uint32Array,
  cut = uncut,
  budget?: number,
): Promise<Sampled> {
  const { rows } = x;
  const each = (value: number) => upload(device, new Float32Array(rows).fill(value));
  const [tokens, logProbs, keptMass] = [device.alloc(rows, "u32"), device.alloc(rows), device.alloc(rows)];
  const topK = upload(device, new Uint32Array(rows).fill(cut.topK));
  const cuts = { topK, topP: each(cut.topP), minP: each(cut.minP) };
  const args = { ...shape(device, x), ...cuts, seeds: upload(device, seeds), tokens, logProbs, keptMass };
  if (budget === undefined) device.headSample(args);
  else headSample((device as WebGpuDevice).gpu, args, budget);
  const read = [device.readU32(tokens), device.readF32(logProbs), device.readF32(keptMass)] as const;
  const [readTokens, readLogProbs, readMass] = await Promise.all(read);
  return { tokens: readTokens, logProbs: readLogProbs, keptMass: readMass };
}

/** Runs with tensors of more than `elements` worked on in windows, as if the adapter could not bind them. */
export async function withBindingLimit<T>(device: WebGpuDevice, elements: number, run: () => Promise<T>): Promise<T> {
  const gpu = device.gpu as { maxBindingElements: number };
  const before = gpu.maxBindingElements;
  gpu.maxBindingElements = elements;
  try {
    return await run();
  } finally {
    gpu.maxBindingElements = before;
  }
}
