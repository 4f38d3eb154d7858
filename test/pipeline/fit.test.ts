/** A run that does not fit is told what would: the settings that are named, taken as they are, fit. */
import { expect, it } from "vitest";
import { trainSchema } from "../../src/config/train.ts";
import { assertRunFits, fittingSettings } from "../../src/pipeline/fit.ts";
import { planRun } from "../../src/pipeline/plan.ts";

/** Qwen2.5-0.5B's shape. */
const model = {
  family: "qwen2" as const,
  vocabSize: 151936,
  hiddenSize: 896,
  intermediateSize: 4864,
  layers: 24,
  heads: 14,
  kvHeads: 2,
  headDim: 64,
  ropeTheta: 1e6,
  rmsNormEps: 1e-6,
  tieWordEmbeddings: true,
  maxPositions: 32768,
  eosTokenIds: [151645],
};

const configOf = (sets: object) =>
  trainSchema.parse({ model: { path: "m" }, steps: 1, tasks: [{ name: "kg" }], device: "native", ...sets });

/** `--set a.b=1 …` as the object that it stands for. */
function parsed(remedy: string): object {
  const out: Record<string, Record<string, unknown>> = {};
  for (const [, section, field, value] of remedy.matchAll(/--set (\w+)\.(\w+)=(\S+)/g)) {
    const text = value!;
    out[section!] = { ...out[section!], [field!]: /^[\d.]+$/.test(text) ? Number(text) : text === "true" || text };
  }
  return out;
}

it.each([24, 12, 6, 3, 2])("names settings that fit into %i GiB, or none", (gibibytes) => {
  const available = gibibytes * 2 ** 30;
  const config = configOf({});
  const { total } = planRun(config, model).memory;
  expect(total).toBeGreaterThan(24 * 2 ** 30);
  const remedy = fittingSettings(config, model, available);
  if (remedy === undefined) {
    expect(gibibytes).toBe(2);
    expect(() => assertRunFits(config, model, available)).toThrow(/smaller model/);
    return;
  }
  expect(planRun(configOf(parsed(remedy)), model).memory.total).toBeLessThanOrEqual(available);
  expect(() => assertRunFits(config, model, available)).toThrow(remedy);
});

it("says nothing to a run that fits", () => {
  const config = configOf({ lora: {} });
  expect(() => assertRunFits(config, model, planRun(config, model).memory.total)).not.toThrow();
});
