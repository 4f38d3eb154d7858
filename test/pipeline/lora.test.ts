/** Runs that train adapters on a frozen model: real processes, the frozen weights between them in shared memory. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { NativeDevice } from "../../src/device/native.ts";
import { loadModelFolder } from "../../src/model/files.ts";
import { loadCompute } from "../../src/model/load.ts";
import { parameterLayout } from "../../src/model/parameters.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { exportModel } from "../../src/pipeline/export-model.ts";
import { killedAfter, makeModel, run, runOptions, tasks, temporaryFolder } from "./tiny-run.ts";

const folder = temporaryFolder();
let model: string;
beforeAll(async () => {
  model = await makeModel(folder.path);
});
afterAll(() => folder.remove());

const settings = (more = {}) => ({
  model: { path: model },
  lora: { rank: 4, targets: ["q_proj", "v_proj", "down_proj"] },
  device: "native",
  mode: "sync",
  steps: 4,
  tasks,
  rollout: { groupSize: 2, groupsPerStep: 3, maxSequences: 6, maxTokensPerTurn: 12, contextLimit: 256 },
  // A model that knows nothing earns nothing; the bonus gives it a gradient all the same.
  algorithm: { entropyBonus: 0.01, kl: { coefficient: 0.01 } },
  verify: { fraction: 1 },
  optimizer: { lr: 0.01 },
  checkpoint: { every: 2, keep: 4 },
  ...more,
});

/** Log-probabilities of some tokens. */
async function logProbsOf(path: string): Promise<Float32Array> {
  const device = new NativeDevice({ threads: 1 });
  const opened = loadModelFolder(path);
  const { config, tensors, adapter } = opened;
  const weights = loadCompute(device, opened, "weights");
  tensors.close();
  const tokens = Uint32Array.from({ length: 30 }, (_, i) => (7 * i) % config.vocabSize);
  const limits = { maxRows: 30, maxScored: 30, loraRank: adapter?.lora.rank ?? 0 };
  const pass = new TrainPass(device, config, limits);
  const { logProbs } = await pass.forward(weights, {
    tokens,
    offsets: Uint32Array.of(0, 30),
    scoredRows: Uint32Array.from(tokens.keys()),
    targets: tokens.map((token) => (token + 3) % config.vocabSize),
    temperatures: new Float32Array(30).fill(1),
  });
  const copy = logProbs.slice();
  device.destroy();
  return copy;
}

it("samples what it trains, begins at its reference, and goes on after a crash to the same adapters", async () => {
  const whole = runOptions(folder.path, "whole", settings());
  const { summary, steps } = await run(whole);
  expect([summary.mismatch, summary.mismatchTokens]).toEqual([0, summary.sampledTokens]);
  expect(steps[0]!.kl).toBe(0);
  expect(steps.at(-1)!.kl).not.toBe(0);
  const resumed = await run(killedAfter(whole, 2, join(folder.path, "resumed")));
  expect(resumed.steps.map(({ checksum }) => checksum)).toEqual(steps.slice(2).map(({ checksum }) => checksum));

  // The adapter by itself, added into the model, and the model without it.
  const merged = join(folder.path, "merged");
  exportModel({ model: whole.out, out: merged });
  const alone = join(folder.path, "alone");
  exportModel({ model: whole.out, out: alone, adapter: true });
  const [adapted, added, copied, base] = await Promise.all([summary.model, merged, alone, model].map(logProbsOf));
  expect(copied).toEqual(adapted);
  const distance = (a: Float32Array, b: Float32Array) => Math.max(...a.map((value, i) => Math.abs(value - b[i]!)));
  expect(distance(added!, adapted!)).toBeLessThan(1e-4);
  expect(distance(base!, adapted!)).toBeGreaterThan(1e-2);
}, 120_000);

it("does so on a model in 16 bits, which is in memory once", async () => {
  const options = runOptions(folder.path, "half", settings({ native: { weights: "bf16" }, steps: 2 }));
  const { summary } = await run(options);
  expect([summary.mismatch, summary.mismatchTokens]).toEqual([0, summary.sampledTokens]);
  // What was frozen is not in the checkpoint.
  const { adapter, config } = loadModelFolder(summary.model);
  expect(adapter!.data.length).toBeLessThan(parameterLayout(config).length / 4);
}, 120_000);

it("computes the same with activations that are computed again", async () => {
  const plain = await run(runOptions(folder.path, "plain", settings({ steps: 2 })));
  const again = await run(runOptions(folder.path, "again", settings({ steps: 2, learner: { recompute: true } })));
  expect(again.steps.map(({ checksum }) => checksum)).toEqual(plain.steps.map(({ checksum }) => checksum));
}, 120_000);
