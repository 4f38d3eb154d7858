/** Runs whose every number is computed by WGSL kernels, on each adapter there is. */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebGpuDevice } from "../../src/device/webgpu/webgpu-device.ts";
import { loadModelFolder } from "../../src/model/files.ts";
import { LearnerState } from "../../src/pipeline/learner-state.ts";
import type { Setup } from "../../src/pipeline/messages.ts";
import { planRun } from "../../src/pipeline/plan.ts";
import { WeightBoard } from "../../src/shm/weight-board.ts";
import { webgpuAdapters } from "../device/webgpu/adapters.ts";
import { trajectory } from "../rl/trajectories.ts";
import { makeModel, run, runOptions, tasks, temporaryFolder } from "./tiny-run.ts";

const adapters = await webgpuAdapters();

describe.runIf(adapters.length > 0)("training through WebGPU", () => {
  const folder = temporaryFolder();
  let model: string;

  beforeAll(async () => {
    model = await makeModel(folder.path);
  });
  afterAll(() => folder.remove());

  const settings = (adapter: string, webgpu = {}) => ({
    model: { path: model },
    device: "webgpu",
    webgpu: { adapter, ...webgpu },
    mode: "sync",
    steps: 2,
    tasks,
    rollout: { groupSize: 2, groupsPerStep: 3, maxSequences: 6, maxTokensPerTurn: 12, contextLimit: 256 },
    verify: { fraction: 1 },
    optimizer: { lr: 0.002 },
  });

  it.each(adapters)(
    "%s: recorded and recomputed log-probabilities are equal, and two runs end in the same weights",
    async (adapter) => {
      const [first, second] = [
        await run(runOptions(folder.path, `first-${adapter}`, settings(adapter))),
        await run(runOptions(folder.path, `second-${adapter}`, settings(adapter))),
      ];
      expect(first.summary.mismatch).toBe(0);
      expect(first.summary.mismatchTokens).toBe(first.summary.sampledTokens);
      expect(first.steps.map((step) => step.checksum)).toEqual(second.steps.map((step) => step.checksum));
      const [session] = readFileSync(join(folder.path, `first-${adapter}`, "sessions.jsonl"), "utf8").split("\n");
      expect(JSON.parse(session!)).toMatchObject({ step: 0, device: { kind: "webgpu", profile: "safe" } });
    },
    120_000,
  );

  it.each(adapters)(
    "%s: so they are where engines of several policies share the device",
    async (adapter) => {
      const other = join(folder.path, "other");
      mkdirSync(other, { recursive: true });
      const path = await makeModel(other, { model: { path: model }, steps: 2 });
      const pool = [
        { name: "old", kind: "stale", every: 2, probability: 0.3 },
        { name: "base", kind: "checkpoint", path, probability: 0.3 },
      ];
      const config = { ...settings(adapter), steps: 3, crossPolicy: { pool } };
      const { steps } = await run(runOptions(folder.path, `pool-${adapter}`, config));
      for (const { mismatch, mismatchTokens, sampledTokens } of steps) {
        expect([mismatch, mismatchTokens]).toEqual([0, sampledTokens]);
      }
      const shares = steps.flatMap((step) => Object.values(step.tasks).map((task) => task.policyShare!));
      for (const name of ["current", "old", "base"]) expect(shares.some((share) => share[name]! > 0)).toBe(true);
    },
    120_000,
  );

  it.each(adapters)(
    "%s: so they are with weights and cache in f16, or the adapter is refused",
    async (adapter) => {
      const half = { weights: "f16", kvCache: "f16" };
      const options = runOptions(folder.path, `half-${adapter}`, settings(adapter, half));
      const probe = await WebGpuDevice.open({ adapter });
      const has = probe.gpu.features.has("shader-f16");
      probe.destroy();
      if (!has) {
        await expect(run(options)).rejects.toThrow(/webgpu\.weights: f16, webgpu\.kvCache: f16, on .*shader-f16/s);
        return;
      }
      const { summary } = await run(options);
      expect(summary.mismatch).toBe(0);
      expect(summary.mismatchTokens).toBe(summary.sampledTokens);
      expect(summary.sampledTokens).toBeGreaterThan(0);
    },
    120_000,
  );

  /** A learner by itself, with a board of its own. */
  async function learner(name: string, adapter: string, resume: string | null = null) {
    const { config } = runOptions(folder.path, `${name}-${adapter}`, settings(adapter));
    const { config: modelConfig, tensors } = loadModelFolder(model);
    tensors.close();
    const plan = planRun(config, modelConfig);
    const board = WeightBoard.create({
      name: `/agentrl-test-${process.pid}-${adapter}-${name}`,
      slots: plan.boardSlots,
      bytes: plan.boardSlotBytes,
    });
    const setup: Setup = {
      config: { ...config, verify: { fraction: 0 } },
      device: { kind: "webgpu", adapter: { adapter }, description: adapter },
      ring: "",
      board: board.name,
      frozen: null,
      modelFolder: resume === null ? model : join(resume, "model"),
      firstVersion: 0,
      resume,
      checkpoints: join(folder.path, `${name}-${adapter}-checkpoints`),
      configHash: "test",
      taskNames: config.tasks.map((task) => task.name),
    };
    const device = await WebGpuDevice.open({ adapter });
    return { state: await LearnerState.open(setup, device), device, board };
  }

  /** Groups of a step, tokens and rewards chosen by its number. */
  function groups(step: number) {
    return [0, 1, 2].map((group) =>
      [0, 1].map((sample) =>
        trajectory({
          mask: Array.from({ length: 40 }, (_, i) => (i >= 20 && i % 5 !== 0 ? 1 : 0)),
          vocab: 256,
          group: 10 * step + group,
          sample,
          reward: (step + group + sample) % 2,
        }),
      ),
    );
  }

  it.each(adapters)(
    "%s: a device that dies in mid-step ends the step with one error; its checkpoint goes on to the weights of an unbroken run",
    async (adapter) => {
      const whole = await learner("whole", adapter);
      await whole.state.train(groups(1));
      const { checksum } = await whole.state.train(groups(2));
      whole.device.destroy();
      whole.board.close();

      const broken = await learner("broken", adapter);
      await broken.state.train(groups(1));
      const checkpoint = await broken.state.save({ trainedGroups: [[10, 12]] });
      const { recorder } = broken.device.gpu;
      const before = recorder.dispatches;
      const step = broken.state.train(groups(2));
      const outcome = expect(step).rejects.toMatchObject({ code: "DEVICE_LOST" });
      while (recorder.dispatches < before + 20) await new Promise((resolve) => setImmediate(resolve));
      broken.device.gpu.device.destroy();
      await outcome;
      expect(() => broken.device.fill(broken.device.alloc(4), 1)).toThrow(/lost/);
      broken.board.close();

      const resumed = await learner("resumed", adapter, checkpoint);
      expect(resumed.state.step).toBe(1);
      expect((await resumed.state.train(groups(2))).checksum).toBe(checksum);
      resumed.device.destroy();
      resumed.board.close();
    },
    120_000,
  );
});
