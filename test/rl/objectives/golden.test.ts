/** Every objective and penalty against verl's code, or the paper's formula where verl has none: loss and gradient. */
import { describe, expect, it } from "vitest";
import { cispo } from "../../../src/rl/objectives/cispo.ts";
import { dppo } from "../../../src/rl/objectives/dppo.ts";
import { gspo } from "../../../src/rl/objectives/gspo.ts";
import { type KlOptions, kl } from "../../../src/rl/objectives/kl.ts";
import type { Objective, TokenBatch } from "../../../src/rl/objectives/objective.ts";
import { ppo } from "../../../src/rl/objectives/ppo.ts";
import { sapo } from "../../../src/rl/objectives/sapo.ts";
import { goldenBatch, readGolden, relativeDifference, scored } from "./batches.ts";

const golden = readGolden();

function klAlone(options: object): (batch: TokenBatch) => { loss: number; dLogProbs: Float32Array } {
  const penalty = kl(options as KlOptions);
  return (batch) => {
    const n = batch.logProbs.length;
    const gradients = { dLogProbs: new Float32Array(n), dEntropies: new Float32Array(n) };
    return { loss: penalty(batch, gradients), dLogProbs: gradients.dLogProbs };
  };
}

const make: Record<string, (options: object) => Objective | ReturnType<typeof klAlone>> = {
  ppo,
  gspo,
  cispo,
  sapo,
  dppo,
  kl: klAlone,
};

describe("objectives", () => {
  for (const { objective, options, batch, source, loss, dLogProbs } of golden.objectives) {
    it(`${objective} ${JSON.stringify(options)} on the ${batch} batch, as ${source} has it`, () => {
      const input = goldenBatch(golden, batch);
      const out = make[objective]!(options)(input);
      expect(Math.abs(out.loss - loss)).toBeLessThan(1e-6 * Math.abs(loss));
      expect(relativeDifference(out.dLogProbs, scored(golden, dLogProbs))).toBeLessThan(1e-6);
    });
  }

  it("are checked where their clips act and where they do not", () => {
    for (const { objective, options, batch, dLogProbs } of golden.objectives) {
      if (!["ppo", "gspo", "dppo"].includes(objective)) continue;
      // A trajectory's own gradient, of tokens on both sides, is 0 only where all of them are clipped.
      if (objective === "gspo" && batch === "mixed" && !("level" in options)) continue;
      const input = goldenBatch(golden, batch);
      const slopes = scored(golden, dLogProbs);
      const weighted = Array.from(slopes).filter((_, t) => input.advantages[t] !== 0 && input.weights[t] !== 0);
      const zeros = weighted.filter((slope) => slope === 0).length;
      expect(zeros, `${objective} ${JSON.stringify(options)} ${batch}`).toBeGreaterThan(0);
      expect(zeros, `${objective} ${JSON.stringify(options)} ${batch}`).toBeLessThan(weighted.length);
    }
  });
});
