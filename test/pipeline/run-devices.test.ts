/** The learner and the rollout processes on adapters of their own, real ones: two drivers that compute on the CPU. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { trainSchema } from "../../src/config/train.ts";
import { resolveDevices, rolloutDevice } from "../../src/pipeline/run-devices.ts";
import { webgpuAdapters } from "../device/webgpu/adapters.ts";
import { makeModel, run, runOptions, temporaryFolder } from "./tiny-run.ts";

/** Vendor and device of the drivers, as MESA_VK_DEVICE_SELECT=list tells them. */
const vulkanDevices = { llvmpipe: "10005:0", SwiftShader: "1ae0:c0de" };
const tasks = [{ name: "dbbench" }];
const adapters = await webgpuAdapters();
const both = Object.keys(vulkanDevices).every((name) => adapters.includes(name));
if (!both) console.info("run devices: skipped, they need llvmpipe and SwiftShader (scripts/install-vulkan.sh)");

const configOf = (more: Record<string, unknown>) =>
  trainSchema.parse({ model: { path: "model" }, steps: 1, tasks, device: "webgpu", ...more });
const failure = (more: Record<string, unknown>) =>
  resolveDevices(configOf(more)).then(
    () => "",
    (error: Error) => error.message,
  );

describe.runIf(both)("adapters of the learner and the rollout processes", () => {
  const folder = temporaryFolder();
  let model: string;
  beforeAll(async () => {
    model = await makeModel(folder.path, { tasks });
  });
  afterAll(() => folder.remove());

  it("compute a run together, whose mismatch is what the drivers differ by", async () => {
    const { steps, summary } = await run(
      runOptions(folder.path, "split", {
        model: { path: model },
        device: "webgpu",
        mode: "sync",
        steps: 2,
        tasks,
        rollout: {
          groupSize: 2,
          groupsPerStep: 3,
          maxSequences: 6,
          maxTokensPerTurn: 12,
          contextLimit: 256,
          adapters: ["llvmpipe"],
        },
        learner: { adapter: "SwiftShader" },
        verify: { fraction: 1 },
        optimizer: { lr: 0.002 },
      }),
    );
    expect(steps).toHaveLength(2);
    expect(summary.mismatchTokens).toBe(summary.sampledTokens);
    // Rounding of f32, which drivers are free in: nothing like a wrong weight or a wrong token.
    expect(summary.mismatch).toBeLessThan(1e-4);
    console.info(`mismatch between SwiftShader and llvmpipe: ${summary.mismatch}`);
    const [session] = readFileSync(join(folder.path, "split", "sessions.jsonl"), "utf8").split("\n");
    expect(JSON.parse(session!)).toMatchObject({
      device: { kind: "webgpu", adapter: expect.stringContaining("SwiftShader"), asked: "SwiftShader" },
      rolloutDevices: [{ kind: "webgpu", adapter: expect.stringContaining("llvmpipe"), asked: "llvmpipe" }],
    });
  });
});

describe.runIf(both)("adapters are found before a process starts", () => {
  it("by name, or as a Vulkan device where names do not tell them apart", async () => {
    const devices = await resolveDevices(
      configOf({
        webgpu: { adapter: "llvmpipe", kvCache: "f32" },
        rollout: { processes: 3, adapters: [vulkanDevices.SwiftShader, vulkanDevices.llvmpipe] },
      }),
    );
    expect(devices.learner).toMatchObject({ description: expect.stringContaining("llvmpipe") });
    const descriptions = [0, 1, 2].map((worker) => rolloutDevice(devices, worker));
    expect(descriptions).toMatchObject(
      ["SwiftShader", "llvmpipe", "SwiftShader"].map((name) => ({ description: expect.stringContaining(name) })),
    );
  });

  it("and refused by the option that names them, with those there are", async () => {
    const learner = await failure({ learner: { adapter: "no such" } });
    expect(learner).toMatch(/learner\.adapter: no such[\s\S]*llvmpipe/);
    const second = await failure({ rollout: { processes: 2, adapters: ["SwiftShader", "no such"] } });
    expect(second).toMatch(/rollout\.adapters\.1: no such[\s\S]*SwiftShader/);
    // Both names have an e.
    expect(await failure({ learner: { adapter: "e" } })).toMatch(
      /Several adapters[\s\S]*learner\.adapter: e[\s\S]*pci:/,
    );
    // A card that is not there; a device that no driver has, for which the layer hides nothing.
    const nowhere = await failure({ rollout: { adapters: ["pci:ffff:ff:1f.7"] } });
    expect(nowhere).toMatch(/no graphics card at this address[\s\S]*rollout\.adapters\.0: pci:ffff:ff:1f\.7/);
    expect(await failure({ learner: { adapter: "dead:beef" } })).toMatch(/could not be selected[\s\S]*llvmpipe/);
  });

  it("and so is what an adapter lacks", async () => {
    const options = {
      webgpu: { products: "f16" },
      rollout: { adapters: ["SwiftShader"] },
      learner: { adapter: "llvmpipe" },
    };
    expect(await failure(options)).toMatch(/no matrix units[\s\S]*webgpu\.products: f16, on llvmpipe/);
  });
});
