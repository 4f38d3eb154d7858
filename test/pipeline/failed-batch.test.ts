/** A step that cannot be taken: the run ends with the weights before it, and the step can be computed again. */
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { loadModelFolder } from "../../src/model/files.ts";
import { packTensors, parameterLayout } from "../../src/model/parameters.ts";
import { readFailedBatch, replayFailedBatch } from "../../src/pipeline/failed-batch.ts";
import { failureOf } from "../failure.ts";
import { makeModel, run, runOptions, tasks, temporaryFolder } from "./tiny-run.ts";

const cli = fileURLToPath(new URL("../../bin/agentrl.js", import.meta.url));
const folder = temporaryFolder();
let model = "";
beforeAll(async () => {
  model = await makeModel(folder.path);
});
afterAll(() => folder.remove());

function weightsOf(path: string): Float32Array {
  const { config, tensors } = loadModelFolder(path);
  const weights = packTensors(parameterLayout(config), (name) => tensors.read(name));
  tensors.close();
  return weights;
}

it("keeps the weights before it, says where they and the batch are, and replays to the same end", async () => {
  const options = runOptions(folder.path, "run", {
    model: { path: model },
    seed: 3,
    steps: 2,
    mode: "sync",
    tasks,
    rollout: { maxSequences: 8, groupSize: 4, groupsPerStep: 2, maxTokensPerTurn: 8, contextLimit: 320 },
    // Its gradient is more than float32 holds.
    algorithm: { entropyBonus: 1e300 },
    optimizer: { lr: 0.01 },
  });
  const ended = await failureOf(run(options));
  expect(ended.code).toBe("NOT_FINITE");
  expect(ended.message).toMatch(/The loss is not finite[\s\S]*agentrl replay /);

  const name = readdirSync(options.out).find((entry) => entry.endsWith(".batch"))!;
  expect(name).toBe("failed-step-000001.batch");
  const file = join(options.out, name);
  expect(ended.message).toContain(file);
  const { checkpoint, groups } = readFailedBatch(file);
  expect(groups.map((group) => group.length)).toEqual([4, 4]);
  expect(weightsOf(join(checkpoint, "model"))).toEqual(weightsOf(model));

  const again = await failureOf(replayFailedBatch(file));
  expect(again.code).toBe("NOT_FINITE");
  expect(ended.message).toContain(again.detail.where!);
  const replayed = promisify(execFile)(process.execPath, [cli, "replay", file]);
  await expect(replayed).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining(again.detail.where!) });
});

it("a file that is no such batch is refused", async () => {
  const error = await failureOf(replayFailedBatch(join(model, "config.json")));
  expect(error).toMatchObject({ code: "USAGE" });
  expect(error.message).toMatch(/Not the batch of a failed step[\s\S]*failed-step/);
});
