/** What holds for every objective: it sums over trajectories in any cut and order, and on policy it is REINFORCE. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyBatch, objectives, select, tokensOf } from "./batches.ts";

describe("objectives", () => {
  for (const { name, objective, perSequence, detached } of objectives) {
    it(`${name}: micro-batches and the order of trajectories change no gradient bit, and the loss is their sum`, () => {
      fc.assert(
        fc.property(anyBatch, fc.nat(), fc.nat(), (batch, cut, turn) => {
          const count = batch.offsets.length - 1;
          const all = Array.from({ length: count }, (_, s) => s);
          const order = all.map((s) => (s + turn) % count).reverse();
          const whole = objective(batch);
          const parts = [order.slice(0, cut % (count + 1)), order.slice(cut % (count + 1))];
          const outs = parts.map((part) => objective(select(batch, part)));
          expect(outs.flatMap(({ dLogProbs }) => [...dLogProbs])).toEqual(
            tokensOf(batch, order).map((t) => whole.dLogProbs[t]),
          );
          expect(outs[0]!.loss + outs[1]!.loss).toBeCloseTo(whole.loss, 12);
          expect(outs[0]!.clipped + outs[1]!.clipped).toBe(whole.clipped);
        }),
      );
    });

    it(`${name}: on policy the gradient is the plain policy gradient -w κ c A${perSequence ? ", its mean over the trajectory" : ""}`, () => {
      fc.assert(
        fc.property(anyBatch, (drawn) => {
          const batch = { ...drawn, proximal: drawn.logProbs, behaviour: drawn.logProbs };
          const plain = Array.from(batch.scales, (w, t) => {
            return -w * batch.keptMass[t]! * batch.weights[t]! * batch.advantages[t]!;
          });
          const expected = [...plain];
          if (perSequence) {
            for (let s = 0; s + 1 < batch.offsets.length; s++) {
              const [start, end] = [batch.offsets[s]!, batch.offsets[s + 1]!];
              const sum = expected.slice(start, end).reduce((total, value) => total + value, 0);
              expected.fill(sum / (end - start), start, end);
            }
          }
          const { loss, dLogProbs, clipped } = objective(batch);
          for (let t = 0; t < plain.length; t++) expect(dLogProbs[t]).toBeCloseTo(expected[t]!, 7);
          expect(clipped).toBe(0);
          // The values: Σ of the above for ratio objectives, of it times log π for detached ones, 2/τ of it for SAPO.
          const value = plain.reduce((sum, slope, t) => {
            const tau = batch.advantages[t]! > 0 ? 1 : 1.05;
            return sum + slope * (detached ? batch.logProbs[t]! : name === "sapo" ? 2 / tau : 1);
          }, 0);
          expect(loss).toBeCloseTo(value, 5);
        }),
      );
    });

    it(`${name}: what a correction masks has no part, and a batch of nothing is 0`, () => {
      fc.assert(
        fc.property(anyBatch, (batch) => {
          const { loss, dLogProbs } = objective({ ...batch, weights: new Float32Array(batch.weights.length) });
          expect(Math.abs(loss)).toBe(0);
          expect(dLogProbs.every((slope) => slope === 0)).toBe(true);
        }),
      );
      const nothing = select(fc.sample(anyBatch, { numRuns: 1, seed: 1 })[0]!, []);
      expect(objective(nothing)).toEqual({ loss: 0, dLogProbs: new Float32Array(0), clipped: 0 });
    });
  }
});
