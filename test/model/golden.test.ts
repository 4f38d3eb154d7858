/** The whole model against PyTorch in float64 (test/golden/make-model-golden.py). */
import { describe, expect, it } from "vitest";
import { AdamW } from "../../src/model/optimizer.ts";
import { packTensors, parameterLayout, unpackTensors } from "../../src/model/parameters.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { Weights } from "../../src/model/weights.ts";
import { makeDevice, readGolden, relativeError, uploadWeights } from "./support.ts";

describe.each(["model-tied", "model-untied"])("%s", (name) => {
  const golden = readGolden(name);
  const { config, batch } = golden;
  const arena = packTensors(parameterLayout(config), (tensor) => golden.weights.get(tensor)!);
  const limits = { maxRows: batch.tokens.length, maxScored: batch.scoredRows.length };

  it("gives PyTorch's log-probabilities, entropies, loss and gradients", async () => {
    const device = makeDevice();
    const pass = new TrainPass(device, config, limits);
    const weights = uploadWeights(device, config, arena);
    const grads = Weights.allocate(device, config, "grads");
    const { logProbs, entropies } = await pass.forward(weights, batch);

    // Log-probabilities reach about -30 here: absolute errors of a few float32 ulps of that.
    for (const [i, expected] of golden.logProbs.entries()) expect(Math.abs(logProbs[i]! - expected)).toBeLessThan(3e-5);
    for (const [i, expected] of golden.entropies.entries())
      expect(Math.abs(entropies[i]! - expected)).toBeLessThan(3e-5);
    const loss = golden.coefficients.reduce((sum, c, i) => {
      return sum + c * logProbs[i]! + golden.entropyCoefficients[i]! * entropies[i]!;
    }, 0);
    expect(Math.abs(loss - golden.loss)).toBeLessThan(1e-5 * Math.abs(golden.loss));

    const dLogProbs = Float32Array.from(golden.coefficients);
    const dEntropies = Float32Array.from(golden.entropyCoefficients);
    await pass.backward(weights, { dLogProbs, dEntropies }, grads);
    const got = unpackTensors(parameterLayout(config), await device.readF32(grads.arena));
    expect([...got.keys()].sort()).toEqual([...golden.gradients.keys()].sort());
    const errors = [...got].map(
      ([key, { data }]) => [key, relativeError(data, golden.gradients.get(key)!.data)] as const,
    );
    const worst = errors.reduce((a, b) => (b[1] <= a[1] ? a : b));
    console.log(
      `${name}: largest gradient error relative to its tensor's scale ${worst[1].toExponential(1)} (${worst[0]})`,
    );
    for (const [key, error] of errors) expect(error, key).toBeLessThan(1e-5);
    device.destroy();
  });

  it("takes PyTorch's AdamW steps, clipped and not", async () => {
    const device = makeDevice();
    const weights = uploadWeights(device, config, arena);
    const gradient = packTensors(parameterLayout(config), (tensor) => golden.gradients.get(tensor)!);
    const {
      lr,
      beta1,
      beta2,
      eps,
      weight_decay: weightDecay,
      max_grad_norm: maxGradNorm,
      steps,
      tensors,
    } = golden.adamw;
    const optimizer = new AdamW(device, weights.layout, { beta1, beta2, eps, weightDecay });
    const grads = uploadWeights(device, config, gradient);
    for (let step = 0; step < steps; step++) {
      const gradScale = 1 - 0.3 * step;
      const result = await optimizer.step({ weights, out: weights.arena, grads, lr, maxGradNorm, gradScale });
      expect(result.gradNorm / (gradScale * golden.gradNorm)).toBeCloseTo(1, 5);
      expect(result.clipped).toBe(step === 0);
      expect(result.scale).toBeCloseTo(step === 0 ? 0.8 : gradScale, 5);
    }
    const got = unpackTensors(parameterLayout(config), await device.readF32(weights.arena));
    // A step moves a weight by up to lr = 3e-3; the error is that of float32 beside weights of about 1.
    for (const key of tensors) {
      const expected = golden.updated.get(key)!.data;
      const data = got.get(key)!.data;
      for (let i = 0; i < data.length; i++) expect(Math.abs(data[i]! - expected[i]!)).toBeLessThan(5e-7);
    }
    device.destroy();
  });
});
