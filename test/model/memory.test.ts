import { describe, expect, it } from "vitest";
import type { Device, DType } from "../../src/device/device.ts";
import { InferencePass } from "../../src/model/inference-pass.ts";
import { assertFitsMemory, estimateMemory, formatBytes } from "../../src/model/memory.ts";
import { AdamW } from "../../src/model/optimizer.ts";
import { parameterLayout } from "../../src/model/parameters.ts";
import { TrainPass } from "../../src/model/train-pass.ts";

const config = {
  vocabSize: 1024,
  hiddenSize: 128,
  intermediateSize: 384,
  layers: 4,
  heads: 4,
  kvHeads: 2,
  headDim: 32,
  family: "llama" as const,
  ropeTheta: 10000,
  rmsNormEps: 1e-5,
  maxPositions: 2048,
  tieWordEmbeddings: true,
  eosTokenIds: [],
};

/** Counts bytes; computes nothing. */
function countingDevice(kvCache: "f32" | "f16" = "f32"): { device: Device; bytes(): number } {
  let bytes = 0;
  const device = {
    storage: { weights: "f32", kvCache },
    alloc(length: number, dtype: DType = "f32", label = "") {
      bytes += (dtype === "f16" ? 2 : 4) * length;
      return { length, dtype, label };
    },
    write() {},
  };
  return { device: device as unknown as Device, bytes: () => bytes };
}

describe("estimateMemory", () => {
  const limits = { maxRows: 4096, maxScored: 1000, pages: 256, boardSlots: 4, inferenceRows: 128, engines: 2 };
  const part = (name: string) => estimateMemory(config, limits).parts.find((p) => p.name === name)!.bytes;

  it("is what the passes allocate", () => {
    const train = countingDevice();
    new TrainPass(train.device, config, limits);
    expect(part("training activations") + part("training scratch")).toBe(train.bytes());

    const sharing = { ...limits, maxSpread: 3 * 4096 };
    const trainSharing = countingDevice();
    new TrainPass(trainSharing.device, config, sharing);
    const { parts } = estimateMemory(config, sharing);
    const training = parts.filter(({ name }) => /^training/.test(name));
    expect(training.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(trainSharing.bytes());
    expect(trainSharing.bytes()).toBeGreaterThan(train.bytes());

    const inference = countingDevice();
    new InferencePass(inference.device, config, { maxRows: 128, pages: 256 });
    // All but the page table, which grows on demand.
    expect(part("KV cache") + part("generation scratch")).toBe(2 * (inference.bytes() - 4 * 256));

    const optimizer = countingDevice();
    new AdamW(optimizer.device, parameterLayout(config), { beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0 });
    expect(part("optimizer moments")).toBe(optimizer.bytes());
    expect(part("weight board")).toBe(4 * 4 * parameterLayout(config).length);
    // By hand: 4 layers, keys and values, 256 pages of 32 keys, 2 heads of 32 floats, 2 engines.
    expect(part("KV cache")).toBe(4 * 2 * 256 * 32 * 2 * 32 * 4 * 2);
  });

  it("halves a cache in f16", () => {
    const half = { ...limits, kvCache: "f16" } as const;
    const parts = new Map(estimateMemory(config, half).parts.map(({ name, bytes }) => [name, bytes]));
    expect(parts.get("KV cache")).toBe(part("KV cache") / 2);
    const inference = countingDevice("f16");
    new InferencePass(inference.device, config, { maxRows: 128, pages: 256 });
    expect(parts.get("KV cache")! + parts.get("generation scratch")!).toBe(2 * (inference.bytes() - 4 * 256));
  });

  it("sums its parts and leaves out what a mode does not use", () => {
    const { parts, total } = estimateMemory(config, limits);
    expect(total).toBe(parts.reduce((sum, { bytes }) => sum + bytes, 0));
    const names = estimateMemory(config, { maxRows: 0, maxScored: 0, pages: 8, boardSlots: 1 }).parts.map(
      (p) => p.name,
    );
    expect(names).toEqual(["weight board", "KV cache", "generation scratch"]);
  });

  it("ends with what is needed, what there is, and what takes most", () => {
    const huge = { ...config, layers: 80, hiddenSize: 8192, intermediateSize: 28672, vocabSize: 128256 };
    const estimate = estimateMemory(huge, limits);
    expect(() => assertFitsMemory(estimate, 8 * 2 ** 30)).toThrow(/optimizer moments[\s\S]*needed[\s\S]*8\.0 GiB/);
    expect(() => assertFitsMemory(estimate, estimate.total)).not.toThrow();
    expect(() => assertFitsMemory(estimate)).toThrow(/does not fit/);
  });

  it("writes sizes in binary units", () => {
    expect([0, 1023, 1536, 5 * 2 ** 20].map(formatBytes)).toEqual(["0 B", "1023 B", "1.5 KiB", "5.0 MiB"]);
  });
});
