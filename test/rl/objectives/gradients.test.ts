/** The gradient of every objective and penalty with respect to log-probabilities and entropies, by finite differences. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { entropy } from "../../../src/rl/objectives/entropy.ts";
import { kl } from "../../../src/rl/objectives/kl.ts";
import type { Gradients, Penalty, TokenBatch } from "../../../src/rl/objectives/objective.ts";
import { anyBatch, objectives } from "./batches.ts";

type Loss = (batch: TokenBatch) => number;

const h = 1e-3;

function shifted(values: Float32Array, t: number, by: number): Float32Array {
  return values.map((value, i) => (i === t ? value + by : value));
}

/**
 * Slopes on either side of token t, over the steps that float32 really took: they differ by much across a corner. With
 * `detached` the denominator moves too, so that the ratio, whose gradient is not taken, stays.
 */
function slopes(loss: Loss, batch: TokenBatch, name: "logProbs" | "entropies", t: number, detached: boolean) {
  const moved = (by: number): [at: number, loss: number] => {
    const changed = { ...batch, [name]: shifted(batch[name], t, by) };
    const step = changed[name][t]! - batch[name][t]!;
    return [step, loss(detached ? { ...changed, proximal: shifted(batch.proximal, t, step) } : changed)];
  };
  const here = loss(batch);
  const [below, lossBelow] = moved(-h);
  const [above, lossAbove] = moved(h);
  return {
    left: (here - lossBelow) / -below,
    right: (lossAbove - here) / above,
    central: (lossAbove - lossBelow) / (above - below),
  };
}

/** Compares where the loss has no corner within h; the second derivative of every term is below 20 w |A|. */
function expectGradient(
  loss: Loss,
  batch: TokenBatch,
  gradient: Float32Array,
  name: "logProbs" | "entropies",
  detached = false,
): number {
  let compared = 0;
  for (let t = 0; t < gradient.length; t++) {
    const { left, right, central } = slopes(loss, batch, name, t, detached);
    const size = batch.scales[t]! * Math.max(1, batch.weights[t]!);
    if (Math.abs(left - right) > 50 * h * size) continue;
    expect(Math.abs(gradient[t]! - central), `token ${t}`).toBeLessThan(1e-3 * size);
    compared++;
  }
  return compared;
}

describe("gradients", () => {
  for (const { name, objective, detached } of objectives) {
    it(`of ${name}`, () => {
      let compared = 0;
      let tokens = 0;
      fc.assert(
        fc.property(anyBatch, (batch) => {
          const { dLogProbs } = objective(batch);
          compared += expectGradient((one) => objective(one).loss, batch, dLogProbs, "logProbs", detached);
          tokens += dLogProbs.length;
        }),
        { numRuns: 100 },
      );
      expect(compared).toBeGreaterThan(0.8 * tokens);
    });
  }

  const penalties: [string, Penalty, keyof Gradients, "logProbs" | "entropies"][] = [
    ...(["k1", "k2", "k3"] as const).map((estimator): [string, Penalty, keyof Gradients, "logProbs"] => [
      `KL, ${estimator}`,
      kl({ estimator, coefficient: 0.1 }),
      "dLogProbs",
      "logProbs",
    ]),
    ["entropy bonus", entropy({ coefficient: 0.1 }), "dEntropies", "entropies"],
  ];
  for (const [name, penalty, field, of] of penalties) {
    it(`of the ${name}, added to what is there`, () => {
      fc.assert(
        fc.property(anyBatch, (batch) => {
          const n = batch.logProbs.length;
          const fresh = () => ({ dLogProbs: new Float32Array(n), dEntropies: new Float32Array(n) });
          const gradients = fresh();
          penalty(batch, gradients);
          expect(expectGradient((one) => penalty(one, fresh()), batch, gradients[field], of)).toBe(n);

          const onto = { dLogProbs: new Float32Array(n).fill(1), dEntropies: new Float32Array(n).fill(1) };
          penalty(batch, onto);
          const other = field === "dLogProbs" ? "dEntropies" : "dLogProbs";
          expect(onto[other].every((value) => value === 1)).toBe(true);
          for (let t = 0; t < n; t++) expect(onto[field][t]).toBeCloseTo(1 + gradients[field][t]!, 6);
        }),
      );
    });
  }

  /** Categorical distributions over 5 tokens: expectations are sums, gradients in the logits are exact. */
  it("of KL estimators in expectation: k2's is that of KL(π‖ref), k3's that of KL(ref‖π), k1's is 0", () => {
    const softmax = (logits: number[]) => {
      const sum = logits.reduce((total, logit) => total + Math.exp(logit), 0);
      return logits.map((logit) => Math.exp(logit) / sum);
    };
    const divergence = (p: number[], q: number[]) =>
      p.reduce((sum, value, i) => sum + value * Math.log(value / q[i]!), 0);
    const logits = [0.3, -0.7, 1.1, 0, -1.6];
    const policy = softmax(logits);
    const reference = softmax([-0.5, 0.4, 0.2, 0.9, -0.3]);

    const expected = (estimator: "k1" | "k2" | "k3") => {
      const n = logits.length;
      const ones = new Float32Array(n).fill(1);
      const logProbs = Float32Array.from(policy, Math.log);
      const gradients = { dLogProbs: new Float32Array(n), dEntropies: new Float32Array(n) };
      const loss = kl({ estimator, coefficient: 1 })(
        {
          logProbs,
          behaviour: logProbs,
          proximal: logProbs,
          reference: Float32Array.from(reference, Math.log),
          entropies: ones,
          keptMass: ones,
          advantages: ones,
          weights: ones,
          scales: Float32Array.from(policy),
          offsets: Uint32Array.of(0, n),
        },
        gradients,
      );
      // scales = π make the sums expectations; dlog π(a)/dlogit_i = [a = i] - π(i).
      const total = gradients.dLogProbs.reduce((sum, value) => sum + value, 0);
      return { loss, slopes: logits.map((_, i) => gradients.dLogProbs[i]! - policy[i]! * total) };
    };
    const difference = (of: (p: number[]) => number) =>
      logits.map((_, i) => {
        const at = (by: number) => of(softmax(logits.map((logit, j) => (i === j ? logit + by : logit))));
        return (at(1e-5) - at(-1e-5)) / 2e-5;
      });

    for (const estimator of ["k1", "k3"] as const) {
      expect(expected(estimator).loss).toBeCloseTo(divergence(policy, reference), 6);
    }
    const forward = difference((p) => divergence(p, reference));
    const reverse = difference((p) => divergence(reference, p));
    for (let i = 0; i < logits.length; i++) {
      expect(expected("k1").slopes[i]).toBeCloseTo(0, 6);
      expect(expected("k2").slopes[i]).toBeCloseTo(forward[i]!, 6);
      expect(expected("k3").slopes[i]).toBeCloseTo(reverse[i]!, 6);
    }
  });
});
