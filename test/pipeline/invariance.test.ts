/**
 * What must not change the gradient: how the batch is cut into passes, the order of its groups, how many rows a
 * trajectory is written as, and how long the spans are that nobody trains. For every objective, advantage and correction,
 * through the learner's own path from trajectories to the gradient of all weights.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type TrainConfig, trainSchema } from "../../src/config/train.ts";
import { BatchGradient } from "../../src/pipeline/batch-gradient.ts";
import type { Trajectory } from "../../src/rl/trajectory.ts";
import { makeDevice, smallConfig as model, smallWeights, testRandom, uploadWeights } from "../model/support.ts";

const folder = mkdtempSync(join(tmpdir(), "agentrl-invariance-"));
const device = makeDevice(1);
afterAll(() => {
  device.destroy();
  rmSync(folder, { recursive: true });
});
const arena = smallWeights(5, 4);
const weights = uploadWeights(device, model, arena);

type Algorithm = Record<string, unknown>;
const methods: [string, Algorithm][] = [
  ["ppo", { objective: "ppo" }],
  ["ppo, dual clip, token mean", { objective: "ppo", dualClip: 3, lossMean: "token" }],
  ["gspo", { objective: "gspo", clipLow: 0.2, clipHigh: 0.3 }],
  ["gspo-token", { objective: "gspo-token", clipLow: 0.2, clipHigh: 0.3 }],
  ["cispo", { objective: "cispo" }],
  ["sapo", { objective: "sapo" }],
  ["dppo", { objective: "dppo" }],
  ["dppo, kl", { objective: "dppo", divergence: "kl" }],
  ["dr-grpo", { advantage: "dr-grpo", lossMean: "constant" }],
  ["rloo", { advantage: "rloo" }],
  ["reinforce++", { advantage: "reinforce++" }],
  ["reinforce++-baseline", { advantage: "reinforce++-baseline" }],
  ["gigpo", { advantage: "gigpo" }],
  ["gae-turn", { advantage: "gae-turn", critic: { trunk: "shared" } }],
  ["gae-token", { advantage: "gae-token", lossMean: "token", critic: { trunk: "shared", coefficient: 0.5 } }],
  ["gae-turn, normalised by task", { advantage: "gae-turn", taskNormalization: "on" }],
  ["task normalisation", { taskNormalization: "on" }],
  ["task normalisation of the paper", { taskNormalization: "paper", lossMean: "token" }],
  ["entropy bonus", { entropyBonus: 0.1 }],
  ["decoupled", { correction: { method: "decoupled" } }],
  ["decoupled, interpolated", { correction: { method: "decoupled", proximal: "interpolated" } }],
  ["token-tis", { correction: { method: "token-tis" } }],
  ["sequence-tis", { correction: { method: "sequence-tis", cap: 3 } }],
  ["icepop", { correction: { method: "icepop" } }],
  ["sequence-mask", { correction: { method: "sequence-mask", low: 0.2, high: 5 } }],
  ["geometric-mask", { correction: { method: "geometric-mask", low: 0.7, high: 1.4 } }],
];

function configOf(algorithm: Algorithm, microBatchTokens: number): TrainConfig {
  return trainSchema.parse({
    model: { path: folder },
    steps: 1,
    tasks: [{ name: "kg" }, { name: "os" }],
    algorithm,
    rollout: { contextLimit: 48 },
    learner: { microBatchTokens },
  });
}

/** [parameters] the gradient of a batch. */
async function gradientOf(
  groups: Trajectory[][],
  algorithm: Algorithm,
  microBatchTokens = 2048,
): Promise<Float32Array> {
  const gradient = new BatchGradient(
    device,
    { config: model, lora: null, base: null },
    configOf(algorithm, microBatchTokens),
  );
  await gradient.compute(weights, groups, 3);
  return (await device.readF32(gradient.grads.arena)).slice();
}

/** Largest difference, as a share of the largest value. */
function distance(a: Float32Array, b: Float32Array): number {
  let most = 0;
  let apart = 0;
  for (let i = 0; i < a.length; i++) {
    most = Math.max(most, Math.abs(a[i]!));
    apart = Math.max(apart, Math.abs(a[i]! - b[i]!));
  }
  expect(most).toBeGreaterThan(0);
  return apart / most;
}

const random = testRandom(11);
const tokensOf = (length: number) => Array.from({ length }, () => Math.floor(random.unit() * model.vocabSize));

/** Three turns of 3, 4 and 2 sampled tokens between spans of 6, 5 and 4 others, after the group's prompt. */
function episode(group: number, sample: number, prompt: readonly number[], reward: number): Trajectory {
  const mask = [...prompt.map(() => 0), 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1];
  const turns: Trajectory["turns"] = [];
  for (let i = 0; i < mask.length; i++) {
    if (mask[i] === 1 && mask[i - 1] !== 1) turns.push({ start: i, end: i, reward: 0, parseFailure: false });
    if (mask[i] === 1) turns.at(-1)!.end = i + 1;
  }
  turns.at(-1)!.reward = reward;
  const n = mask.length;
  return {
    task: group % 2 === 0 ? "kg" : "os",
    split: "train",
    index: group,
    group,
    sample,
    seed: 1,
    tokens: Uint32Array.from([...prompt, ...tokensOf(n - prompt.length)]),
    sampled: Uint8Array.from(mask),
    // Around what this model gives, -log 24 = -3.2, so that ratios lie on both sides of 1.
    logProbs: Float32Array.from(mask, (flag) => (flag ? -3.2 + 0.8 * (random.unit() - 0.5) : 0)),
    keptMass: Float32Array.from(mask, (flag) => (flag ? 0.8 + 0.2 * random.unit() : 1)),
    policy: new Uint8Array(n),
    version: Uint32Array.from(mask, () => 1 + Math.floor(2 * random.unit())),
    oldestVersion: new Uint32Array(n).fill(1),
    temperature: 1,
    turns,
    reward,
    endReason: "completed",
    metrics: {},
    timings: { ended: 0, total: 1, environment: 0, generation: 1 },
  };
}

const rewards = [
  [1, 0, 0.5],
  [0, 1, 1],
  // No signal: excluded, or kept, by the same rule in every form of the batch.
  [1, 1, 1],
  [0.25, 0, 1],
];
const groups = rewards.map((ofGroup, group) => {
  const prompt = tokensOf(6);
  return ofGroup.map((reward, sample) => episode(group, sample, prompt, reward));
});

/** The same episode with every turn in a context of its own, which begins with all that was before it. */
function asRows(one: Trajectory): Trajectory {
  const arrays = ["tokens", "sampled", "logProbs", "keptMass", "policy", "version", "oldestVersion"] as const;
  const rows: Record<string, number[]> = Object.fromEntries(arrays.map((name) => [name, []]));
  const rowStarts: number[] = [];
  const turns = one.turns.map((turn) => {
    const at = rows.tokens!.length;
    if (at > 0) rowStarts.push(at);
    for (const name of arrays) {
      const value = Array.from(one[name].subarray(0, turn.end));
      // What another context holds already is only seen here.
      if (name === "sampled") value.fill(0, 0, turn.start);
      rows[name]!.push(...value);
    }
    return { ...turn, start: at + turn.start, end: at + turn.end };
  });
  return {
    ...one,
    tokens: Uint32Array.from(rows.tokens!),
    sampled: Uint8Array.from(rows.sampled!),
    logProbs: Float32Array.from(rows.logProbs!),
    keptMass: Float32Array.from(rows.keptMass!),
    policy: Uint8Array.from(rows.policy!),
    version: Uint32Array.from(rows.version!),
    oldestVersion: Uint32Array.from(rows.oldestVersion!),
    rowStarts,
    turns,
  };
}

/** Tokens after the last that was sampled: a tool's answer to a policy that had no turn left. */
function withTail(one: Trajectory, length: number): Trajectory {
  const grow = <T extends Uint8Array | Uint32Array | Float32Array>(from: T, value: number): T => {
    const out = new (from.constructor as new (length: number) => T)(from.length + length);
    out.set(from);
    return out.fill(value, from.length) as T;
  };
  return {
    ...one,
    tokens: grow(one.tokens, 7),
    sampled: grow(one.sampled, 0),
    logProbs: grow(one.logProbs, 0),
    keptMass: grow(one.keptMass, 1),
    policy: grow(one.policy, 0),
    version: grow(one.version, 2),
    oldestVersion: grow(one.oldestVersion, 1),
  };
}

describe.each(methods)("the gradient under %s", (_, algorithm) => {
  it("is the same however the batch is cut into passes, to the rounding of sums", async () => {
    const whole = await gradientOf(groups, algorithm);
    for (const tokens of [48, 100])
      expect(distance(whole, await gradientOf(groups, algorithm, tokens))).toBeLessThan(1e-5);
  });

  it("is the same in any order of groups", async () => {
    const whole = await gradientOf(groups, algorithm);
    const other = [groups[2]!, groups[0]!, groups[3]!, groups[1]!];
    expect(distance(whole, await gradientOf(other, algorithm))).toBeLessThan(1e-5);
  });

  it("is the same when a trajectory is written as three rows", async () => {
    // No state but the first is visited twice here: GiGPO compares what a turn was shown, and a row shows all again.
    const whole = await gradientOf(groups, algorithm);
    const split = groups.map((group, g) => group.map((one, s) => ((g + s) % 2 === 0 ? asRows(one) : one)));
    expect(distance(whole, await gradientOf(split, algorithm))).toBeLessThan(1e-5);
  });

  it("is the same bits with longer spans that nobody sampled, after the last turn", async () => {
    const whole = await gradientOf(groups, algorithm);
    const longer = groups.map((group) => group.map((one, s) => withTail(one, 5 * s)));
    expect(await gradientOf(longer, algorithm)).toEqual(whole);
  });
});
