import { describe, expect, it } from "vitest";
import { formatPlan } from "../../src/cli/plan.ts";
import { trainSchema } from "../../src/config/train.ts";
import type { ModelConfig } from "../../src/model/config.ts";
import { planRun } from "../../src/pipeline/plan.ts";

const model: ModelConfig = {
  vocabSize: 1024,
  hiddenSize: 64,
  intermediateSize: 128,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  ropeTheta: 10_000,
  rmsNormEps: 1e-6,
  tieWordEmbeddings: true,
  maxPositions: 2048,
  eosTokenIds: [0],
};

function dryRun(overrides: object): string {
  const tasks = [{ name: "dbbench" }, { name: "kg", weight: 3 }];
  const config = trainSchema.parse({ model: { path: "m" }, steps: 20, tasks, ...overrides });
  return formatPlan({ ...planRun(config, model), config, availableMemory: 2 ** 30 });
}

describe("the weight board of a run", () => {
  it.each([
    [2, 6],
    [60, 64],
    // A board has at most 64 slots; an unbounded lag is trained all the same.
    [5000, 64],
  ])("has for a lag of %i at most %i slots", (maxLag, slots) => {
    const tasks = [{ name: "kg" }];
    const config = trainSchema.parse({ model: { path: "m" }, steps: 20, tasks, staleness: { maxLag } });
    expect(planRun(config, model).boardSlots).toBe(slots);
  });
});

describe("the dry run", () => {
  it("says what the config comes to, the memory in parts and the loss in force", () => {
    const text = dryRun({ rollout: { processes: 2, groupSize: 4, groupsPerStep: 6 }, staleness: { maxLag: 3 } });
    // 1024·64 embedding + 2 layers of 64·64 (q), 2·64·32 (k, v), 64·64 (o), 3·64·128 (MLP) + 5 norms of 64.
    expect(text).toContain(
      `${(1024 * 64 + 2 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 128) + 5 * 64).toLocaleString("en")} parameters`,
    );
    expect(text).toContain("async, tokens at most 3 weight versions old");
    expect(text).toContain("dbbench (train) 25.0 %, kg (train) 75.0 %");
    expect(text).toContain("6 groups of 4 episodes; 20 steps");
    expect(text).toContain("2 × 1 rollout + 1 learner");
    expect(text).toMatch(/ {2}total +[\d.]+ [KMG]iB\n {2}free now +1\.0 GiB/);
    expect(text).toContain("clip(ρ_t, 0.8, 1.28)");
    expect(text).toContain("    groupSize: 4");
  });

  it("names more threads than cores", () => {
    expect(dryRun({ rollout: { threads: 200 } })).toContain("more threads than cores");
  });
});
