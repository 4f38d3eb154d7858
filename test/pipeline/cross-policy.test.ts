/**
 * Whole runs whose turns are taken by the current policy, a stale copy of it, another checkpoint and an endpoint. The laws
 * are those of any run: what was recorded is what a full forward pass computes, to the bit, and a synchronous run is the
 * same run twice, also when it is stopped in between.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { latestCheckpoint, readCheckpoint } from "../../src/pipeline/checkpoint.ts";
import type { RunStep } from "../../src/pipeline/train.ts";
import { failureOf } from "../failure.ts";
import { startEndpoint, type TestEndpoint } from "./eval-endpoint.ts";
import { makeModel, run, runOptions, tasks, temporaryFolder } from "./tiny-run.ts";

const folder = temporaryFolder();
let model = "";
let other = "";
beforeAll(async () => {
  model = await makeModel(folder.path, { steps: 60 });
  mkdirSync(join(folder.path, "other"));
  other = await makeModel(join(folder.path, "other"), { model: { path: model }, steps: 10 });
});
afterAll(() => folder.remove());

let server: TestEndpoint | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

function settings(pool: Record<string, unknown>[], overrides: Record<string, unknown> = {}) {
  return {
    model: { path: model },
    seed: 5,
    steps: 5,
    mode: "sync",
    tasks,
    rollout: { maxSequences: 16, groupSize: 4, groupsPerStep: 4, maxTokensPerTurn: 24, contextLimit: 512 },
    crossPolicy: { pool },
    learner: { microBatchTokens: 700 },
    // A model that knows nothing earns nothing; the bonus gives it a gradient all the same.
    algorithm: { entropyBonus: 0.01 },
    optimizer: { lr: 0.003 },
    verify: { fraction: 1 },
    checkpoint: { every: 0 },
    ...overrides,
  };
}
const stale = { name: "old", kind: "stale", every: 2, probability: 0.3 };
const base = () => ({ name: "base", kind: "checkpoint", path: other, probability: 0.3 });

/** Names of the policies that wrote tokens, over all tasks and steps. */
function policiesOf(steps: readonly RunStep[]): string[] {
  const names = steps.flatMap((step) =>
    Object.values(step.tasks).flatMap((task) => Object.keys(task.policyShare ?? {})),
  );
  return [...new Set(names)].sort();
}

describe("a synchronous run with a stale copy and a checkpoint", () => {
  let one: Awaited<ReturnType<typeof run>>;
  beforeAll(async () => {
    one = await run(runOptions(folder.path, "one", settings([stale, base()])));
  });

  it("gives bit-identical weights twice, with other threads, batch shapes and process counts, and compares every token", async () => {
    const two = await run(
      runOptions(
        folder.path,
        "two",
        settings([stale, base()], {
          rollout: { ...settings([]).rollout, processes: 2, maxSequences: 8, threads: 2 },
          learner: { microBatchTokens: 700, threads: 2 },
        }),
      ),
    );
    expect(two.steps.map((step) => step.checksum)).toEqual(one.steps.map((step) => step.checksum));
    expect(new Set(one.steps.map((step) => step.checksum)).size).toBe(5);
    for (const step of [...one.steps, ...two.steps]) {
      expect(step.mismatch).toBe(0);
      expect(step.mismatchTokens).toBe(step.sampledTokens);
      expect(step.mismatchTokens).toBeGreaterThan(0);
      // Of the current policy's own tokens.
      expect(step.maxLag).toBe(0);
    }
    expect(policiesOf(one.steps)).toEqual(["base", "current", "old"]);
    // Another policy's tokens are trained with the probability that it sampled them with.
    expect(one.steps.every((step) => step.ratio !== 1)).toBe(true);
  });

  it("goes on from a checkpoint between two refreshes to the weights of the run that was never stopped", async () => {
    const stop = new AbortController();
    const first = await run({
      ...runOptions(folder.path, "stopped", settings([stale, base()])),
      signal: stop.signal,
      onEvent: (event) => {
        if (event.type === "step" && event.metrics.step === 3) stop.abort();
      },
    });
    const { state } = readCheckpoint(latestCheckpoint(join(folder.path, "stopped", "checkpoints"))!);
    expect(state).toMatchObject({ step: 3, staleVersions: [2] });
    const rest = await run({ ...runOptions(folder.path, "stopped", settings([stale, base()])), resume: true });
    const checksums = [...first.steps, ...rest.steps].map((step) => step.checksum);
    expect(checksums).toEqual(one.steps.map((step) => step.checksum));
    expect(rest.steps.every((step) => step.mismatch === 0 && step.mismatchTokens === step.sampledTokens)).toBe(true);
    expect(policiesOf(rest.steps)).toEqual(["base", "current", "old"]);
  });
});

describe("an asynchronous run with every kind of policy", () => {
  it("keeps mismatch at 0, the current policy's lag within its bound, and one task to itself", async () => {
    server = await startEndpoint(() => ({ content: "I look it up." }));
    const far = { name: "far", kind: "endpoint", url: server.url, model: "m", probability: 0.2 };
    const { summary, steps } = await run(
      runOptions(
        folder.path,
        "async",
        settings([{ ...stale, every: 3 }, base(), far], {
          mode: "async",
          staleness: { maxLag: 2 },
          steps: 10,
          tasks: [tasks[0], { ...tasks[1], policies: {} }],
        }),
      ),
    );
    expect(summary.mismatch).toBe(0);
    expect(summary.mismatchTokens).toBeGreaterThan(0.1 * summary.sampledTokens);
    expect(summary.maxLag).toBeLessThanOrEqual(2);
    expect(server.requests.length).toBeGreaterThan(0);
    expect(policiesOf(steps)).toEqual(["base", "current", "far", "old"]);
    for (const { tasks: byTask } of steps) {
      expect(byTask.kg?.policyShare).toBeUndefined();
      const { policyShare = {}, policyTrained = {} } = byTask.dbbench ?? {};
      if (byTask.dbbench) expect(Object.values(policyShare).reduce((a, b) => a + b, 0)).toBeCloseTo(1, 12);
      for (const [name, trained] of Object.entries(policyTrained)) expect(trained).toBe(name === "far" ? 0 : 1);
    }
  });
});

describe("a run whose turns nearly all fall to an endpoint", () => {
  it.each([
    [0.9, { entropyBonus: 0.01 }],
    [0.999, { advantage: "gae-turn", taskNormalization: "on" }],
  ])("stays finite where there is nothing to train: probability %f", async (probability, algorithm) => {
    server = await startEndpoint(() => ({ content: "I look it up." }));
    const far = { name: "far", kind: "endpoint", url: server.url, model: "m", probability };
    const name = `far-${probability}`;
    const { steps } = await run(runOptions(folder.path, name, settings([far], { steps: 2, algorithm })));
    for (const { loss, gradNorm, entropy, ratio, sampledTokens, mismatch, mismatchTokens } of steps) {
      for (const value of [loss, gradNorm, entropy, ratio]) expect(Number.isFinite(value)).toBe(true);
      expect(mismatch).toBe(mismatchTokens > 0 ? 0 : null);
      expect(mismatchTokens).toBe(sampledTokens);
    }
    // Nothing at all, or turns of some episodes and none of others.
    const least = Math.min(...steps.map((step) => step.sampledTokens));
    if (probability > 0.99) expect(least).toBe(0);
    else expect(least).toBeGreaterThan(0);
  });

  it("ends with the server's name when that does not answer", async () => {
    server = await startEndpoint(() => ({ status: 401, text: "no such key" }));
    const far = { name: "far", kind: "endpoint", url: server.url, model: "m", probability: 0.5 };
    const error = await failureOf(run(runOptions(folder.path, "deaf", settings([far]))));
    expect(error).toMatchObject({ code: "ENDPOINT" });
    expect(error.message).toContain("The endpoint gives no turn");
    expect(error.message).toContain("no such key");
  });
});

describe("a checkpoint that is not of the trained model's kind", () => {
  it("is refused by name: another architecture, another tokenizer, no folder", async () => {
    mkdirSync(join(folder.path, "wide"));
    const shape = {
      vocabSize: 400,
      hiddenSize: 32,
      intermediateSize: 64,
      layers: 2,
      heads: 2,
      kvHeads: 1,
      headDim: 16,
    };
    const wide = await makeModel(join(folder.path, "wide"), { model: { new: shape }, steps: 1 });
    const refused = (path: string) =>
      failureOf(run(runOptions(folder.path, "refused", settings([{ ...base(), path }]))));
    expect(await refused(wide)).toMatchObject({
      code: "CONFIG",
      detail: { where: wide, got: "intermediateSize 64", expected: expect.stringContaining("intermediateSize 48") },
    });
    mkdirSync(join(folder.path, "words"));
    const words = await makeModel(join(folder.path, "words"), { tasks: [{ name: "os" }], steps: 1 });
    const error = await refused(words);
    expect(error.message).toContain(`Policy "base" of the pool has another tokenizer`);
    expect(() => runOptions(folder.path, "nowhere", settings([{ ...base(), path: "nowhere" }]))).toThrow(
      "crossPolicy.pool.0.path does not exist",
    );
  });
});
