/** The clipped surrogate by hand: both sides of both clips, the dual clip, the kept mass, the entropy bonus. */
import { describe, expect, it } from "vitest";
import { entropy } from "../../../src/rl/objectives/entropy.ts";
import type { TokenBatch } from "../../../src/rl/objectives/objective.ts";
import { ppo } from "../../../src/rl/objectives/ppo.ts";

function batch(logProbs: number[], proximal: number[], advantages: number[], denominator: number): TokenBatch {
  const n = logProbs.length;
  const ones = new Float32Array(n).fill(1);
  return {
    logProbs: Float32Array.from(logProbs),
    proximal: Float32Array.from(proximal),
    behaviour: Float32Array.from(proximal),
    advantages: Float32Array.from(advantages),
    entropies: ones,
    keptMass: ones,
    weights: ones,
    scales: new Float32Array(n).fill(1 / denominator),
    offsets: Uint32Array.of(0, n),
  };
}

describe("ppo", () => {
  // By hand: ρ = e^0.5 ≈ 1.6487. A = 1: min(1.6487, 1.28) = 1.28, clipped. A = -1: min(-1.6487, -1.28) = -1.6487, kept.
  // ρ = e^-0.5 ≈ 0.6065. A = 1: 0.6065, kept. A = -1: min(-0.6065, -0.8) = -0.8, clipped.
  it("gives the hand-computed loss and gradient on both sides of both clips", () => {
    const out = ppo()(batch([-0.5, -0.5, -1.5, -1.5], [-1, -1, -1, -1], [1, -1, 1, -1], 8));
    const up = Math.exp(0.5);
    const down = Math.exp(-0.5);
    expect(out.loss).toBeCloseTo((-1.28 + up - down + 0.8) / 8, 6);
    expect(out.clipped).toBe(2);
    expect([...out.dLogProbs]).toEqual([0, Math.fround(up / 8), Math.fround(-down / 8), 0]);
  });

  // ρ = e^1.5 ≈ 4.4817 and e^0.5: of A = -1 the first is bounded by 3, the second is not; of A = 1 neither.
  it("bounds the ratio of what turned out badly by the dual clip", () => {
    const out = ppo({ dualClip: 3 })(batch([-0.5, -0.5, -0.5], [-2, -1, -2], [-1, -1, 1], 2));
    expect(out.loss).toBeCloseTo((3 + Math.exp(0.5) - 1.28) / 2, 6);
    expect(out.clipped).toBe(2);
    expect([...out.dLogProbs]).toEqual([0, Math.fround(Math.exp(0.5) / 2), 0]);
  });

  it("weighs a token by the kept mass and the correction's weight, clip and ratio unchanged", () => {
    const whole = batch([-0.3, -0.5, -0.3], [-0.3, -1, -0.3], [2, 1, 2], 2);
    const cut = { ...whole, keptMass: Float32Array.of(0.25, 0.5, 1), weights: Float32Array.of(1, 1, 0.75) };
    const out = ppo()(cut);
    // By hand: κ c A on policy; the second token's ratio e^0.5 is clipped at 1.28.
    expect([...out.dLogProbs]).toEqual([-0.25, 0, -0.75]);
    expect(out.loss).toBeCloseTo(-(0.25 * 2 + 0.5 * 1.28 + 0.75 * 2) / 2, 7);
    expect(out.clipped).toBe(1);
  });

  it("with an entropy bonus beside it: the scaled negative of the bonus, whatever the correction", () => {
    const input = { ...batch([-1, -1], [-1, -1], [1, 1], 2), entropies: Float32Array.of(1, 2) };
    const gradients = { dLogProbs: new Float32Array(2), dEntropies: new Float32Array(2) };
    const masked = { ...input, weights: new Float32Array(2) };
    expect(entropy({ coefficient: 0.01 })(masked, gradients)).toBeCloseTo((-0.01 * 3) / 2, 12);
    expect([...gradients.dEntropies]).toEqual([Math.fround(-0.005), Math.fround(-0.005)]);
    expect([...gradients.dLogProbs]).toEqual([0, 0]);
  });
});
