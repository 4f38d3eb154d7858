/** Options out of range are refused by name; formulas print the constants in force. */
import { describe, expect, it } from "vitest";
import { AgentRLError } from "../../../src/errors.ts";
import * as cispo from "../../../src/rl/objectives/cispo.ts";
import * as dppo from "../../../src/rl/objectives/dppo.ts";
import * as entropy from "../../../src/rl/objectives/entropy.ts";
import * as gspo from "../../../src/rl/objectives/gspo.ts";
import * as kl from "../../../src/rl/objectives/kl.ts";
import * as ppo from "../../../src/rl/objectives/ppo.ts";
import * as sapo from "../../../src/rl/objectives/sapo.ts";

function expectRefused(make: () => unknown, option: string): void {
  let error: unknown;
  try {
    make();
  } catch (thrown) {
    error = thrown;
  }
  expect(error, option).toBeInstanceOf(AgentRLError);
  expect((error as AgentRLError).code).toBe("CONFIG");
  expect((error as AgentRLError).detail.where).toBe(option);
}

describe("options of objectives", () => {
  it("out of range are refused by name", () => {
    const refused: [() => unknown, string][] = [
      [() => ppo.ppo({ clipLow: -0.1 }), "ppo.clipLow"],
      [() => ppo.ppo({ clipLow: 1.1 }), "ppo.clipLow"],
      [() => ppo.ppo({ clipHigh: -0.1 }), "ppo.clipHigh"],
      [() => ppo.ppo({ clipHigh: Number.NaN }), "ppo.clipHigh"],
      [() => ppo.ppo({ dualClip: 1 }), "ppo.dualClip"],
      [() => gspo.gspo({ clipLow: -1 }), "gspo.clipLow"],
      [() => gspo.gspo({ clipHigh: -1 }), "gspo.clipHigh"],
      [() => gspo.gspo({ level: "turn" as "token" }), "gspo.level"],
      [() => cispo.cispo({ clipLow: -1 }), "cispo.clipLow"],
      [() => cispo.cispo({ clipHigh: -1 }), "cispo.clipHigh"],
      [() => sapo.sapo({ tauPos: 0 }), "sapo.tauPos"],
      [() => sapo.sapo({ tauNeg: -1 }), "sapo.tauNeg"],
      [() => dppo.dppo({ divergence: "js" as "kl" }), "dppo.divergence"],
      [() => dppo.dppo({ thresholdLow: -0.1 }), "dppo.thresholdLow"],
      [() => dppo.dppo({ thresholdHigh: -0.1 }), "dppo.thresholdHigh"],
      [() => dppo.dppo({ cap: 0 }), "dppo.cap"],
      [() => kl.kl({ estimator: "k4" as "k3", coefficient: 1 }), "kl.estimator"],
      [() => kl.kl({ estimator: "k3", coefficient: -1 }), "kl.coefficient"],
      [() => entropy.entropy({ coefficient: -1 }), "entropy.coefficient"],
    ];
    for (const [make, option] of refused) expectRefused(make, option);
  });

  it("a KL term without a reference is an error", () => {
    const none = new Float32Array(0);
    const batch = {
      logProbs: none,
      entropies: none,
      behaviour: none,
      keptMass: none,
      proximal: none,
      advantages: none,
      scales: none,
      weights: none,
      offsets: Uint32Array.of(0),
    };
    const penalty = kl.kl({ estimator: "k3", coefficient: 0.1 });
    expect(() => penalty(batch, { dLogProbs: none, dEntropies: none })).toThrow(/TokenBatch.reference/);
  });

  it("are printed in the formula, in one line", () => {
    expect(ppo.formula()).toBe("min(ρ_t A, clip(ρ_t, 0.8, 1.28) A)");
    expect(ppo.formula({ clipLow: 0.1, clipHigh: 0.3, dualClip: 3 })).toBe(
      "min(ρ_t A, clip(ρ_t, 0.9, 1.3) A), at least 3 A where A < 0",
    );
    expect(gspo.formula()).toContain("clip(s, 0.9997, 1.0004)");
    expect(cispo.formula()).toContain("clip(ρ_t, 0, 5)");
    expect(sapo.formula()).toContain("τ = 1 where A > 0, else 1.05");
    expect(dppo.formula()).toContain("A > 0, ρ_t > 1, D > 0.15 or A < 0, ρ_t < 1, D > 0.15; D = |π - q|");
    expect(dppo.formula({ divergence: "kl", cap: 7 })).toMatch(/min\(ρ_t, 7\).*D > 0.05 or.*D = KL/);
    expect(kl.formula({ estimator: "k3", coefficient: 0.01 })).toContain("0.01 (exp(-d_t) - 1 + d_t)");
    expect(entropy.formula({ coefficient: 0.001 })).toBe("0.001 H_t");
  });
});
