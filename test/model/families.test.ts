/** Every model family against transformers and PEFT in float64 (test/golden/make-families.py), on both devices. */
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import type { Device } from "../../src/device/device.ts";
import { openAdapterFolder } from "../../src/model/adapter-files.ts";
import { readModelConfig } from "../../src/model/config.ts";
import { adapterLayout, type LoraShape } from "../../src/model/lora.ts";
import type { PackedBatch } from "../../src/model/packed-batch.ts";
import { packTensors, parameterLayout, unpackTensors } from "../../src/model/parameters.ts";
import { openSafetensors } from "../../src/model/safetensors.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { allocateGradients, withAdapters } from "../../src/model/trained.ts";
import type { ComputeWeights } from "../../src/model/weights.ts";
import { onEveryAdapter } from "../device/webgpu/adapters.ts";
import { makeDevice, relativeError, uploadWeights } from "./support.ts";

const folderOf = (family: string) => fileURLToPath(new URL(`../golden/families/${family}/`, import.meta.url));

function read(family: string) {
  const folder = folderOf(family);
  const config = readModelConfig(`${folder}config.json`);
  const weights = openSafetensors(`${folder}model.safetensors`);
  const golden = openSafetensors(`${folder}golden.safetensors`);
  return { folder, config, weights, golden, value: (name: string) => golden.read(name).data };
}

/** Every row but the last of each sequence predicts the next token. */
function batchOf(tokens: Float32Array, lengths: Float32Array): PackedBatch {
  const offsets = [0];
  for (const length of lengths) offsets.push(offsets.at(-1)! + length);
  const last = new Set(offsets.slice(1).map((end) => end - 1));
  const scored = [...tokens.keys()].filter((row) => !last.has(row));
  return {
    tokens: Uint32Array.from(tokens),
    offsets: Uint32Array.from(offsets),
    scoredRows: Uint32Array.from(scored),
    targets: Uint32Array.from(scored, (row) => tokens[row + 1]!),
    temperatures: new Float32Array(scored.length).fill(1),
  };
}

/** log softmax of a row of logits, in float64. */
function logSoftmax(logits: Float32Array, row: number, vocab: number): Float64Array {
  const values = Float64Array.from(logits.subarray(row * vocab, (row + 1) * vocab));
  const most = Math.max(...values);
  const sum = values.reduce((all, value) => all + Math.exp(value - most), 0);
  return values.map((value) => value - most - Math.log(sum));
}

interface Computed {
  /** [rows scored] log-probability of each of `tokens`. */
  logProbs: Map<number, Float32Array>;
  loss: number;
  /** By Hugging Face's names. */
  gradients: Map<string, Float32Array>;
}

/** `lora`: adapters alone are trained. */
async function compute(
  device: Device,
  { config, value }: ReturnType<typeof read>,
  weights: ComputeWeights,
  { lora, recompute }: { lora: LoraShape | null; recompute: boolean },
): Promise<Computed> {
  const batch = batchOf(value("tokens"), value("lengths"));
  const scored = batch.scoredRows.length;
  const limits = { maxRows: batch.tokens.length, maxScored: scored, loraRank: lora?.rank ?? 0, recompute };
  const pass = new TrainPass(device, config, limits);
  const grads = allocateGradients(device, { config, lora }, "grads");
  try {
    const logProbs = new Map<number, Float32Array>();
    // A pass gives one token's for each row. Software adapters take their time: a few tokens there.
    for (let token = 0; token < config.vocabSize; token += device.kind === "native" ? 1 : 25) {
      const targets = new Uint32Array(scored).fill(token);
      logProbs.set(token, (await pass.forward(weights, { ...batch, targets })).logProbs.slice());
    }
    const chosen = (await pass.forward(weights, batch)).logProbs;
    const loss = -chosen.reduce((sum, logProb) => sum + logProb, 0) / scored;
    const dLogProbs = new Float32Array(scored).fill(-1 / scored);
    await pass.backward(weights, { dLogProbs, dEntropies: new Float32Array(scored) }, grads);
    const unpacked = unpackTensors(grads.layout, await device.readF32(grads.arena));
    return { logProbs, loss, gradients: new Map([...unpacked].map(([name, { data }]) => [name, data])) };
  } finally {
    pass.destroy();
    device.free(grads.arena);
  }
}

function expectGolden(family: ReturnType<typeof read>, got: Computed, part: "" | "lora."): void {
  const { config, golden, value } = family;
  const { scoredRows } = batchOf(value("tokens"), value("lengths"));
  const logits = value(`${part}logits`);
  for (const [i, row] of scoredRows.entries()) {
    const expected = logSoftmax(logits, row, config.vocabSize);
    for (const [token, logProbs] of got.logProbs) {
      expect(Math.abs(logProbs[i]! / expected[token]! - 1), `row ${row}, token ${token}`).toBeLessThan(1e-4);
    }
  }
  expect(Math.abs(got.loss / value(`${part}loss`)[0]! - 1)).toBeLessThan(1e-5);
  // PEFT's names have the wrapped model's prefix, and the adapter's name.
  const own = (name: string) =>
    name.slice(`${part}grad.`.length).replace("base_model.model.", "").replace(".default", "");
  const expected = golden.names().filter((name) => name.startsWith(`${part}grad.`));
  expect([...got.gradients.keys()].sort()).toEqual(expected.map(own).sort());
  for (const name of expected)
    expect(relativeError(got.gradients.get(own(name))!, value(name)), name).toBeLessThan(1e-4);
}

function suite(device: () => Device): void {
  it.each(["smollm2", "llama3", "qwen2", "qwen3"])("computes %s as transformers does", async (name) => {
    const family = read(name);
    const { config, weights } = family;
    const arena = packTensors(parameterLayout(config), (tensor) => weights.read(tensor));
    const uploaded = uploadWeights(device(), config, arena);
    expectGolden(family, await compute(device(), family, uploaded, { lora: null, recompute: false }), "");
    uploaded.free();
  });

  it.each(["qwen2", "qwen3"])("computes %s with an adapter as PEFT does", async (name) => {
    const family = read(name);
    const { config, weights, folder } = family;
    const base = uploadWeights(
      device(),
      config,
      packTensors(parameterLayout(config), (tensor) => weights.read(tensor)),
    );
    const { lora, read: readAdapter } = openAdapterFolder(`${folder}adapter`);
    const arena = device().alloc(adapterLayout(config, lora).length, "f32", "adapters");
    device().write(arena, readAdapter(config));
    const adapted = withAdapters(device(), config, base, { lora, arena });
    const got = await compute(device(), family, adapted, { lora, recompute: false });
    expectGolden(family, got, "lora.");
    expect(await compute(device(), family, adapted, { lora, recompute: true })).toEqual(got);
    base.free();
    device().free(arena);
  });
}

describe("on native", () => {
  const device = makeDevice();
  afterAll(() => device.destroy());
  suite(() => device);
});

onEveryAdapter("model families", suite);
