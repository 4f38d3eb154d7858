/** The critic's head on every device: its values, and the gradient of its loss, its own and the model's. */
import { describe, expect, it } from "vitest";
import type { Device } from "../../src/device/device.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { ValueHead } from "../../src/model/value-head.ts";
import { Weights } from "../../src/model/weights.ts";
import { packMicroBatches } from "../../src/rl/batch.ts";
import { onEveryAdapter } from "../device/webgpu/adapters.ts";
import { trajectory } from "../rl/trajectories.ts";
import { smallConfig as config, makeDevice, smallWeights, testRandom, uploadWeights } from "./support.ts";

const dim = config.hiddenSize;
const arena = smallWeights(3, 6);
const [micro] = packMicroBatches(
  [
    [0, 0, 1, 1, 0, 0, 1, 1, 1],
    [0, 1, 1, 0, 1],
  ].map((mask, sample) => trajectory({ mask, sample, vocab: config.vocabSize })),
  { maxRows: 64 },
);
const batch = micro!.batch;
const scored = batch.scoredRows.length;
const random = testRandom(8);
/** The bias stands where a GPU can bind it: at 64 floats. */
const places = [...Array(dim).keys(), 64];
const head = new Float32Array(65);
for (const place of places) head[place] = random.unit() - 0.5;
const returns = Float32Array.from({ length: scored }, () => 2 * random.unit() - 1);

/** Σ ½ (V - R)² and its gradients, by the head and by the model's weights. */
async function lossOf(device: Device, weights: Float32Array, ofHead: Float32Array, trunk: number) {
  const valueHead = new ValueHead(device, config, { maxScored: 32, trunk });
  const zeros = new Float32Array(65);
  valueHead.load({ weights: ofHead, m: zeros, v: zeros });
  const pass = new TrainPass(device, config, { maxRows: 64, maxScored: 32 }, valueHead);
  const uploaded = uploadWeights(device, config, weights);
  const grads = Weights.allocate(device, config, "grads");
  const { values } = await pass.forward(uploaded, batch);
  const none = new Float32Array(scored);
  const dValues = values.map((value, t) => value - returns[t]!);
  await pass.backward(uploaded, { dLogProbs: none, dEntropies: none, dValues }, grads);
  const loss = dValues.reduce((sum, error) => sum + 0.5 * error * error, 0);
  const out = {
    loss,
    values: values.slice(),
    head: await valueHead.gradients(),
    model: (await device.readF32(grads.arena)).slice(),
  };
  pass.destroy();
  valueHead.destroy();
  uploaded.free();
  grads.free();
  return out;
}

function laws(device: () => Device): void {
  it("says 0 of everything at first", async () => {
    const { values } = await lossOf(device(), arena, new Float32Array(65), 0);
    expect(values).toEqual(new Float32Array(scored));
  });

  it("has the gradient of its own weights that finite differences give", async () => {
    const { head: gradient } = await lossOf(device(), arena, head, 0);
    for (const i of [0, 5, dim - 1, 64]) {
      // The loss is quadratic in the head: central differences are exact but for rounding.
      const step = 0.25;
      const at = (by: number) =>
        lossOf(
          device(),
          arena,
          Float32Array.from(head, (w, j) => w + (j === i ? by : 0)),
          0,
        );
      const slope = ((await at(step)).loss - (await at(-step)).loss) / (2 * step);
      expect(gradient[i]).toBeCloseTo(slope, 3);
    }
  });

  it("gives the model's layers the gradient that finite differences give, times the trunk's share", async () => {
    const [whole, half, none] = [
      await lossOf(device(), arena, head, 1),
      await lossOf(device(), arena, head, 0.5),
      await lossOf(device(), arena, head, 0),
    ];
    expect(none!.model.every((slope) => slope === 0)).toBe(true);
    expect([...half!.head]).toEqual([...whole!.head]);
    // Along the gradient itself, where the difference stands highest above float32's rounding.
    const norm = Math.hypot(...whole!.model);
    const along = async (by: number) => {
      const moved = arena.map((w, i) => w + (by * whole!.model[i]!) / norm);
      return (await lossOf(device(), moved, head, 1)).loss;
    };
    const step = 0.004;
    expect(((await along(step)) - (await along(-step))) / (2 * step) / norm).toBeCloseTo(1, 2);
    const scale = Math.max(...whole!.model.map(Math.abs));
    for (const [i, slope] of half!.model.entries()) {
      expect(Math.abs(slope - whole!.model[i]! / 2)).toBeLessThan(1e-5 * scale);
    }
  });

  it("moves by AdamW, and its state comes back", async () => {
    const valueHead = new ValueHead(device(), config, { maxScored: 8, trunk: 0 });
    const hidden = device().alloc(2 * dim, "f32", "hidden");
    device().write(hidden, new Float32Array(2 * dim).fill(1));
    valueHead.zeroGradients();
    valueHead.backward(hidden, Float32Array.of(0.5, -2), hidden, 2);
    // Every gradient is -1.5: a first step of AdamW moves every weight by lr, against its sign.
    expect(await valueHead.gradientNorm()).toBeCloseTo(1.5 * Math.sqrt(dim + 1), 5);
    valueHead.step({
      lr: 0.1,
      beta1: 0.9,
      beta2: 0.95,
      eps: 1e-8,
      norm: 1.5 * Math.sqrt(dim + 1),
      maxGradNorm: 100,
      step: 1,
    });
    const state = await valueHead.state();
    for (const place of places) expect(state.weights[place]).toBeCloseTo(0.1, 5);
    const other = new ValueHead(device(), config, { maxScored: 8, trunk: 0 });
    other.load(state);
    expect(await other.state()).toEqual(state);
    // 16 inputs of 1 and the bias.
    expect((await other.forward(hidden, 2))[1]).toBeCloseTo(0.1 * (dim + 1), 5);
    expect(() => other.load({ ...state, m: new Float32Array(3) })).toThrow(/critic's state does not belong/);
  });

  it("refuses a gradient that is not finite", async () => {
    const valueHead = new ValueHead(device(), config, { maxScored: 8, trunk: 0 });
    const hidden = device().alloc(dim, "f32", "hidden");
    valueHead.backward(hidden, Float32Array.of(Number.NaN), hidden, 1);
    await expect(valueHead.gradientNorm()).rejects.toMatchObject({ code: "NOT_FINITE" });
  });
}

const native = makeDevice(2);
describe("the value head on native", () => laws(() => native));
onEveryAdapter("the value head", (device) => laws(device));
