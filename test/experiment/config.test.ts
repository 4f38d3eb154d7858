import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { loadExperiment, setsOf } from "../../src/config/experiment.ts";
import { loadTrainConfig } from "../../src/config/load.ts";

const folder = mkdtempSync(join(tmpdir(), "agentrl-experiment-"));
afterAll(() => rmSync(folder, { recursive: true }));

function load(text: string) {
  const file = join(folder, "experiment.yaml");
  writeFileSync(file, text);
  return () => loadExperiment(file);
}

const good = `question: q
base: base.yaml
seeds: [4]
arms: [{name: a}, {name: b, set: {algorithm.kl.coefficient: 0.5, tasks: [{name: kg}]}}]
baseline: a
`;

describe("an experiment's file", () => {
  it("gives every arm the base's keys, its own, and a seed, as flags that the config reader takes", () => {
    const config = load(good.replace("seeds", "set: {steps: 7}\nseeds"))();
    expect(config.base).toBe(join(folder, "base.yaml"));
    writeFileSync(config.base, "model: {path: .}\nsteps: 3\ntasks: [{name: os}]\n");
    const loaded = config.arms.map((arm) => loadTrainConfig(config.base, setsOf(config, arm, 4)).config);
    expect(
      loaded.map(({ steps, seed, tasks, algorithm }) => [steps, seed, tasks[0]!.name, algorithm.kl.coefficient]),
    ).toEqual([
      [7, 4, "os", 0],
      [7, 4, "kg", 0.5],
    ]);
  });

  it("reads a path in an arm from its own folder", () => {
    const config = load(good.replace("tasks: [{name: kg}]", "model.path: ."))();
    writeFileSync(config.base, "model: {path: .}\nsteps: 3\ntasks: [{name: os}]\n");
    expect(loadTrainConfig(config.base, setsOf(config, config.arms[1]!, 4), config.folder).config.model.path).toBe(
      folder,
    );
  });

  it.each([
    ["baseline: a", "baseline: c", /baseline is no arm.*\n.*experiment\.yaml\n.*c\n.*a, b/],
    ["{name: b", "{name: a", /Arm a is listed twice/],
    ["seeds: [4]", "seeds: []", /`seeds`/],
    ["question: q", "qestion: q", /`question`/],
    ["name: b", "name: ../b", /`arms\.1\.name`/],
    ["question: q", "question: [", /cannot be read/],
  ])("is refused by name when %j is %j", (from, to, message) => {
    expect(load(good.replace(from, to))).toThrow(message);
  });
});

describe("the experiments that ship with the project", () => {
  const own = join(import.meta.dirname, "../../docs/experiments");
  it.each(readdirSync(own).filter((name) => name.endsWith(".yaml")))(
    "%s: every arm is a config that a run takes",
    (name) => {
      const config = loadExperiment(join(own, name));
      expect(config.seeds.length).toBeGreaterThanOrEqual(3);
      for (const arm of config.arms) {
        for (const seed of config.seeds) loadTrainConfig(config.base, setsOf(config, arm, seed), config.folder);
      }
    },
  );
});
