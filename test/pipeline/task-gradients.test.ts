/** What filters, loss weights and per-task settings do to the gradient, through the learner's own path to it. */
import { afterAll, describe, expect, it } from "vitest";
import { type TrainConfig, trainSchema } from "../../src/config/train.ts";
import { BatchGradient } from "../../src/pipeline/batch-gradient.ts";
import { batchMetrics } from "../../src/pipeline/batch-metrics.ts";
import type { Trajectory } from "../../src/rl/trajectory.ts";
import { makeDevice, smallConfig as model, smallWeights, uploadWeights } from "../model/support.ts";
import { trajectory } from "../rl/trajectories.ts";

const device = makeDevice(1);
afterAll(() => device.destroy());
const weights = uploadWeights(device, model, smallWeights(5));

const names = ["kg", "os", "dbbench"];

function configOf(algorithm: object, tasks: object[] = []): TrainConfig {
  return trainSchema.parse({
    model: { path: "m" },
    steps: 1,
    tasks: names.map((name, i) => ({ name, ...tasks[i] })),
    algorithm,
    rollout: { contextLimit: 48 },
    learner: { microBatchTokens: 60 },
  });
}

async function gradientOf(groups: Trajectory[][], algorithm: object, tasks: object[] = []) {
  const gradient = new BatchGradient(device, { config: model, lora: null, base: null }, configOf(algorithm, tasks));
  const { metrics } = await gradient.compute(weights, groups, 3);
  return { metrics, arena: (await device.readF32(gradient.grads.arena)).slice() };
}

/** Two groups of each task, with a signal but for the tasks in `equal`. */
function batch(equal: readonly string[] = [], endReason: Trajectory["endReason"] = "completed"): Trajectory[][] {
  return [0, 1, 2, 3, 4, 5].map((group) => {
    const task = names[group % 3]!;
    return [0, 1, 2].map((sample) =>
      trajectory({
        mask: [0, 0, 0, 0, ...Array(2 + group).fill(1), 0, 0, ...Array(1 + sample).fill(1)],
        vocab: model.vocabSize,
        group,
        sample,
        task,
        reward: equal.includes(task) ? 1 : (group + sample) % 2,
        ...(sample === 2 && { endReason }),
      }),
    );
  });
}

const norm = (arena: Float32Array) => Math.sqrt(arena.reduce((sum, value) => sum + value * value, 0));
/** Largest difference from Σ factor · arena, as a share of the largest value. */
function apart(got: Float32Array, parts: readonly [factor: number, arena: Float32Array][]): number {
  let most = 0;
  let worst = 0;
  for (let i = 0; i < got.length; i++) {
    const expected = parts.reduce((sum, [factor, arena]) => sum + factor * arena[i]!, 0);
    most = Math.max(most, Math.abs(expected));
    worst = Math.max(worst, Math.abs(got[i]! - expected));
  }
  expect(most).toBeGreaterThan(0);
  return worst / most;
}

/** Gradient of one task's own tokens in the whole batch: the others have no signal, and count in the mean all the same. */
const alone = (task: string, algorithm: object = {}) =>
  gradientOf(batch(names.filter((name) => name !== task)), {
    filters: { zeroVariance: "keep" },
    ...algorithm,
  });

describe("the gradient of a batch of several tasks", () => {
  it.each(["trajectory", "token"])(
    "is the sum of the tasks', and its shares are their norms' (lossMean %s)",
    async (lossMean) => {
      const { metrics, arena } = await gradientOf(batch(), { lossMean });
      const own: Float32Array[] = [];
      for (const name of names) own.push((await alone(name, { lossMean })).arena);
      expect(
        apart(
          arena,
          own.map((part) => [1, part]),
        ),
      ).toBeLessThan(1e-5);
      const norms = own.map(norm);
      const sum = norms.reduce((a, b) => a + b);
      for (const [i, name] of names.entries()) {
        expect(metrics.gradientShares[name]).toBeCloseTo(norms[i]! / sum, 5);
      }
      expect(Object.values(metrics.gradientShares).reduce((a, b) => a + b)).toBeCloseTo(1, 12);
      const { tasks } = batchMetrics(batch().flat(), 3, metrics.gradientShares);
      expect(tasks.os!.gradientShare).toBe(metrics.gradientShares.os);
      // Sampled tokens of a group: 3 (2 + group) + 6.
      const tokens = (group: number) => 3 * (2 + group) + 6;
      expect(tasks.os!.tokenShare).toBeCloseTo((tokens(1) + tokens(4)) / (6 * 6 + 3 * (2 + 3 + 4 + 5 + 6 + 7)), 12);
    },
  );

  it("of which one alone has a signal is that task's alone", async () => {
    const { metrics } = await gradientOf(batch(["kg", "dbbench"]), {});
    expect(metrics.gradientShares).toEqual({ os: 1 });
    const none = await gradientOf(batch(names), {});
    expect(none.metrics.gradientShares).toEqual({});
    expect(norm(none.arena)).toBe(0);
  });
});

describe("loss weights", () => {
  it("weigh each task's gradient, over the weights of all that count", async () => {
    const [kg, os, dbbench] = [await alone("kg"), await alone("os"), await alone("dbbench")];
    const { arena } = await gradientOf(batch(), {}, [{ lossWeight: 2 }, { lossWeight: 0.5 }, {}]);
    // Six trajectories of each task: of 18 equal shares to c / (6 (2 + 0.5 + 1)).
    const factor = (c: number) => (18 * c) / (6 * 3.5);
    expect(
      apart(arena, [
        [factor(2), kg.arena],
        [factor(0.5), os.arena],
        [factor(1), dbbench.arena],
      ]),
    ).toBeLessThan(1e-5);
  });

  it("of 0 leave a task out of loss, mean and tokens", async () => {
    const { arena, metrics } = await gradientOf(batch(), {}, [{}, { lossWeight: 0 }, {}]);
    const without = await gradientOf(
      batch().filter(([first]) => first!.task !== "os"),
      {},
    );
    expect(arena).toEqual(without.arena);
    expect(metrics.trainedTokens).toBe(without.metrics.trainedTokens);
  });
});

describe("filters", () => {
  it("zeroVariance keep: the step is as small as the share of trajectories with a signal", async () => {
    const groups = batch(["kg"]);
    const drop = await gradientOf(groups, {});
    const keep = await gradientOf(groups, { filters: { zeroVariance: "keep" } });
    expect(apart(keep.arena, [[12 / 18, drop.arena]])).toBeLessThan(1e-5);
    expect(keep.metrics).toMatchObject({ zeroVarianceGroups: 2, trainedTokens: drop.metrics.trainedTokens });
  });

  it("overlong mask: an episode cut off has no part in the gradient, but in its group's mean", async () => {
    const mask = { filters: { overlong: "mask" } };
    const cut = batch([], "length limit");
    const { arena, metrics } = await gradientOf(cut, mask);
    expect(metrics.overlongEpisodes).toBe(6);
    // Their tokens do not matter, and their number is counted out of the mean.
    const other = cut.map((group) =>
      group.map((one) => (one.sample === 2 ? { ...one, tokens: one.tokens.map(() => 3) } : one)),
    );
    expect((await gradientOf(other, mask)).arena).toEqual(arena);
    // Their reward does: -0.2 instead of 0 or 1.
    const kept = await gradientOf(cut, { filters: { overlong: "mask" }, incompletePenalty: -5 });
    expect(apart(kept.arena, [[1, arena]])).toBeGreaterThan(0.01);
    // An episode that the turn limit ended is no longer than the others.
    const turns = await gradientOf(batch([], "turn limit"), mask);
    expect(turns.metrics.overlongEpisodes).toBe(0);
  });
});

describe("settings of one task", () => {
  it("estimate its advantages by its own method, the others' by the run's", async () => {
    const { arena } = await gradientOf(batch(), { advantage: "grpo" }, [{}, { algorithm: { advantage: "dr-grpo" } }]);
    const parts = [await alone("kg"), await alone("os", { advantage: "dr-grpo" }), await alone("dbbench")];
    expect(
      apart(
        arena,
        parts.map((part) => [1, part.arena]),
      ),
    ).toBeLessThan(1e-5);
    expect(apart(arena, [[1, (await gradientOf(batch(), {})).arena]])).toBeGreaterThan(0.01);
  });

  it("give its incomplete episodes its own penalty", async () => {
    const groups = batch([], "turn limit");
    const { arena } = await gradientOf(groups, { incompletePenalty: -0.5 }, [
      {},
      { algorithm: { incompletePenalty: -3 } },
    ]);
    const rewarded = groups.map((group) =>
      group.map((one): Trajectory => {
        if (one.endReason === "completed") return one;
        return { ...one, endReason: "completed", reward: one.task === "os" ? -3 : -0.5 };
      }),
    );
    expect(arena).toEqual((await gradientOf(rewarded, {})).arena);
  });

  it("go by the names that the environments call themselves", async () => {
    const config = configOf({}, [{ name: "./mine.ts", lossWeight: 0 }]);
    const gradient = new BatchGradient(device, { config: model, lora: null, base: null }, config, names);
    const { gradientShares } = (await gradient.compute(weights, batch(), 3)).metrics;
    expect(Object.keys(gradientShares)).toEqual(["os", "dbbench"]);
  });
});
