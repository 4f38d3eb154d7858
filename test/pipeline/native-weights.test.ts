/** Runs on the native device that compute with weights in 16 bits. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NativeDevice } from "../../src/device/native.ts";
import { loadModelFolder } from "../../src/model/files.ts";
import { openDevice, resolveDevice } from "../../src/pipeline/open-device.ts";
import { makeModel, run, runOptions, tasks, temporaryFolder } from "./tiny-run.ts";

describe("training with native.weights", () => {
  const folder = temporaryFolder();
  let model: string;

  beforeAll(async () => {
    model = await makeModel(folder.path);
  });
  afterAll(() => folder.remove());

  it.each(["f16", "bf16"])(
    "%s recomputes exactly what was sampled",
    async (weights) => {
      const options = runOptions(folder.path, weights, {
        model: { path: model },
        device: "native",
        native: { weights },
        mode: "sync",
        steps: 1,
        tasks,
        rollout: { groupSize: 2, groupsPerStep: 3, maxSequences: 6, maxTokensPerTurn: 12, contextLimit: 256 },
        verify: { fraction: 1 },
      });
      const { config, tensors } = loadModelFolder(model);
      tensors.close();
      const device = await openDevice(await resolveDevice(options.config), 1, {
        config,
        rows: { train: 0, decode: 0 },
      });
      expect([device instanceof NativeDevice, device.storage.weights]).toEqual([true, weights]);
      device.destroy();
      const { summary } = await run(options);
      expect(summary.mismatch).toBe(0);
      expect(summary.mismatchTokens).toBe(summary.sampledTokens);
      expect(summary.sampledTokens).toBeGreaterThan(0);
    },
    60_000,
  );
});
