/** Corrections against verl's code or the paper's formula, their laws, and their refusals. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AgentRLError } from "../../../src/errors.ts";
import type { Correction } from "../../../src/rl/corrections/correction.ts";
import * as decoupled from "../../../src/rl/corrections/decoupled.ts";
import * as geometricMask from "../../../src/rl/corrections/geometric-mask.ts";
import * as icepop from "../../../src/rl/corrections/icepop.ts";
import * as none from "../../../src/rl/corrections/none.ts";
import { interpolated, recomputed } from "../../../src/rl/corrections/proximal.ts";
import * as sequenceMask from "../../../src/rl/corrections/sequence-mask.ts";
import * as sequenceTis from "../../../src/rl/corrections/sequence-tis.ts";
import * as tokenTis from "../../../src/rl/corrections/token-tis.ts";
import { ppo } from "../../../src/rl/objectives/ppo.ts";
import {
  anyBatch,
  goldenBatch,
  readGolden,
  relativeDifference,
  scored,
  select,
  tokensOf,
} from "../objectives/batches.ts";

const golden = readGolden();

const make: Record<string, (options: object) => Correction> = {
  none: none.none,
  decoupled: decoupled.decoupled,
  tokenTis: tokenTis.tokenTis,
  sequenceTis: sequenceTis.sequenceTis,
  icepop: icepop.icepop,
  sequenceMask: sequenceMask.sequenceMask,
  geometricMask: geometricMask.geometricMask,
};

describe("corrections", () => {
  for (const { correction, options, source, weights } of golden.corrections) {
    it(`${correction} ${JSON.stringify(options)}, as ${source} has it`, () => {
      const out = make[correction]!(options)(goldenBatch(golden, "mixed"));
      const expected = scored(golden, weights);
      expect(relativeDifference(out.weights, expected)).toBeLessThan(1e-6);
      expect(out.masked).toBe(expected.filter((weight) => weight === 0).length);
    });
  }

  it("are checked on both sides of their bounds", () => {
    for (const { correction, options, weights } of golden.corrections) {
      if (correction === "none" || (correction === "decoupled" && !("cap" in options))) continue;
      const values = scored(golden, weights);
      const bound = correction.endsWith("Tis") ? ((options as { cap?: number }).cap ?? 2) : 0;
      const at = values.filter((weight) => weight === Math.fround(bound)).length;
      expect(at, `${correction} ${JSON.stringify(options)}`).toBeGreaterThan(0);
      expect(at, `${correction} ${JSON.stringify(options)}`).toBeLessThan(values.length);
    }
  });

  for (const [name, factory] of Object.entries(make)) {
    it(`${name}: a trajectory's weights do not depend on what is beside it`, () => {
      fc.assert(
        fc.property(anyBatch, fc.nat(), (batch, turn) => {
          const count = batch.offsets.length - 1;
          const order = Array.from({ length: count }, (_, s) => (s + turn) % count).reverse();
          const whole = factory({})(batch);
          const parts = order.map((s) => factory({})(select(batch, [s])));
          expect(parts.flatMap(({ weights }) => [...weights])).toEqual(
            tokensOf(batch, order).map((t) => whole.weights[t]),
          );
          expect(parts.reduce((sum, { masked }) => sum + masked, 0)).toBe(whole.masked);
        }),
      );
    });

    it(`${name}: every weight is 1 where the three policies are one`, () => {
      fc.assert(
        fc.property(anyBatch, (batch) => {
          const same = { ...batch, behaviour: batch.logProbs, proximal: batch.logProbs };
          const { weights, masked } = factory({})(same);
          expect(weights.every((weight) => weight === 1)).toBe(true);
          expect(masked).toBe(0);
        }),
      );
    });
  }

  it("read the ratio they say they read", () => {
    fc.assert(
      fc.property(anyBatch, (batch) => {
        const other = batch.logProbs.map((value) => value - 3);
        for (const { ratioOf, correction } of [
          { ...decoupled, correction: decoupled.decoupled({ cap: 1.5 }) },
          { ...tokenTis, correction: tokenTis.tokenTis() },
          { ...sequenceTis, correction: sequenceTis.sequenceTis() },
          { ...icepop, correction: icepop.icepop() },
          { ...sequenceMask, correction: sequenceMask.sequenceMask() },
          { ...geometricMask, correction: geometricMask.geometricMask({ low: 0.8, high: 1.2 }) },
        ]) {
          const unread = ratioOf === "proximal" ? { logProbs: other } : { proximal: other };
          expect(correction({ ...batch, ...unread })).toEqual(correction(batch));
        }
      }),
    );
  });

  it("long trajectories do not leave the range of a double", () => {
    const n = 5000;
    const far = (drift: number) => ({
      logProbs: new Float32Array(n).fill(-1),
      proximal: new Float32Array(n).fill(-1),
      behaviour: new Float32Array(n).fill(-1 - drift),
      offsets: Uint32Array.of(0, n),
    });
    expect(
      sequenceTis
        .sequenceTis()(far(1))
        .weights.every((weight) => weight === 2),
    ).toBe(true);
    expect(sequenceMask.sequenceMask()(far(1)).masked).toBe(n);
    expect(sequenceMask.sequenceMask({ low: 0 })(far(-1)).masked).toBe(0);
    expect(geometricMask.geometricMask({ low: 0.5, high: 2 })(far(0.5)).masked).toBe(0);
  });

  it("out of range are refused by name", () => {
    const refused: [() => unknown, string][] = [
      [() => decoupled.decoupled({ cap: 0 }), "decoupled.cap"],
      [() => tokenTis.tokenTis({ cap: -1 }), "tokenTis.cap"],
      [() => tokenTis.tokenTis({ cap: Number.NaN }), "tokenTis.cap"],
      [() => sequenceTis.sequenceTis({ cap: 0 }), "sequenceTis.cap"],
      [() => icepop.icepop({ low: -1 }), "icepop.low"],
      [() => icepop.icepop({ low: 2, high: 1 }), "icepop.high"],
      [() => sequenceMask.sequenceMask({ low: -1 }), "sequenceMask.low"],
      [() => sequenceMask.sequenceMask({ low: 3 }), "sequenceMask.high"],
      [() => sequenceMask.sequenceMask({ low: 0, high: 0 }), "sequenceMask.high"],
      [() => geometricMask.geometricMask({ low: -1 }), "geometricMask.low"],
      [() => geometricMask.geometricMask({ low: 2 }), "geometricMask.high"],
    ];
    for (const [build, option] of refused) {
      let error: unknown;
      try {
        build();
      } catch (thrown) {
        error = thrown;
      }
      expect(error, option).toBeInstanceOf(AgentRLError);
      expect((error as AgentRLError).code).toBe("CONFIG");
      expect((error as AgentRLError).detail.where).toBe(option);
    }
  });

  it("are printed with their constants, in one line", () => {
    expect(none.formula()).toBe("1");
    expect(decoupled.formula()).toBe("π_prox(t) / μ(t)");
    expect(decoupled.formula({ cap: 5 })).toBe("π_prox(t) / μ(t), 0 above 5");
    expect(tokenTis.formula()).toBe("min(π_prox(t) / μ(t), 2)");
    expect(sequenceTis.formula({ cap: 3 })).toContain("Π_t π_prox(t) / μ(t), 3)");
    expect(icepop.formula()).toContain("from 0.5 to 5, else 0");
    expect(sequenceMask.formula({ low: 0 })).toContain("from 0 to 2, else 0");
    expect(geometricMask.formula()).toContain("from 0.999 to 1.001, else 0");
  });
});

describe("the proximal policy", () => {
  it("interpolated, as the formula has it, by the token's age", () => {
    const { versions, current, proximal } = golden.interpolated;
    const { logProbs, behaviour } = goldenBatch(golden, "mixed");
    const got = interpolated(logProbs, behaviour, scored(golden, versions), current);
    expect(relativeDifference(got, scored(golden, proximal))).toBeLessThan(1e-6);
  });

  it("is the behaviour policy at age 0 and 1, half way at 2, and nears the current one with age", () => {
    const at = (age: number) => interpolated(Float32Array.of(-1), Float32Array.of(-3), [10 - age], 10)[0]!;
    expect([at(0), at(1), at(2), at(4), at(8)]).toEqual([-3, -3, -2, -1.5, -1.25]);
    // A policy that is no version of the run.
    expect(at(Number.POSITIVE_INFINITY)).toBe(-1);
  });

  it("recomputed: no clip acts, and the gradient is the importance-weighted policy gradient", () => {
    fc.assert(
      fc.property(anyBatch, (drawn) => {
        const proximal = recomputed(drawn.logProbs);
        expect(proximal).not.toBe(drawn.logProbs);
        const { weights } = decoupled.decoupled()({ ...drawn, proximal });
        const { dLogProbs, clipped } = ppo({ clipLow: 0, clipHigh: 0 })({ ...drawn, proximal, weights });
        expect(clipped).toBe(0);
        for (let t = 0; t < dLogProbs.length; t++) {
          const importance = Math.exp(drawn.logProbs[t]! - drawn.behaviour[t]!);
          const share = drawn.scales[t]! * drawn.keptMass[t]!;
          expect(dLogProbs[t]).toBeCloseTo(-share * importance * drawn.advantages[t]!, 6);
        }
      }),
    );
  });
});
