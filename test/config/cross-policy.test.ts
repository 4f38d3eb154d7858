/** What a pool of policies may say, and what is refused by name. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { sharesOf } from "../../src/config/cross-policy.ts";
import { loadTrainConfig } from "../../src/config/load.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-pool-"));
  mkdirSync(join(folder, "model"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const stale = { name: "old", kind: "stale", every: 5, probability: 0.2 };
const base = { name: "base", kind: "checkpoint", path: "model", probability: 0.1 };
const far = { name: "far", kind: "endpoint", url: "http://127.0.0.1:1/v1", model: "m", probability: 0.3 };

function load(config: Record<string, unknown>) {
  const file = join(folder, "run.yaml");
  const whole = { model: { path: "model" }, steps: 20, tasks: [{ name: "dbbench" }, { name: "kg" }], ...config };
  writeFileSync(file, stringify(whole));
  return loadTrainConfig(file);
}
const withPool = (pool: unknown[], rest: Record<string, unknown> = {}) => load({ crossPolicy: { pool }, ...rest });
const withTasks = (policies: Record<string, number>) => [{ name: "dbbench", policies }, { name: "kg" }];

describe("a pool of policies", () => {
  it("gives each task its shares: the pool's, or the task's own", () => {
    const { config } = withPool([stale, base, far], { tasks: withTasks({ far: 0.9 }) });
    expect(sharesOf(config, 0)).toEqual([0, 0, 0.9]);
    expect(sharesOf(config, 1)).toEqual([0.2, 0.1, 0.3]);
    expect(sharesOf(withPool([stale], { tasks: withTasks({}) }).config, 0)).toEqual([0]);
    expect(sharesOf(load({}).config, 1)).toEqual([]);
  });

  it("is written into the run folder as it was read", () => {
    const { yaml, config } = withPool([stale, base, far]);
    writeFileSync(join(folder, "again.yaml"), yaml);
    expect(loadTrainConfig(join(folder, "again.yaml")).config).toEqual(config);
    expect(load({}).yaml).not.toContain("crossPolicy");
  });

  it("lets a synchronous run be clipped and corrected, as far as it trains what others sampled", () => {
    const algorithm = { clipLow: 0.1, correction: { method: "sequence-mask" } };
    expect(() => load({ mode: "sync", algorithm })).toThrow("algorithm.clipLow has no effect");
    expect(() => withPool([far], { mode: "sync", algorithm })).toThrow("algorithm.clipLow has no effect");
    for (const member of [stale, base, { ...far, logProbs: true }]) {
      expect(withPool([member], { mode: "sync", algorithm }).config.algorithm.clipLow).toBe(0.1);
    }
  });
});

describe("a pool that cannot be", () => {
  const without = (member: Record<string, unknown>, key: string) =>
    Object.fromEntries(Object.entries(member).filter(([name]) => name !== key));
  it.each<[string, unknown[], string]>([
    ["leaves nothing to the current policy", [stale, { ...far, probability: 0.8 }], "The probabilities leave no turn"],
    ["has a stale copy without an interval", [without(stale, "every")], '"old" of kind stale has no `every`'],
    ["has a copy that never lags", [{ ...stale, every: 1 }], "Wrong value for `crossPolicy.pool.0.every`"],
    ["has a checkpoint without a folder", [without(base, "path")], '"base" of kind checkpoint has no `path`'],
    ["has an endpoint without a model", [without(far, "model")], '"far" of kind endpoint has no `model`'],
    ["has an endpoint without an address", [without(far, "url")], '"far" of kind endpoint has no `url`'],
    ["has an option of another kind", [{ ...stale, model: "m" }], "crossPolicy.pool.0.model has no effect"],
    ["has one name twice", [stale, { ...base, name: "old" }], 'Two policies of the pool are called "old"'],
    ["calls one of it the current policy", [{ ...stale, name: "current" }], '"current" is the policy that is trained'],
    ["has a policy that never plays", [stale, without(base, "probability")], 'Policy "base" has no effect'],
    ["has a probability below 0", [{ ...stale, probability: -0.1 }], "crossPolicy.pool.0.probability"],
    ["is empty", [], "crossPolicy.pool"],
    ["has a folder that is not there", [{ ...base, path: "nowhere" }], "crossPolicy.pool.0.path does not exist"],
  ])("%s", (_, pool, message) => {
    expect(() => withPool(pool)).toThrow(message);
  });

  it("asks a server for log-probabilities under a sampling that they are not of", () => {
    const pool = [{ ...far, logProbs: true }];
    for (const rollout of [{ temperature: 0.8 }, { topP: 0.9 }, { topK: 5 }, { minP: 0.1 }]) {
      expect(() => withPool(pool, { rollout })).toThrow('The log-probabilities of policy "far" cannot be trained with');
    }
  });

  it("is refused in a task's own shares: unknown names, a sum of 1, a map without a pool", () => {
    expect(() => withPool([stale], { tasks: withTasks({ odl: 0.1 }) })).toThrow(
      'There is no policy "odl" in crossPolicy.pool',
    );
    expect(() => withPool([stale, far], { tasks: withTasks({ old: 0.5, far: 0.5 }) })).toThrow(
      "leave no turn of task dbbench",
    );
    expect(() => load({ tasks: withTasks({ old: 0.5 }) })).toThrow("tasks.0.policies.old has no effect");
    const both = [
      { name: "dbbench", policies: { old: 0.5 } },
      { name: "kg", policies: {} },
    ];
    expect(() => withPool([stale], { tasks: both })).toThrow("crossPolicy.pool.0.probability has no effect");
  });
});
