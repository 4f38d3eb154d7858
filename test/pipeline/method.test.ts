/** That a config's learning method is made of the parts that it names: each value by hand, from a few tokens. */
import { describe, expect, it } from "vitest";
import { algorithmSchema, decoupling } from "../../src/config/algorithm.ts";
import { type LossPart, methodOf, type ScoredTokens } from "../../src/pipeline/method.ts";
import * as decoupled from "../../src/rl/corrections/decoupled.ts";
import * as geometricMask from "../../src/rl/corrections/geometric-mask.ts";
import * as icepop from "../../src/rl/corrections/icepop.ts";
import * as sequenceMask from "../../src/rl/corrections/sequence-mask.ts";
import * as sequenceTis from "../../src/rl/corrections/sequence-tis.ts";
import * as tokenTis from "../../src/rl/corrections/token-tis.ts";

/** Two trajectories of two tokens; the weights that are trained are version 9. */
function tokens(more: Partial<ScoredTokens> = {}): ScoredTokens {
  return {
    logProbs: Float32Array.of(-1, -0.5, -2, -0.25),
    behaviour: Float32Array.of(-1.5, -0.5, -1.75, -1.25),
    entropies: Float32Array.of(0.5, 1, 1.5, 2),
    keptMass: Float32Array.of(1, 0.5, 1, 1),
    advantages: Float32Array.of(1, 1, -1, -1),
    scales: new Float32Array(4).fill(0.25),
    versions: Uint32Array.of(9, 8, 7, 5),
    offsets: Uint32Array.of(0, 2, 4),
    ...more,
  };
}

function lossOf(algorithm: object, more: Partial<ScoredTokens> = {}): LossPart {
  return methodOf(algorithmSchema.parse(algorithm)).loss(tokens(more), 9);
}

it("the config decouples by exactly the corrections that read the proximal policy's ratio", () => {
  const reads = {
    decoupled,
    "token-tis": tokenTis,
    "sequence-tis": sequenceTis,
    icepop,
    "sequence-mask": sequenceMask,
  };
  const all = Object.entries({ ...reads, "geometric-mask": geometricMask });
  expect(all.filter(([, { ratioOf }]) => ratioOf === "proximal").map(([name]) => name)).toEqual(decoupling);
});

const close = (got: Float32Array, expected: readonly number[]) => {
  expect(got.length).toBe(expected.length);
  for (const [i, value] of expected.entries()) expect(got[i]).toBeCloseTo(value, 6);
};

/** π/μ of the four tokens. */
const ratios = [Math.exp(0.5), 1, Math.exp(-0.25), Math.exp(1)];
const kept = [1, 0.5, 1, 1];
const signs = [1, 1, -1, -1];
/** Gradient of -w κ c A ρ by log π, for a weight c ρ of each token. */
const gradient = (weights: readonly number[]) => weights.map((weight, t) => -0.25 * kept[t]! * weight * signs[t]!);

describe("the loss of a config", () => {
  it("is PPO around the behaviour policy by default: clipped above 1.28 upwards and below 0.8 downwards", () => {
    const out = lossOf({});
    close(out.dLogProbs, gradient([0, 1, 0, ratios[3]!]));
    expect(out).toMatchObject({ clipped: 2, masked: 0, klSum: 0, entropySum: 5 });
    expect(out.ratioSum).toBeCloseTo(ratios.reduce((a, b) => a + b));
    expect(out.loss).toBeCloseTo(-0.25 * (1.28 + 0.5 - 0.8 - ratios[3]!), 6);
  });

  it("weighs by proximal/behaviour when decoupled, its own ratio exactly 1: no clip acts", () => {
    const out = lossOf({ correction: { method: "decoupled" } });
    close(out.dLogProbs, gradient(ratios));
    expect(out.clipped).toBe(0);
    close(
      lossOf({ correction: { method: "token-tis", cap: 1.5 } }).dLogProbs,
      gradient(ratios.map((r) => Math.min(r, 1.5))),
    );
    const icepop = lossOf({ correction: { method: "icepop", low: 0.9, high: 2 } });
    close(icepop.dLogProbs, gradient([ratios[0]!, 1, 0, 0]));
    expect(icepop.masked).toBe(2);
  });

  it("interpolates the proximal policy by a token's age: behaviour itself up to one version, then half the way, …", () => {
    const out = lossOf({ clipLow: 1, clipHigh: 100, correction: { method: "decoupled", proximal: "interpolated" } });
    // ρ c = π/μ whatever lies between: only the clip sees where.
    close(out.dLogProbs, gradient(ratios));
    // Age 4: log π_prox is three quarters of the way, so the ratio is exp(0.25) where it was exp(1).
    const clipped = lossOf({ clipLow: 0.05, correction: { method: "decoupled", proximal: "interpolated" } });
    close(clipped.dLogProbs, gradient([0, 1, 0, ratios[3]!]));
  });

  it("masks whole trajectories by the ratio of the current policy, and leaves the objective its own", () => {
    // Products: exp(0.5) and exp(0.75).
    const out = lossOf({ clipLow: 1, clipHigh: 100, correction: { method: "sequence-mask", low: 0.5, high: 2 } });
    close(out.dLogProbs, gradient([ratios[0]!, 1, 0, 0]));
    expect(out.masked).toBe(2);
  });

  it("adds the pull to the reference and the entropy bonus to the surrogate", () => {
    const reference = Float32Array.of(-1.25, -0.5, -1, -0.25);
    const plain = lossOf({});
    const out = lossOf({ kl: { coefficient: 0.1 }, entropyBonus: 0.2 }, { reference });
    const pull = [0.25, 0, -1, 0].map((d, t) => 0.1 * 0.25 * kept[t]! * d);
    close(
      out.dLogProbs,
      Array.from(plain.dLogProbs, (slope, t) => slope + pull[t]!),
    );
    close(out.dEntropies, [-0.05, -0.05, -0.05, -0.05]);
    expect(out.klSum).toBeCloseTo(-0.75);
    expect(out.loss - plain.loss).toBeCloseTo(0.1 * 0.25 * (0.25 ** 2 / 2 + 1 / 2) - 0.2 * 0.25 * 5, 6);
  });
});
