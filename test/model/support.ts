/** What the model's tests share: golden files, random models and batches, and a comparison of gradients. */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import type { Device } from "../../src/device/device.ts";
import { NativeDevice } from "../../src/device/native.ts";
import { type ModelConfig, parseModelConfig } from "../../src/model/config.ts";
import { initWeights } from "../../src/model/init.ts";
import type { PackedBatch } from "../../src/model/packed-batch.ts";
import type { HostTensor } from "../../src/model/parameters.ts";
import { Weights } from "../../src/model/weights.ts";

export function makeDevice(threads = 2): Device {
  return new NativeDevice({ threads });
}

/** A model small enough for finite differences through all of it. */
export const smallConfig: ModelConfig = {
  vocabSize: 24,
  hiddenSize: 16,
  intermediateSize: 24,
  layers: 2,
  heads: 2,
  kvHeads: 1,
  headDim: 8,
  family: "llama" as const,
  ropeTheta: 10000,
  rmsNormEps: 1e-5,
  maxPositions: 128,
  eosTokenIds: [],
  tieWordEmbeddings: false,
};

/** Its weights, those of matrices `factor` times as large as a new model's. */
export function smallWeights(seed: number, factor = 1): Float32Array {
  return initWeights(smallConfig, seed).map((value) => (value === 1 || value === 0 ? value : factor * value));
}

export interface Golden {
  config: ModelConfig;
  batch: PackedBatch;
  coefficients: number[];
  entropyCoefficients: number[];
  logProbs: number[];
  entropies: number[];
  loss: number;
  gradNorm: number;
  adamw: {
    lr: number;
    beta1: number;
    beta2: number;
    eps: number;
    weight_decay: number;
    max_grad_norm: number;
    steps: number;
    tensors: string[];
  };
  weights: Map<string, HostTensor>;
  gradients: Map<string, HostTensor>;
  /** After the AdamW steps. */
  updated: Map<string, HostTensor>;
}

/** Reads what test/golden/make-model-golden.py wrote. */
export function readGolden(name: string): Golden {
  const file = (extension: string) => new URL(`../golden/${name}.${extension}`, import.meta.url);
  const record = JSON.parse(readFileSync(file("json"), "utf8"));
  const bytes = readFileSync(file("bin"));
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const index: { name: string; shape: number[] }[] = record.index;
  const size = (shape: number[]) => shape.reduce((a, b) => a * b, 1);

  let offset = 0;
  const weights = new Map<string, HostTensor>();
  for (const { name, shape } of index) {
    const bits = new Uint16Array(buffer, offset, size(shape));
    const data = new Float32Array(Uint32Array.from(bits, (b) => b << 16).buffer);
    weights.set(name, { shape, data });
    offset += bits.byteLength;
  }
  const readF32 = (shape: number[]): HostTensor => {
    const data = new Float32Array(buffer.slice(offset, offset + 4 * size(shape)));
    offset += data.byteLength;
    return { shape, data };
  };
  const gradients = new Map(index.map(({ name, shape }) => [name, readF32(shape)]));
  const shapes = new Map(index.map(({ name, shape }) => [name, shape]));
  const updated = new Map((record.adamw.tensors as string[]).map((name) => [name, readF32(shapes.get(name)!)]));
  return {
    ...record,
    config: parseModelConfig(record.config),
    batch: {
      tokens: Uint32Array.from(record.tokens),
      offsets: Uint32Array.from(record.offsets),
      scoredRows: Uint32Array.from(record.scoredRows),
      targets: Uint32Array.from(record.targets),
      temperatures: Float32Array.from(record.temperatures),
    },
    weights,
    gradients,
    updated,
  };
}

/** Weights on the device from an arena in host memory. */
export function uploadWeights(device: Device, config: ModelConfig, arena: Float32Array): Weights {
  const weights = Weights.allocate(device, config, "weights");
  device.write(weights.arena, arena);
  return weights;
}

/** Larger than at initialisation, so that attention is far from uniform. */
export function randomWeights(device: Device, config: ModelConfig, seed: number): Weights {
  return uploadWeights(
    device,
    config,
    initWeights(config, seed).map((value) => (value === 1 || value === 0 ? value : 15 * value)),
  );
}

export const anyConfig: fc.Arbitrary<ModelConfig> = fc
  .record({
    vocabSize: fc.integer({ min: 2, max: 1100 }),
    hiddenSize: fc.integer({ min: 1, max: 70 }),
    intermediateSize: fc.integer({ min: 1, max: 90 }),
    layers: fc.integer({ min: 1, max: 3 }),
    kvHeads: fc.integer({ min: 1, max: 2 }),
    group: fc.integer({ min: 1, max: 3 }),
    eighths: fc.integer({ min: 1, max: 5 }),
    tieWordEmbeddings: fc.boolean(),
    family: fc.constantFrom("llama" as const, "qwen2" as const, "qwen3" as const),
  })
  .map(({ group, eighths, ...rest }) => ({
    ...rest,
    heads: rest.kvHeads * group,
    headDim: 8 * eighths,
    ropeTheta: 10000,
    rmsNormEps: 1e-5,
    maxPositions: 256,
    eosTokenIds: [],
  }));

/** Small deterministic numbers for tests that draw many: mulberry32. */
export function testRandom(seed: number): { unit(): number; below(n: number): number } {
  let state = seed >>> 0;
  const unit = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return { unit, below: (n) => Math.floor(unit() * n) };
}

/** A sequence with its scored rows (relative to its start). */
export interface TestSequence {
  tokens: number[];
  scored: { row: number; target: number; temperature: number; dLogProb: number; dEntropy: number }[];
}

export function randomSequence(
  config: ModelConfig,
  length: number,
  random: ReturnType<typeof testRandom>,
): TestSequence {
  const tokens = Array.from({ length }, () => random.below(config.vocabSize));
  const scored = tokens.flatMap((_, row) => {
    if (row === length - 1 || random.unit() < 0.5) return [];
    const temperature = Math.fround(0.5 + random.unit());
    const dLogProb = random.unit() - 0.5;
    return [{ row, target: tokens[row + 1]!, temperature, dLogProb, dEntropy: 0.1 * (random.unit() - 0.5) }];
  });
  return { tokens, scored };
}

export function packSequences(sequences: TestSequence[]): PackedBatch & {
  dLogProbs: Float32Array;
  dEntropies: Float32Array;
} {
  const offsets = [0];
  for (const { tokens } of sequences) offsets.push(offsets.at(-1)! + tokens.length);
  const scored = sequences.flatMap((s, i) => s.scored.map((entry) => ({ ...entry, row: entry.row + offsets[i]! })));
  return {
    tokens: Uint32Array.from(sequences.flatMap((s) => s.tokens)),
    offsets: Uint32Array.from(offsets),
    scoredRows: Uint32Array.from(scored, (entry) => entry.row),
    targets: Uint32Array.from(scored, (entry) => entry.target),
    temperatures: Float32Array.from(scored, (entry) => entry.temperature),
    dLogProbs: Float32Array.from(scored, (entry) => entry.dLogProb),
    dEntropies: Float32Array.from(scored, (entry) => entry.dEntropy),
  };
}

/** Largest absolute difference over the largest absolute value of `expected`. */
export function relativeError(got: Float32Array, expected: ArrayLike<number>): number {
  if (got.length !== expected.length) throw new Error(`lengths differ: ${got.length} and ${expected.length}`);
  let difference = 0;
  let scale = 0;
  for (let i = 0; i < got.length; i++) {
    // Math.max keeps a NaN, which no comparison then accepts.
    difference = Math.max(difference, Math.abs(got[i]! - expected[i]!));
    scale = Math.max(scale, Math.abs(expected[i]!));
  }
  return difference === 0 ? 0 : difference / scale;
}

/** toEqual on large arrays takes seconds; this takes none. */
export function sameBits(a: Float32Array, b: Float32Array): boolean {
  return Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(Buffer.from(b.buffer, b.byteOffset, b.byteLength));
}
