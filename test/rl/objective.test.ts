import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clippedSurrogate } from "../../src/rl/objective.ts";

const config = { clipLow: 0.2, clipHigh: 0.28, entropyBonus: 0.01 };

function input(
  logProbs: number[],
  behaviour: number[],
  advantages: number[],
  entropies: number[],
  denominator: number,
) {
  return {
    keptMass: new Float32Array(logProbs.length).fill(1),
    logProbs: Float32Array.from(logProbs),
    behaviour: Float32Array.from(behaviour),
    advantages: Float32Array.from(advantages),
    entropies: Float32Array.from(entropies),
    scales: new Float32Array(logProbs.length).fill(1 / denominator),
  };
}

describe("clippedSurrogate", () => {
  // By hand: ρ = e^0.5 ≈ 1.6487. A = 1: min(1.6487, 1.28) = 1.28, clipped. A = −1: min(−1.6487, −1.28) = −1.6487, kept.
  // ρ = e^−0.5 ≈ 0.6065. A = 1: 0.6065, kept. A = −1: min(−0.6065, −0.8) = −0.8, clipped.
  it("gives the hand-computed loss and gradient on both sides of both clips", () => {
    const out = clippedSurrogate(input([-0.5, -0.5, -1.5, -1.5], [-1, -1, -1, -1], [1, -1, 1, -1], [0, 0, 0, 0], 8), {
      ...config,
      entropyBonus: 0,
    });
    const up = Math.exp(0.5);
    const down = Math.exp(-0.5);
    expect(out.loss).toBeCloseTo((-1.28 + up - down + 0.8) / 8, 6);
    expect(out.clipped).toBe(2);
    expect([...out.dLogProbs]).toEqual([0, Math.fround(up / 8), Math.fround(-down / 8), 0]);
  });

  it("is REINFORCE on policy: gradient −A/N, ratio exactly 1", () => {
    const out = clippedSurrogate(input([-0.3, -2], [-0.3, -2], [1.5, -0.5], [1, 2], 2), config);
    expect([...out.dLogProbs]).toEqual([-0.75, 0.25]);
    expect(out.ratioSum).toBe(2);
    expect(out.clipped).toBe(0);
    expect([...out.dEntropies]).toEqual([Math.fround(-0.005), Math.fround(-0.005)]);
    expect(out.loss).toBeCloseTo((-1.5 + 0.5 - 0.01 * 3) / 2, 7);
  });

  it("agrees with finite differences wherever the loss is smooth", () => {
    const value = fc.double({ min: -2, max: 0, noNaN: true });
    fc.assert(
      fc.property(value, value, fc.double({ min: -3, max: 3, noNaN: true }), (logProb, behaviour, advantage) => {
        const ratio = Math.exp(logProb - behaviour);
        fc.pre(Math.abs(ratio - 0.8) > 0.02 && Math.abs(ratio - 1.28) > 0.02);
        const loss = (at: number) => {
          const r = Math.exp(at - Math.fround(behaviour));
          const bounded = Math.min(Math.max(r, 0.8), 1.28);
          return -Math.min(r * Math.fround(advantage), bounded * Math.fround(advantage)) / 3;
        };
        const h = 1e-5;
        const at = Math.fround(logProb);
        const out = clippedSurrogate(input([logProb], [behaviour], [advantage], [0], 3), {
          ...config,
          entropyBonus: 0,
        });
        expect(out.dLogProbs[0]).toBeCloseTo((loss(at + h) - loss(at - h)) / (2 * h), 4);
      }),
    );
  });

  it("weighs a token that was drawn from a cut distribution by the kept mass, clip and ratio unchanged", () => {
    const whole = input([-0.3, -0.5], [-0.3, -1], [2, 1], [0, 0], 2);
    const cut = { ...whole, keptMass: Float32Array.of(0.25, 0.5) };
    const out = clippedSurrogate(cut, { ...config, entropyBonus: 0 });
    // By hand: κ A on policy; the second token's ratio e^0.5 is clipped at 1.28.
    expect([...out.dLogProbs]).toEqual([-0.25, 0]);
    expect(out.loss).toBeCloseTo(-(0.25 * 2 + 0.5 * 1.28) / 2, 7);
    expect(out.clipped).toBe(1);
  });

  it("does not depend on how a batch is split", () => {
    const n = 9;
    const make = (f: (i: number) => number) => Array.from({ length: n }, (_, i) => f(i));
    const all = [make((i) => -0.1 * i), make((i) => -0.05 * i - 0.2), make((i) => (i % 3) - 1), make((i) => i / 10)];
    const whole = clippedSurrogate(input(all[0]!, all[1]!, all[2]!, all[3]!, n), config);
    const parts = [
      [0, 4],
      [4, 9],
    ].map(([from, to]) => {
      const cut = all.map((values) => values.slice(from, to));
      return clippedSurrogate(input(cut[0]!, cut[1]!, cut[2]!, cut[3]!, n), config);
    });
    expect(parts.flatMap((part) => [...part.dLogProbs])).toEqual([...whole.dLogProbs]);
    expect(parts[0]!.loss + parts[1]!.loss).toBeCloseTo(whole.loss, 12);
  });
});
