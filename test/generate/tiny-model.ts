/** A model of random weights that is large enough to tell contexts apart, and what a full forward pass makes of a record. */
import type { Device } from "../../src/device/device.ts";
import type { TokenRecord } from "../../src/generate/token-record.ts";
import type { ModelConfig } from "../../src/model/config.ts";
import { initWeights } from "../../src/model/init.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { Weights } from "../../src/model/weights.ts";

export const tinyConfig: ModelConfig = {
  vocabSize: 97,
  hiddenSize: 32,
  intermediateSize: 48,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  family: "llama" as const,
  ropeTheta: 10_000,
  rmsNormEps: 1e-6,
  tieWordEmbeddings: true,
  maxPositions: 512,
  eosTokenIds: [5],
};

export const tinySampling = { temperature: 0.9, topK: 0, topP: 1, minP: 0 };

export function tinyWeights(device: Device, seed: number): Weights {
  const weights = Weights.allocate(device, tinyConfig, "weights");
  const values = initWeights(tinyConfig, seed);
  // Sharper than a fresh model, so that different contexts give different tokens.
  device.write(
    weights.arena,
    values.map((value) => (Math.abs(value) < 0.9 ? value * 8 : value)),
  );
  return weights;
}

export function tinyTurn(sample: number, maxTokens = 12, stopTokens: number[] = [5]) {
  return { stopTokens, maxTokens, sampling: tinySampling, seed: { group: 3, sample, key: 11 } };
}

export function tinyTokens(seed: number, length: number): number[] {
  return Array.from({ length }, (_, i) => 6 + ((seed * 31 + i * 17 + i * i) % 90));
}

/** Log-probabilities of the record's sampled tokens by one full forward pass. */
export async function recompute(device: Device, record: TokenRecord, weights: Weights): Promise<number[]> {
  const rows = record.length - 1;
  const pass = new TrainPass(device, tinyConfig, { maxRows: 512, maxScored: 512 });
  const scoredRows = [...Array(rows).keys()].filter((row) => record.sampled[row + 1] === 1);
  const { logProbs } = await pass.forward(weights, {
    tokens: record.tokens.slice(0, rows),
    offsets: Uint32Array.of(0, rows),
    scoredRows: Uint32Array.from(scoredRows),
    targets: Uint32Array.from(scoredRows, (row) => record.tokens[row + 1]!),
    temperatures: new Float32Array(scoredRows.length).fill(tinySampling.temperature),
  });
  const out = [...logProbs];
  pass.destroy();
  return out;
}

/** What the record says that the sampled tokens' log-probabilities are. */
export function recorded(record: TokenRecord): number[] {
  return ofSampled(record, record.logProbs);
}

export function ofSampled(record: TokenRecord, values: ArrayLike<number>): number[] {
  return Array.from({ length: record.length }, (_, i) => i)
    .filter((i) => record.sampled[i] === 1)
    .map((i) => values[i]!);
}
