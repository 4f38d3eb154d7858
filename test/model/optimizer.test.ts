import { afterAll, describe, expect, it } from "vitest";
import { initWeights } from "../../src/model/init.ts";
import { AdamW } from "../../src/model/optimizer.ts";
import { parameterLayout } from "../../src/model/parameters.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { Weights } from "../../src/model/weights.ts";
import { makeDevice, packSequences, randomSequence, sameBits, testRandom, uploadWeights } from "./support.ts";

const config = {
  vocabSize: 90,
  hiddenSize: 32,
  intermediateSize: 48,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  family: "llama" as const,
  ropeTheta: 10000,
  rmsNormEps: 1e-5,
  maxPositions: 64,
  tieWordEmbeddings: true,
  eosTokenIds: [],
};
const options = { beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 };
const { length, decayedLength, entries } = parameterLayout(config);
const device = makeDevice();
afterAll(() => device.destroy());

const gradient = (seed: number) =>
  initWeights(config, seed).map((value, i) => (i < decayedLength ? value : value * 0.01));

describe("AdamW", () => {
  it("learns one batch by heart", async () => {
    const batch = packSequences([20, 33, 12].map((n) => randomSequence(config, n, testRandom(n))));
    const scored = batch.scoredRows.length;
    const weights = uploadWeights(device, config, initWeights(config, 1));
    const grads = Weights.allocate(device, config, "grads");
    const pass = new TrainPass(device, config, { maxRows: 65, maxScored: scored });
    const optimizer = new AdamW(device, parameterLayout(config), { ...options, weightDecay: 0 });
    const temperatures = new Float32Array(scored).fill(1);
    const losses: number[] = [];
    for (let step = 0; step < 30; step++) {
      const { logProbs } = await pass.forward(weights, { ...batch, temperatures });
      losses.push(-logProbs.reduce((a, b) => a + b, 0) / scored);
      device.fill(grads.arena, 0);
      const dLogProbs = new Float32Array(scored).fill(-1 / scored);
      await pass.backward(weights, { dLogProbs, dEntropies: new Float32Array(scored) }, grads);
      await optimizer.step({ weights, out: weights.arena, grads, lr: 0.01, maxGradNorm: 1 });
    }
    // An untrained model knows nothing: the loss starts at log(vocabulary).
    expect(Math.abs(losses[0]! - Math.log(config.vocabSize))).toBeLessThan(0.1);
    expect(losses.at(-1)).toBeLessThan(0.5);
    pass.destroy();
    optimizer.destroy();
  });

  it("writes into another arena and leaves the one it read", async () => {
    const before = initWeights(config, 2);
    const weights = uploadWeights(device, config, before);
    const inPlace = uploadWeights(device, config, before);
    const grads = uploadWeights(device, config, gradient(3));
    const slot = device.alloc(length);
    const step = { grads, lr: 0.01, maxGradNorm: Infinity };
    await new AdamW(device, parameterLayout(config), options).step({ ...step, weights, out: slot });
    await new AdamW(device, parameterLayout(config), options).step({ ...step, weights: inPlace, out: inPlace.arena });
    expect(sameBits(await device.readF32(weights.arena), before)).toBe(true);
    expect(sameBits(await device.readF32(slot), await device.readF32(inPlace.arena))).toBe(true);
    expect(sameBits(await device.readF32(slot), before)).toBe(false);
  });

  it("decays matrices only, and never moves padding", async () => {
    const before = initWeights(config, 2);
    const weights = uploadWeights(device, config, before);
    const grads = Weights.allocate(device, config, "zero gradient");
    await new AdamW(device, parameterLayout(config), options).step({
      weights,
      out: weights.arena,
      grads,
      lr: 0.5,
      maxGradNorm: 1,
    });
    const after = await device.readF32(weights.arena);
    const covered = new Uint8Array(length);
    for (const { offset, length: size, decay } of entries) {
      covered.fill(1, offset, offset + size);
      for (let i = offset; i < offset + size; i++) {
        // 1 - lr * weightDecay = 0.95
        if (decay) expect(Math.abs(after[i]! - 0.95 * before[i]!)).toBeLessThanOrEqual(1e-8);
        else expect(after[i]).toBe(before[i]);
      }
    }
    expect(after.every((value, i) => covered[i] === 1 || value === 0)).toBe(true);
  });

  it("goes on bit for bit from a saved state", async () => {
    const run = async (interrupt: boolean) => {
      const weights = uploadWeights(device, config, initWeights(config, 4));
      let optimizer = new AdamW(device, parameterLayout(config), options);
      for (let step = 0; step < 4; step++) {
        if (interrupt && step === 2) {
          const state = await optimizer.state();
          expect(state.step).toBe(2);
          optimizer.destroy();
          optimizer = new AdamW(device, parameterLayout(config), options);
          optimizer.load(state);
        }
        const grads = uploadWeights(device, config, gradient(step));
        await optimizer.step({ weights, out: weights.arena, grads, lr: 0.01, maxGradNorm: 1 });
      }
      return device.readF32(weights.arena);
    };
    expect(sameBits(await run(true), await run(false))).toBe(true);
    const state = { step: 1, m: new Float32Array(3), v: new Float32Array(3) };
    expect(() => new AdamW(device, parameterLayout(config), options).load(state)).toThrow(/does not belong/);
  });

  it.each([NaN, Infinity])("stops at a gradient of %d and changes nothing", async (value) => {
    const before = initWeights(config, 5);
    const weights = uploadWeights(device, config, before);
    const bad = gradient(6);
    bad[123] = value;
    const optimizer = new AdamW(device, parameterLayout(config), options);
    const step = { weights, out: weights.arena, lr: 0.01, maxGradNorm: 1 };
    await expect(optimizer.step({ ...step, grads: uploadWeights(device, config, bad) })).rejects.toMatchObject({
      code: "NOT_FINITE",
      message: expect.stringContaining("not finite"),
    });
    expect(sameBits(await device.readF32(weights.arena), before)).toBe(true);
    const { step: taken, m, v } = await optimizer.state();
    expect(taken).toBe(0);
    expect([...m, ...v].every((moment) => moment === 0)).toBe(true);
  });

  it("stops where the updated weights are not finite, and leaves those before alone", async () => {
    const before = initWeights(config, 5);
    const weights = uploadWeights(device, config, before);
    const out = device.alloc(before.length, "f32", "out");
    const optimizer = new AdamW(device, parameterLayout(config), { ...options, weightDecay: 3e38 });
    const grads = uploadWeights(device, config, gradient(6));
    await expect(optimizer.step({ weights, out, grads, lr: 1000, maxGradNorm: 1 })).rejects.toMatchObject({
      code: "NOT_FINITE",
      message: expect.stringMatching(/updated weights are not finite[\s\S]*weightDecay/),
    });
    expect(sameBits(await device.readF32(weights.arena), before)).toBe(true);
    expect((await optimizer.state()).step).toBe(0);
  });
});
