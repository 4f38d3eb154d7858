/**
 * Episodes of several policies, token by token: a board whose weights change under way, a checkpoint of other weights, and
 * endpoints, one of which tells what its tokens were sampled with. What each token carries is its own policy's.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { environments } from "../../envs/index.ts";
import type { TrainConfig } from "../../src/config/train.ts";
import { NativeDevice } from "../../src/device/native.ts";
import { Engine } from "../../src/generate/engine.ts";
import { loadModelFolder } from "../../src/model/files.ts";
import { packTensors, parameterLayout } from "../../src/model/parameters.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { Weights } from "../../src/model/weights.ts";
import { boardWeights } from "../../src/pipeline/board-weights.ts";
import { promptTokens, runEpisode } from "../../src/pipeline/episode.ts";
import { planRun } from "../../src/pipeline/plan.ts";
import { PolicyPool } from "../../src/pipeline/policy-pool.ts";
import { loadPolicyText } from "../../src/pipeline/policy-text.ts";
import { refreshIntervals, StaleHolds } from "../../src/pipeline/stale-versions.ts";
import { Verifier } from "../../src/pipeline/verifier.ts";
import { WeightCheck } from "../../src/pipeline/weight-check.ts";
import { gatherScored, packMicroBatches } from "../../src/rl/batch.ts";
import { comparableTokens, VersionChecksums } from "../../src/rl/staleness.ts";
import { noVersion, PolicyId, type Trajectory } from "../../src/rl/trajectory.ts";
import { WeightBoard } from "../../src/shm/weight-board.ts";
import { startEndpoint, type TestEndpoint } from "./eval-endpoint.ts";
import { makeModel, runOptions, temporaryFolder } from "./tiny-run.ts";

const every = 3;
const said = "I look it up.";
const folder = temporaryFolder();
const device = new NativeDevice({ threads: 2 });
const servers: TestEndpoint[] = [];
const checksums = new VersionChecksums();
const environment = await environments.create("kg", { prompt: "brief" });
let board: WeightBoard;
let engine: Engine;
let config: TrainConfig;
let other = "";
let model: ReturnType<typeof loadPolicyText>;
let trajectories: Trajectory[];

/** Ids of the endpoints' turn in the model's own template; the last ends the turn. */
const turnTokens = () => model.dialect.template.renderAssistant({ text: said, calls: [] });
const logProbOf = (i: number) => -0.125 * (i + 1);

function arenaOf(path: string): Float32Array {
  const { tensors, config } = loadModelFolder(path);
  const arena = packTensors(parameterLayout(config), (name) => tensors.read(name));
  tensors.close();
  return arena;
}

beforeAll(async () => {
  const path = await makeModel(folder.path, { steps: 60 });
  mkdirSync(join(folder.path, "other"));
  other = await makeModel(join(folder.path, "other"), { model: { path }, steps: 10 });
  model = loadPolicyText(path);
  const { tokenizer } = model.dialect;
  // One lists the token that ends its turn, as vLLM does, and one, as others do, says nothing of its tokens.
  const telling = await startEndpoint(() => ({
    content: said,
    logprobs: [...turnTokens()].map((id, i) => ({
      token: tokenizer.decode([id]),
      bytes: [...tokenizer.tokenBytes(id)!],
      logprob: logProbOf(i),
    })),
  }));
  const mute = await startEndpoint(() => ({ content: said }));
  servers.push(telling, mute);
  ({ config } = runOptions(folder.path, "pool", {
    model: { path },
    seed: 5,
    steps: 20,
    staleness: { maxLag: 30 },
    tasks: [{ name: "kg" }],
    rollout: { maxSequences: 16, groupSize: 4, maxTokensPerTurn: 24, contextLimit: 512 },
    crossPolicy: {
      pool: [
        { name: "old", kind: "stale", every, probability: 0.25 },
        { name: "base", kind: "checkpoint", path: other, probability: 0.25 },
        { name: "telling", kind: "endpoint", url: telling.url, model: "m", logProbs: true, probability: 0.1 },
        { name: "mute", kind: "endpoint", url: mute.url, model: "m", probability: 0.1 },
      ],
    },
  }));
  const plan = planRun(config, model.modelConfig);
  board = WeightBoard.create({
    name: `/agentrl-test-${process.pid}-pool`,
    slots: plan.boardSlots,
    bytes: plan.boardSlotBytes,
  });
  trajectories = await playWhileWeightsChange(arenaOf(path));
}, 60_000);
afterAll(async () => {
  await engine?.destroy();
  await Promise.all(servers.map((server) => server.close()));
  await environment.close();
  board?.close();
  board?.unlink();
  device.destroy();
  folder.remove();
});

/** Twelve episodes at once; every fourth turn anywhere publishes other weights. */
async function playWhileWeightsChange(arena: Float32Array): Promise<Trajectory[]> {
  const holds = new StaleHolds(board, refreshIntervals(config), config.staleness.maxLag);
  let version = -1;
  const publish = () => {
    version++;
    const slot = board.beginWrite();
    slot.data.set(arena.map((value, i) => value * (1 + 0.02 * version * Math.sin(i))));
    checksums.set(version, board.publish(slot, version));
    holds.advance(version);
  };
  publish();
  const { dialect, modelConfig } = model;
  const trained = { config: modelConfig, lora: null, base: null };
  const check = new WeightCheck();
  const weights = await boardWeights({
    device,
    model: trained,
    board: board.name,
    first: 0,
    timeoutMs: 1_000,
    check,
  });
  engine = new Engine({ device, config: modelConfig, weights, maxConversations: 16, contextLimit: 512 });
  const pool = new PolicyPool({ config, device, model: trained, dialect, board: board.name, check });
  let steps = 0;
  const { indices } = environment.split("train");
  return Promise.all(
    indices.slice(0, 12).map(async (index, sample) => {
      const session = await environment.start("train", index, 1);
      const step = session.step.bind(session);
      session.step = (action) => {
        if (++steps % 4 === 0) publish();
        return step(action);
      };
      const seed = { group: 3, sample, key: 7 };
      const seat = pool.seat({ task: 0, tools: environment.tools, seed })!;
      const conversation = engine.open(promptTokens(dialect, environment, session.messages));
      try {
        return await runEpisode({
          environment,
          session,
          conversation,
          pool: seat,
          dialect,
          limits: { maxTurns: 12, maxTokensPerTurn: 24 },
          sampling: { temperature: 1, topK: 0, topP: 1, minP: 0 },
          seed,
          identity: { task: "kg", split: "train", index, group: 3, sample, seed: 1 },
        });
      } finally {
        conversation.close();
        seat.close();
        await session.close();
      }
    }),
  );
}

/** Every turn of a policy. */
function turnsOf(name: string) {
  return trajectories.flatMap((trajectory) =>
    trajectory.turns.filter((turn) => turn.policy === name).map((turn) => ({ trajectory, ...turn })),
  );
}

function tokensOf(name: string) {
  return turnsOf(name).flatMap(({ trajectory, start, end }) =>
    Array.from({ length: end - start }, (_, i) => ({ trajectory, i: start + i })),
  );
}

describe("the record of an episode of several policies", () => {
  it("says of each token who wrote it, at which version", () => {
    const ids = { current: PolicyId.current, old: PolicyId.stale, base: PolicyId.checkpoint };
    for (const [name, id] of Object.entries(ids)) {
      expect(tokensOf(name).length).toBeGreaterThan(20);
      for (const { trajectory, i } of tokensOf(name)) {
        expect([trajectory.policy[i], trajectory.sampled[i]]).toEqual([id, 1]);
      }
    }
    const versions = (name: string) => [...new Set(tokensOf(name).map(({ trajectory, i }) => trajectory.version[i]!))];
    expect(versions("base")).toEqual([noVersion]);
    expect(versions("old").every((version) => version % every === 0)).toBe(true);
    expect(versions("old").length).toBeGreaterThan(1);
    expect(versions("current").some((version) => version % every !== 0)).toBe(true);
    // A later turn after one that another policy sampled: what the caches had to catch up with.
    const mixed = trajectories.filter(({ turns }) => new Set(turns.map((turn) => turn.policy)).size >= 3);
    expect(mixed.length).toBeGreaterThan(3);
  });

  it("compares exactly with a full forward pass, across turns of others and changes of weights", async () => {
    const verifier = new Verifier({
      device,
      model: { config: model.modelConfig, lora: null, base: null },
      board,
      maxRows: 700,
      checkpoints: new Map([["base", other]]),
    });
    const masks = trajectories.flatMap((one) => [...comparableTokens(one, checksums)]);
    const expected = masks.reduce((sum, [, mask]) => sum + mask.reduce((a, b) => a + b, 0), 0);
    const checked = await verifier.check(trajectories, 1, checksums, 1);
    expect(checked).toEqual({ mismatch: 0, tokens: expected });
    // Under the checkpoint, and under versions that only a stale copy stood at when they had long been replaced.
    const under = new Set(masks.map(([id]) => id));
    expect(under.has("base")).toBe(true);
    expect(under.size).toBeGreaterThan(3);

    // The check can fail: one stale token a little off is seen.
    const { trajectory, i } = tokensOf("old").find(
      ({ trajectory, i }) => comparableTokens(trajectory, checksums).get(trajectory.version[i]!)?.[i],
    )!;
    const logProbs = trajectory.logProbs.slice();
    logProbs[i]! -= 1e-3;
    const off = await verifier.check([{ ...trajectory, logProbs }], 1, checksums, 1);
    expect(off.mismatch).toBeCloseTo(1e-3, 6);
  });

  it("holds the checkpoint's own log-probabilities: those of its folder's weights, to the bit", async () => {
    const weights = Weights.allocate(device, model.modelConfig, "checkpoint");
    weights.write(arenaOf(other));
    const pass = new TrainPass(device, model.modelConfig, { maxRows: 512, maxScored: 512 });
    const own = trajectories.map((one) => ({
      ...one,
      sampled: one.sampled.map((flag, i) => (one.policy[i] === PolicyId.checkpoint ? flag : 0)),
    }));
    let compared = 0;
    for (const { items, batch } of packMicroBatches(own, { maxRows: 512 })) {
      const { logProbs } = await pass.forward(weights, batch);
      const recorded = gatherScored(items, (trajectory, i) => trajectory.logProbs[i]!);
      expect(recorded).toEqual(logProbs.slice(0, recorded.length));
      compared += recorded.length;
    }
    expect(compared).toBe(tokensOf("base").length);
  });
});

describe("the turns of an endpoint", () => {
  it("are context in the model's own template, its end token included", () => {
    expect(turnsOf("mute").length).toBeGreaterThan(2);
    for (const { trajectory, start, end } of turnsOf("mute")) {
      expect(trajectory.tokens.slice(start, end)).toEqual(turnTokens());
      expect([...trajectory.sampled.subarray(start, end)].every((flag) => flag === 0)).toBe(true);
      expect([...trajectory.policy.subarray(start, end)].every((id) => id === PolicyId.external)).toBe(true);
    }
  });

  it("are trained with the server's log-probabilities where its tokens are the model's", () => {
    expect(turnsOf("telling").length).toBeGreaterThan(2);
    for (const { trajectory, start, end } of turnsOf("telling")) {
      expect([...trajectory.sampled.subarray(start, end)].every((flag) => flag === 1)).toBe(true);
      expect([...trajectory.logProbs.subarray(start, end)]).toEqual([...turnTokens()].map((_, i) => logProbOf(i)));
      expect([...trajectory.version.subarray(start, end)].every((version) => version === noVersion)).toBe(true);
    }
  });

  it("are asked for with all that was said before, whoever said it, at the run's temperature", () => {
    const [telling, mute] = servers;
    expect(telling!.requests.length).toBe(turnsOf("telling").length);
    expect(mute!.requests.length).toBe(turnsOf("mute").length);
    expect(telling!.requests.every(({ body }) => body.logprobs === true && body.temperature === 1)).toBe(true);
    expect(mute!.requests.every(({ body }) => body.logprobs === undefined && body.max_tokens === 24)).toBe(true);
    // An episode's k-th turn is asked for with the k turns before it.
    const turns = (requests: TestEndpoint["requests"]) =>
      requests.map(({ body }) => body.messages.filter(({ role }) => role === "assistant").length).sort();
    const places = trajectories.flatMap((one) => one.turns.flatMap(({ policy }, k) => (policy === "mute" ? [k] : [])));
    expect(turns(mute!.requests)).toEqual(places.sort());
    for (const { body } of mute!.requests) {
      const ids = body.messages.flatMap((message) => message.tool_calls?.map(({ id }) => id) ?? []);
      expect(new Set(ids).size).toBe(ids.length);
    }
  });
});
