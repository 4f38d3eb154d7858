/** Adapters of the learner and the rollout processes that would do nothing are refused by name. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { loadTrainConfig } from "../../src/config/load.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-adapters-"));
  mkdirSync(join(folder, "model"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function load(...sets: string[]) {
  const file = join(folder, "run.yaml");
  writeFileSync(file, "model: {path: model}\nsteps: 9\ntasks: [{name: kg}]\n");
  return loadTrainConfig(file, sets).config;
}
const [native, webgpu] = ["device=native", "device=webgpu"];
const learner = "learner.adapter=A";
const rollouts = "rollout.adapters=[B, C]";

it("are taken where they do something", () => {
  const config = load(webgpu, learner, rollouts, "rollout.processes=3");
  expect([config.learner.adapter, config.rollout.adapters]).toEqual(["A", ["B", "C"]]);
  expect(load(webgpu, "webgpu.adapter=D", learner).webgpu.adapter).toBe("D");
});

it.each([
  [[native, learner], /learner\.adapter has no effect: device is native/],
  [[webgpu, "native.weights=bf16"], /native\.weights has no effect: device is webgpu/],
  [[native, "webgpu.weights=bf16"], /webgpu\.weights has no effect: device is native/],
  [[native, "rollout.adapters=[B]"], /rollout\.adapters has no effect: device is native/],
  [[learner], /learner\.adapter: device auto may choose native[\s\S]*device: webgpu/],
  [
    [webgpu, "rollout.adapters=[B]", learner, "webgpu.adapter=D"],
    /webgpu\.adapter has no effect: learner\.adapter and/,
  ],
  [[webgpu, rollouts], /more adapters than there are rollout processes[\s\S]*rollout\.processes = 1/],
  [[webgpu, "rollout.adapters=[]"], /Wrong value for `rollout\.adapters`/],
])("%j is refused", (sets, message) => {
  expect(() => load(...sets)).toThrow(message);
});
