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
  family: "llama" as const,
  ropeTheta: 10_000,
  rmsNormEps: 1e-6,
  tieWordEmbeddings: true,
  maxPositions: 2048,
  eosTokenIds: [0],
};

function dryRun(overrides: object): string {
  const tasks = [{ name: "dbbench" }, { name: "kg", weight: 3 }];
  const config = trainSchema.parse({ model: { path: "m" }, steps: 20, tasks, ...overrides });
  return formatPlan({
    ...planRun(config, model),
    config,
    toolFormat: "hermes",
    availableMemory: 2 ** 30,
    download: 0,
  });
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

  it("has room for what stale copies stand at, also in groups that are still to be trained", () => {
    const tasks = [{ name: "kg" }];
    const pool = [4, 10].map((every) => ({ name: `${every}`, kind: "stale", every, probability: 0.1 }));
    const config = trainSchema.parse({ model: { path: "m" }, steps: 20, tasks, crossPolicy: { pool } });
    // Lag 4: eight as without; then 1 + ceil(4 / 4) and 1 + ceil(4 / 10).
    expect(planRun(config, model).boardSlots).toBe(8 + 2 + 2);
  });
});

describe("the dry run", () => {
  it("says how the model writes tool calls, and whether that was asked for", () => {
    expect(dryRun({})).toMatch(/tool format +hermes, as the model folder has it/);
    expect(dryRun({ model: { path: "m", toolFormat: "hermes" } })).toMatch(/tool format +hermes\n/);
  });

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

  it("says what filters, loss weights and a task's own settings make of the loss", () => {
    const text = dryRun({
      tasks: [
        { name: "dbbench", lossWeight: 2, algorithm: { advantage: "rloo", incompletePenalty: -1 } },
        { name: "kg" },
      ],
      algorithm: { filters: { zeroVariance: "keep", overlong: "mask", dynamicSampling: { maxFactor: 2.5 } } },
      rollout: { groupsPerStep: 8 },
    });
    expect(text).toContain(
      "w_t  = c / (|o_i| Σ c): c the loss weight of t's task (dbbench 2, kg 1), Σ over the trajectories of the batch",
    );
    expect(text).toContain("episodes that the length or context limit ended have no part in it");
    expect(text).toContain("a batch is 8 groups of unequal r, unless 20 groups do not hold as many");
    expect(text).toContain("A of dbbench = r - mean_others(r)");
    expect(text).toContain("-0.2 (dbbench: -1) where the policy did not complete");
    const plain = dryRun({ tasks: [{ name: "kg" }] });
    expect(plain).toContain("w_t  = 1 / (M |o_i|): M trajectories that carry gradient");
    expect(plain).not.toContain("gradient of one task");
    // One more arena, where there are several tasks.
    expect(text).toMatch(/gradients +([\d.]+ \w+)\n +gradient of one task +\1\n/);
  });

  it("says who takes the turns, whose probability a token is weighed by, and what that takes", () => {
    const crossPolicy = {
      pool: [
        { name: "old", kind: "stale", every: 4, probability: 0.2 },
        { name: "base", kind: "checkpoint", path: "b", probability: 0.05 },
        { name: "far", kind: "endpoint", url: "http://h/v1", model: "m", probability: 0.25 },
      ],
    };
    const tasks = [{ name: "dbbench" }, { name: "kg", policies: { far: 0.1 } }];
    const algorithm = { correction: { method: "decoupled", proximal: "interpolated" } };
    const text = dryRun({ crossPolicy, tasks, algorithm });
    expect(text).toContain(
      "dbbench: current 50.0 %, old (stale, refreshed every 4 updates) 20.0 %, base (checkpoint) 5.0 %, far (endpoint) 25.0 %",
    );
    expect(text).toContain("kg: current 90.0 %, far (endpoint) 10.0 %");
    expect(text).toContain("μ    = the policy that sampled t: the current one, old, base; tokens of far are context");
    expect(text).toContain("d the token's age in versions, ∞ where it is of no version");
    expect(text).toMatch(/ {2}other policies +[\d.]+ [KMG]iB\n/);
    expect(dryRun({})).not.toMatch(/other policies|turns|the policy that sampled/);
  });

  it("names more threads than cores", () => {
    expect(dryRun({ rollout: { threads: 200 } })).toContain("more threads than cores");
  });
});
