/** Checkpoints on disk: what `latest` names is whole whatever is written beside it. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { expectedTensors, loadModelFolder, saveModelFolder } from "../../src/model/files.ts";
import {
  type CheckpointContent,
  latestCheckpoint,
  readCheckpoint,
  writeCheckpoint,
} from "../../src/pipeline/checkpoint.ts";
import { temporaryFolder } from "./tiny-run.ts";

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder.remove());

const model = loadModelFolder(join(import.meta.dirname, "../../models/tiny"));
const tensors = new Map([...expectedTensors(model.config).keys()].map((name) => [name, model.tensors.read(name)]));

function content(step: number, trained: number): CheckpointContent {
  return {
    state: {
      format: 1,
      step,
      seed: 1,
      configHash: "0123456789abcdef",
      trainedGroups: [[0, trained]],
      optimizerStep: step,
      checksum: "0011223344556677",
    },
    saveModel: (target) => saveModelFolder(target, { ...model, tensors }),
    optimizer: { m: new Float32Array(4).fill(step), v: new Float32Array(4).fill(trained) },
  };
}

const trainedIn = (checkpoint: string) => readCheckpoint(checkpoint).state.trainedGroups;

it("keeps the newest, and `latest` names the last that was written", () => {
  for (const step of [1, 2, 3]) writeCheckpoint(folder.path, content(step, step), 2);
  expect(readdirSync(folder.path).sort()).toEqual(["latest", "step-000002", "step-000003"]);
  expect(trainedIn(latestCheckpoint(folder.path)!)).toEqual([[0, 3]]);
});

it("of a step that has one already is written beside it, which stays whole until `latest` has moved", () => {
  const first = writeCheckpoint(folder.path, content(3, 5), 4);
  const second = writeCheckpoint(folder.path, content(3, 6), 4);
  const third = writeCheckpoint(folder.path, content(3, 7), 4);
  expect(new Set([first, second, third]).size).toBe(3);
  expect([first, second, third].map(trainedIn)).toEqual([[[0, 5]], [[0, 6]], [[0, 7]]]);
  expect(latestCheckpoint(folder.path)).toBe(third);
  const next = writeCheckpoint(folder.path, content(4, 8), 2);
  expect(readdirSync(folder.path).filter((name) => name.startsWith("step"))).toHaveLength(2);
  expect([third, next].map(trainedIn)).toEqual([[[0, 7]], [[0, 8]]]);
});

it("with nothing new in it is not written again", () => {
  const first = writeCheckpoint(folder.path, content(3, 5), 2);
  const { ino } = statSync(first);
  expect(writeCheckpoint(folder.path, content(3, 5), 2)).toBe(first);
  expect(statSync(first).ino).toBe(ino);
});

it("replaces what was renamed into place but never became `latest`", () => {
  writeCheckpoint(folder.path, content(1, 1), 2);
  mkdirSync(join(folder.path, "step-000002"));
  const second = writeCheckpoint(folder.path, content(2, 2), 2);
  expect(second).toBe(join(folder.path, "step-000002"));
  expect(trainedIn(second)).toEqual([[0, 2]]);
});

it("removes what a writer that is dead has left unfinished, and nothing of a living one's", async () => {
  const dead = spawnSync(process.execPath, ["--version"]).pid;
  const living = spawn("tail", ["-f", "/dev/null"], { stdio: "ignore" });
  try {
    const names = [dead, living.pid].map((pid) => `.step-000002.${pid}.tmp`);
    for (const name of names) mkdirSync(join(folder.path, name, "model"), { recursive: true });
    writeCheckpoint(folder.path, content(1, 1), 2);
    expect(names.filter((name) => readdirSync(folder.path).includes(name))).toEqual([names[1]]);
  } finally {
    living.kill();
    await once(living, "exit");
  }
});
