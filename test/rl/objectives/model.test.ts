/**
 * The gradient of every objective through a whole model, by finite differences of its weights: packing, forward pass,
 * objective and backward pass together. The forward pass is the model's own, in float32: steps are wide enough to stand
 * above its rounding, and small beside the distance of every ratio from a corner.
 */
import { afterAll, describe, expect, it } from "vitest";
import { TrainPass } from "../../../src/model/train-pass.ts";
import { Weights } from "../../../src/model/weights.ts";
import { gatherScored, packMicroBatches } from "../../../src/rl/batch.ts";
import { entropy } from "../../../src/rl/objectives/entropy.ts";
import { kl } from "../../../src/rl/objectives/kl.ts";
import type { Objective, Penalty, TokenBatch } from "../../../src/rl/objectives/objective.ts";
import { smallConfig as config, makeDevice, smallWeights, testRandom, uploadWeights } from "../../model/support.ts";
import { trajectory } from "../trajectories.ts";
import { objectives } from "./batches.ts";

const device = makeDevice(1);
afterAll(() => device.destroy());

const trajectories = [
  [0, 0, 1, 1, 0, 0, 1, 1, 1],
  [0, 1, 1, 0, 1],
  [0, 0, 0, 1, 1, 1, 1],
].map((mask, sample) => trajectory({ mask, sample, vocab: config.vocabSize }));
const [microBatch] = packMicroBatches(trajectories, { maxRows: 64 });
const { items, batch: packed } = microBatch!;
const offsets = [0];
for (const { scored } of items) offsets.push(offsets.at(-1)! + scored);

const start = smallWeights(3, 6);
const pass = new TrainPass(device, config, { maxRows: 64, maxScored: 32 });

async function forward(arena: Float32Array) {
  const weights = uploadWeights(device, config, arena);
  const { logProbs, entropies } = await pass.forward(weights, packed);
  return { weights, logProbs: logProbs.slice(), entropies: entropies.slice() };
}

/** Ratios of e^±0.05 and e^±0.6, in turn: inside every band and outside, far from its edges for the step taken. */
function tokenBatch(logProbs: Float32Array, entropies: Float32Array): Omit<TokenBatch, "logProbs" | "entropies"> {
  const drift = [0.05, -0.05, 0.6, -0.6];
  const proximal = logProbs.map((value, t) => value - drift[t % 4]!);
  const random = testRandom(4);
  const draw = (low: number, high: number) => entropies.map(() => low + (high - low) * random.unit());
  return {
    proximal,
    behaviour: proximal,
    reference: logProbs.map((value, t) => value - drift[(t + 1) % 4]!),
    advantages: draw(-2, 2),
    keptMass: draw(0.5, 1),
    weights: draw(0.5, 2),
    scales: gatherScored(items, () => 1 / 16),
    offsets: Uint32Array.from(offsets),
  };
}

/** Loss and gradients of an objective, or of a penalty alone. */
type Term = (batch: TokenBatch) => { loss: number; dLogProbs: Float32Array; dEntropies: Float32Array };

const ofObjective =
  (objective: Objective): Term =>
  (batch) => ({ ...objective(batch), dEntropies: new Float32Array(batch.entropies.length) });

const ofPenalty =
  (penalty: Penalty): Term =>
  (batch) => {
    const n = batch.logProbs.length;
    const gradients = { dLogProbs: new Float32Array(n), dEntropies: new Float32Array(n) };
    return { loss: penalty(batch, gradients), ...gradients };
  };

const terms: { name: string; term: Term; detached?: boolean }[] = [
  ...objectives.map(({ name, objective, detached = false }) => ({ name, term: ofObjective(objective), detached })),
  ...(["k1", "k2", "k3"] as const).map((estimator) => ({
    name: `KL, ${estimator}`,
    term: ofPenalty(kl({ estimator, coefficient: 1 })),
  })),
  { name: "entropy bonus", term: ofPenalty(entropy({ coefficient: 1 })) },
];

describe("gradients through a model", () => {
  for (const { name, term, detached = false } of terms) {
    it(`of ${name}`, async () => {
      const here = await forward(start);
      const rest = tokenBatch(here.logProbs, here.entropies);
      const out = term({ ...here, ...rest });
      const grads = Weights.allocate(device, config, "grads");
      await pass.backward(here.weights, out, grads);
      const gradient = await device.readF32(grads.arena);
      device.free(here.weights.arena);
      device.free(grads.arena);

      const random = testRandom(11);
      const scale = Math.sqrt(gradient.reduce((sum, value) => sum + value * value, 0) / gradient.length);
      // Directions over all weights: one number holds the whole backward pass, well above float32's rounding.
      for (let direction = 0; direction < 4; direction++) {
        const step = start.map(() => (random.unit() < 0.5 ? -1 : 1) * 2 ** -11);
        const loss = async (sign: number) => {
          const moved = start.map((value, i) => value + sign * step[i]!);
          const at = await forward(moved);
          device.free(at.weights.arena);
          // A ratio whose gradient is not taken is held: its denominator moves as the log-probability does.
          const proximal = detached
            ? rest.proximal.map((value, t) => value + at.logProbs[t]! - here.logProbs[t]!)
            : rest.proximal;
          return term({ ...at, ...rest, proximal }).loss;
        };
        const numeric = (await loss(1)) - (await loss(-1));
        const analytic = 2 * gradient.reduce((sum, value, i) => sum + value * step[i]!, 0);
        const size = 2 * scale * Math.sqrt(gradient.length) * 2 ** -11;
        expect(Math.abs(numeric - analytic), `direction ${direction}`).toBeLessThan(0.01 * size);
      }
    });
  }
});
