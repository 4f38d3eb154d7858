import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadSftConfig, loadTrainConfig } from "../../src/config/load.ts";
import { overdueOf } from "../../src/config/staleness.ts";
import { AgentRLError } from "../../src/errors.ts";
import { maxLagOf } from "../../src/pipeline/plan.ts";

let folder: string;
let file: string;

const valid = `model:
  path: model
steps: 20
tasks:
  - name: dbbench
  - name: kg
    weight: 2
`;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-config-"));
  mkdirSync(join(folder, "model"));
  file = join(folder, "run.yaml");
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes the text as the config file and loads it. */
function load(text: string, sets: string[] = []) {
  writeFileSync(file, text);
  return loadTrainConfig(file, sets).config;
}

function loadError(text: string, sets: string[] = []): AgentRLError {
  try {
    load(text, sets);
  } catch (error) {
    if (error instanceof AgentRLError) return error;
    throw error;
  }
  throw new Error("the config was accepted");
}

describe("a valid config", () => {
  it("gets the defaults of every section it leaves out", () => {
    const config = load(valid);
    expect(config.mode).toBe("async");
    expect(config.rollout.groupSize).toBe(8);
    expect(config.algorithm.incompletePenalty).toBe(-0.2);
    expect(config.verify.fraction).toBe(0.1);
    expect(config.tasks.map(({ name, weight, split }) => [name, weight, split])).toEqual([
      ["dbbench", 1, "train"],
      ["kg", 2, "train"],
    ]);
  });

  it("takes a section with nothing below it as all defaults", () => {
    expect(load(`${valid}optimizer:\n  # lr: 1\n`).optimizer.lr).toBe(1e-5);
  });

  it("resolves paths against the file's folder, those of a flag against the working folder", () => {
    expect(load(valid).model.path).toBe(join(folder, "model"));
    expect(load(valid, ["model.path=src"]).model.path).toBe(join(process.cwd(), "src"));
  });

  it("follows anchors and aliases, with places inside them", () => {
    expect(load(`${valid}evaluation: &e {every: 5}\ncheckpoint: {every: 5}\n`).evaluation.every).toBe(5);
    const error = loadError(`model: &m {path: model}\nsteps: 1\ntasks: [{name: kg}]\nlearner: *m\n`);
    expect(error.message).toContain("Unknown key `learner.path`");
    expect(error.detail.where).toBe(`${file}:1:12 (learner.path)`);
  });
});

describe("an unknown key", () => {
  it("is named with its place and the nearest valid key", () => {
    const error = loadError(`${valid}rollout:\n  groupSzie: 4\n`);
    expect(error.code).toBe("CONFIG");
    expect(error.message).toContain("Unknown key `rollout.groupSzie`");
    expect(error.detail.where).toBe(`${file}:9:3 (rollout.groupSzie)`);
    expect(error.detail.hint).toBe("Did you mean `rollout.groupSize`?");
  });

  it("is found in the section it belongs to", () => {
    const error = loadError(`${valid}groupSize: 4\n`);
    expect(error.detail.where).toBe(`${file}:8:1 (groupSize)`);
    expect(error.detail.hint).toBe("Did you mean `rollout.groupSize`?");
  });

  it("is found in other spellings", () => {
    expect(loadError(`${valid}rollout: {group_size: 4}\n`).detail.hint).toBe("Did you mean `rollout.groupSize`?");
    expect(loadError(`${valid}Rollout: {}\n`).detail.hint).toBe("Did you mean `rollout`?");
  });

  it("like nothing known gets the list of valid keys", () => {
    const error = loadError(`${valid}verify: {bananas: 1}\n`);
    expect(error.detail).toMatchObject({ expected: "one of fraction", hint: "Remove it." });
  });

  it("may be one that JavaScript objects have by nature", () => {
    for (const key of ["__proto__", "constructor", "toString"]) {
      expect(loadError(`${valid}${key}: 1\n`).message).toContain(`Unknown key \`${key}\``);
    }
  });

  it("in a list item is named with its index", () => {
    const error = loadError(valid.replace("weight", "wieght"));
    expect(error.detail.where).toBe(`${file}:7:5 (tasks.1.wieght)`);
    expect(error.detail.hint).toBe("Did you mean `tasks.1.weight`?");
  });
});

describe("a wrong value", () => {
  it.each([
    ["steps: two", "steps", '"two"', "a whole number ≥ 1"],
    ["steps: 1.5", "steps", 1.5, "a whole number ≥ 1"],
    ["steps: 0", "steps", 0, "a whole number ≥ 1"],
    ["steps:", "steps", null, "a whole number ≥ 1"],
    ["steps: .nan", "steps", "NaN", "a whole number ≥ 1"],
    ["steps: 1\nmode: fast", "mode", '"fast"', "one of async, one-step-off, sync"],
    ["steps: 1\nrollout: {topP: 0}", "rollout.topP", 0, "a number > 0 and ≤ 1"],
    ["steps: 1\nrollout: {minP: 1}", "rollout.minP", 1, "a number ≥ 0 and < 1"],
    ["steps: 1\nrollout: {temperature: 0}", "rollout.temperature", 0, "a number > 0 and ≤ 10"],
    ["steps: 1\nalgorithm: {normalizeStd: 1}", "algorithm.normalizeStd", 1, "true or false"],
    ["steps: 1\nalgorithm: {incompletePenalty: 0.1}", "algorithm.incompletePenalty", 0.1, "a number ≥ -1000 and ≤ 0"],
    ["steps: 1\noptimizer: {lr: .inf}", "optimizer.lr", "Infinity", "a number ≥ 0 and ≤ 1"],
    ["steps: 1\nseed: -1", "seed", -1, "a whole number ≥ 0 and ≤ 4294967295"],
    ["steps: 1\noptimizer: 3", "optimizer", 3, /^a section with the keys lr, /],
  ])("%s is refused with got and expected", (lines, path, got, expected) => {
    const error = loadError(valid.replace("steps: 20", lines));
    expect(error.message).toContain(`Wrong value for \`${path}\``);
    expect(error.detail.got).toEqual(got);
    expect(error.detail.expected).toMatch(expected);
    expect(error.detail.where).toMatch(new RegExp(`^${file}:\\d+:\\d+ \\(${path}\\)$`));
  });

  it("missing altogether is named with what it is for", () => {
    const error = loadError(valid.replace("steps: 20\n", ""));
    expect(error.message).toContain("Missing key `steps`");
    expect(error.detail.hint).toBe("Set it: Optimizer steps of the run.");
  });

  it("is not the only one reported: the others follow in the order of the file", () => {
    const { message } = loadError(`${valid}mode: fast\nrollout:\n  topP: 2\nseed: x\n`);
    const places = [...message.matchAll(/run\.yaml:(\d+):/g)].map((match) => Number(match[1]));
    expect(places).toEqual([8, 10, 11]);
  });
});

describe("YAML that cannot be read", () => {
  it.each([
    ["steps: 1\nsteps: 2\n", "2:1", /unique/i],
    ["model: {path: a\nsteps: 1\n", "2:1", /flow map/i],
    ["steps: !!python/object 1\n", "1:8", /tag/i],
  ])("%j ends with its place", (text, place, reason) => {
    const error = loadError(text);
    expect(error.message).toMatch(/^The config is not valid YAML: /);
    expect(error.message).toMatch(reason);
    expect(error.detail.where).toBe(`${file}:${place}`);
  });

  it.each(["", "# nothing\n", "- a\n- b\n", "just text\n"])("%j is not a map", (text) => {
    expect(loadError(text).message).toContain("not a map of sections");
  });

  it("a missing file is named", () => {
    expect(() => loadTrainConfig(join(folder, "none.yaml"))).toThrow(/cannot be read[\s\S]*none\.yaml/);
  });

  it("an alias bomb is refused", () => {
    const levels = Array.from({ length: 9 }, (_, i) => `x${i + 1}: &x${i + 1} [${Array(9).fill(`*x${i}`).join(", ")}]`);
    expect(loadError(`x0: &x0 [a]\n${levels.join("\n")}\n`).message).toContain("not valid YAML");
  });
});

describe("--set", () => {
  it("overrides, adds and reads YAML values", () => {
    const config = load(valid, [
      "rollout.groupSize=4",
      "algorithm.normalizeStd=false",
      "tasks.1.weight=0.5",
      "mode=sync",
    ]);
    expect(config.rollout.groupSize).toBe(4);
    expect(config.algorithm.normalizeStd).toBe(false);
    expect(config.tasks[1]!.weight).toBe(0.5);
    expect(config.mode).toBe("sync");
  });

  it("finds a task by its name", () => {
    expect(load(valid, ["tasks.dbbench.weight=3"]).tasks[0]!.weight).toBe(3);
  });

  it("takes whole lists and sections, and the last of two wins", () => {
    expect(load(valid, ["tasks=[{name: kg}]", "steps=3", "steps=4"])).toMatchObject({
      steps: 4,
      tasks: [{ name: "kg" }],
    });
  });

  it("with no value removes the key, so that its default applies", () => {
    expect(load(`${valid}rollout: {groupSize: 2}\n`, ["rollout.groupSize="]).rollout.groupSize).toBe(8);
  });

  it("errors name the flag", () => {
    const error = loadError(valid, ["rollout.groupSize=many"]);
    expect(error.detail.where).toBe("--set rollout.groupSize=many");
    expect(error.detail.expected).toBe("a whole number ≥ 1");
    expect(loadError(valid, ["rollout.groupSzie=4"]).detail.where).toBe("--set rollout.groupSzie=4");
    expect(loadError(valid, ["rollout.groupSzie=4"]).detail.hint).toBe("Did you mean `rollout.groupSize`?");
  });

  it.each([
    ["steps"],
    ["=3"],
    ["a..b=3"],
    ["__proto__.x=1"],
    ["steps.x=1"],
    ["tasks.7.name=kg"],
    ["tasks.os.weight=1"],
    ["steps={"],
  ])("%s is wrong usage", (set) => {
    const error = loadError(valid, [set]);
    expect(error.code).toBe("USAGE");
    expect(error.detail.where).toBe(`--set ${set}`);
  });
});

describe("options without effect", () => {
  it.each([
    ["mode: sync\nstaleness: {maxLag: 2}", "staleness.maxLag", "mode is sync"],
    ["mode: sync\nstaleness: {overdue: wait}", "staleness.overdue", "mode is sync"],
    ["mode: one-step-off\nstaleness: {maxLag: 1}", "staleness.maxLag", "mode is one-step-off"],
    ["mode: one-step-off\nstaleness: {overdue: drop}", "staleness.overdue", "mode is one-step-off"],
    ["mode: sync\nrollout: {kvOnUpdate: recompute}", "rollout.kvOnUpdate", "no episode is under way"],
    ["mode: sync\nalgorithm: {clipLow: 0.1}", "algorithm.clipLow", "mode is sync"],
    ["optimizer: {minLrRatio: 0.5}", "optimizer.minLrRatio", "schedule is constant"],
    ["checkpoint: {every: 0, keep: 3}", "checkpoint.keep", "checkpoint.every is 0"],
    ["checkpoint: {every: 0, onError: continue}", "checkpoint.onError", "checkpoint.every is 0"],
    ["evaluation: {episodes: 10}", "evaluation.episodes", "evaluation.every is 0"],
    ["algorithm: {tauPos: 2}", "algorithm.tauPos", "belongs to algorithm.objective sapo"],
    ["algorithm: {objective: sapo, clipHigh: 0.3}", "algorithm.clipHigh", "ppo, gspo, gspo-token, cispo"],
    ["algorithm: {objective: dppo, dualClip: 3}", "algorithm.dualClip", "belongs to algorithm.objective ppo"],
    ["algorithm: {advantage: rloo, normalizeStd: false}", "algorithm.normalizeStd", "grpo, gigpo"],
    ["algorithm: {lambda: 0.9}", "algorithm.lambda", "belongs to algorithm.advantage gae-turn, gae-token"],
    ["algorithm: {advantage: gigpo, critic: {lr: 0.1}}", "algorithm.critic.lr", "gae-turn, gae-token"],
    ["algorithm: {advantage: gae-turn, critic: {coefficient: 1}}", "algorithm.critic.coefficient", "trunk is detached"],
    ["algorithm: {advantage: gae-token, omega: 2}", "algorithm.omega", "belongs to algorithm.advantage gigpo"],
    ["algorithm: {omega: 2}", "algorithm.omega", "belongs to algorithm.advantage gigpo"],
    ["algorithm: {correction: {cap: 3}}", "algorithm.correction.cap", "decoupled, token-tis, sequence-tis"],
    ["algorithm: {correction: {method: token-tis, low: 0.5}}", "algorithm.correction.low", "icepop"],
    [
      "algorithm: {correction: {method: sequence-mask, proximal: interpolated}}",
      "algorithm.correction.proximal",
      "icepop",
    ],
    ["algorithm: {clipLow: 0.1, correction: {method: decoupled}}", "algorithm.clipLow", "ratio is exactly 1"],
    ["mode: sync\nalgorithm: {correction: {method: decoupled}}", "algorithm.correction.method", "mode is sync"],
    ["algorithm: {kl: {estimator: k3}}", "algorithm.kl.estimator", "coefficient is 0"],
  ])("%j is refused by name", (lines, path, why) => {
    const error = loadError(`${valid}${lines}\n`);
    expect(error.message).toContain(`${path} has no effect: `);
    expect(error.message).toContain(why);
    expect(error.detail.where).toContain(`(${path})`);
  });

  it("the only task's weight is one", () => {
    expect(loadError(valid, ["tasks=[{name: kg, weight: 2}]"]).message).toContain("tasks.0.weight has no effect");
  });

  it.each([
    ["mode: async\nstaleness: {maxLag: 3, overdue: drop}", 3, "drop"],
    ["mode: one-step-off\nalgorithm: {clipLow: 0.1}\nrollout: {kvOnUpdate: recompute}", 1, "wait"],
    // An evaluation goes on while weights change.
    ["mode: sync\nevaluation: {every: 5}\nrollout: {kvOnUpdate: recompute}", 0, "pace"],
  ])("%j has effect", (lines, maxLag, overdue) => {
    const config = load(`${valid}${lines}\n`);
    expect([maxLagOf(config), overdueOf(config)]).toEqual([maxLag, overdue]);
  });

  it("only what was written counts, not defaults", () => {
    expect(load(`${valid}mode: sync\n`).staleness.maxLag).toBe(4);
  });

  it("from a flag name the flag", () => {
    const error = loadError(`${valid}mode: sync\n`, ["staleness.maxLag=1"]);
    expect(error.detail.where).toBe("--set staleness.maxLag=1");
  });
});

describe("values that do not go together", () => {
  it.each([
    ["rollout: {groupSize: 1}", "(rollout.groupSize)", /grpo/],
    ["rollout: {groupSize: 1}\nalgorithm: {advantage: rloo}", "(rollout.groupSize)", /rloo/],
    ["algorithm: {correction: {method: geometric-mask, low: 0.9}}", "(algorithm.correction.method)", /needs its band/],
    [
      "algorithm: {correction: {method: icepop, low: 3, high: 2}}",
      "(algorithm.correction.low)",
      /band of the correction is empty/,
    ],
    [
      "algorithm: {correction: {method: icepop, low: 2, high: 5}}",
      "(algorithm.correction.low)",
      /leaves out the ratio 1/,
    ],
    [
      "algorithm: {correction: {method: sequence-mask, low: 0.5, high: 0.9}}",
      "(algorithm.correction.high)",
      /leaves out the ratio 1/,
    ],
    [
      "rollout: {groupSize: 1, groupsPerStep: 1}\nalgorithm: {advantage: reinforce++}",
      "(rollout.groupsPerStep)",
      /batch of one episode/,
    ],
    ["optimizer: {weightDecay: 1.0e+30}", "(optimizer.weightDecay)", /weightDecay/],
    ["algorithm: {incompletePenalty: -1.0e+300}", "(algorithm.incompletePenalty)", /incompletePenalty/],
    ["rollout: {maxTokensPerTurn: 512, contextLimit: 512}", "(rollout.maxTokensPerTurn)", /whole context/],
  ])("%j", (lines, place, reason) => {
    const error = loadError(`${valid}${lines}\n`);
    expect(error.message).toMatch(reason);
    expect(error.detail.where).toContain(place);
  });

  it("a file of tasks with a split that a file does not have", () => {
    const error = loadError(valid, ["tasks=[{name: kg, options: {data: package.json}}]"]);
    expect(error.message).toContain('one split, "data"');
    const tasks = "tasks=[{name: kg, split: data, options: {data: package.json}}]";
    expect(load(valid, [tasks]).tasks[0]!.options.data).toBe(join(process.cwd(), "package.json"));
    expect(loadError(valid, [tasks, "evaluation.every=5"]).message).toContain('no split "eval"');
    expect(load(valid, [tasks, "evaluation={every: 5, split: data}"]).evaluation.split).toBe("data");
  });

  it("a task listed twice", () => {
    expect(loadError(valid.replace("kg", "dbbench")).detail.where).toBe(`${file}:6:5 (tasks.1.name)`);
  });

  it("a model folder that is not there, relative to the file and not to the working folder", () => {
    const error = loadError(valid.replace("path: model", "path: src"));
    expect(error.message).toContain("model.path does not exist");
    expect(error.detail.where).toBe(`${file}:2:3 (model.path)`);
    expect(error.detail.hint).toContain("start at its own folder");
  });
});

describe("a model on the Hub", () => {
  const named = (model: string) => valid.replace("path: model", `path: ${model}`);

  it("is what no path leads to, and is written so that it stays one", () => {
    writeFileSync(file, named("org/name@v1"));
    const { config, yaml } = loadTrainConfig(file);
    expect(config.model.path).toBe("hf://org/name@v1");
    expect(yaml).toContain("path: hf://org/name@v1");
    // A run folder's copy means the same wherever it lies.
    mkdirSync(join(folder, "org", "name@v1"), { recursive: true });
    expect(load(yaml).model.path).toBe("hf://org/name@v1");
    expect(load(named("org/name@v1")).model.path).toBe(join(folder, "org", "name@v1"));
    expect(load(valid, ["model.path=hf://org/name/q4.gguf"]).model.path).toBe("hf://org/name/q4.gguf");
  });

  it("may be a policy of the pool, and of sft the model or the tokenizer", () => {
    const pool = "crossPolicy={pool: [{name: old, kind: checkpoint, path: org/old, probability: 0.2}]}";
    expect(load(valid, [pool]).crossPolicy!.pool[0]!.path).toBe("hf://org/old");
    writeFileSync(file, "out: out\ntasks: [{name: kg}]\nmodel: {path: org/name}\n");
    expect(loadSftConfig(file).config.model.path).toBe("hf://org/name");
  });

  it("has a name that can be one", () => {
    const error = loadError(named("hf://name"));
    expect(error.message).toContain("model.path is no name on the Hugging Face Hub");
    expect(error.detail.where).toBe(`${file}:2:3 (model.path)`);
    // Anything else is a path that leads nowhere.
    expect(loadError(named("./org/nothing")).message).toContain("model.path does not exist");
    expect(loadError(named("models/nothing.gguf")).message).toContain("model.path does not exist");
  });
});

describe("the sft config", () => {
  const base = "out: out\ntasks: [{name: kg}]\n";
  const fresh =
    "model: {new: {hiddenSize: 64, intermediateSize: 128, layers: 2, heads: 4, kvHeads: 2, headDim: 16}}\ntokenizer: model\n";
  const sft = (text: string) => {
    writeFileSync(file, text);
    return loadSftConfig(file).config;
  };

  it("takes a new model or a folder", () => {
    expect(sft(base + fresh).model.new?.tieWordEmbeddings).toBe(true);
    expect(sft(`${base}model: {path: model}\n`)).toMatchObject({
      out: join(folder, "out"),
      model: { path: join(folder, "model") },
    });
  });

  it.each([
    [`${base}model: {}\n`, /Neither model.path nor model.new/],
    [base + fresh.replace("model: {", "model: {path: model, "), /Both model.path and model.new/],
    [base + fresh.replace("heads: 4", "heads: 4, vocabSize: 512"), /model.new.vocabSize has no effect/],
    [base + fresh.replace("kvHeads: 2", "kvHeads: 3"), /do not divide/],
    [
      base + fresh.replace("model: {", "model: {toolFormat: json, ").replace(/tokenizer.*/, ""),
      /toolFormat has no effect/,
    ],
    [base + fresh.replace("headDim: 16", "headDim: 15"), /a multiple of 2/],
    [`${base}model: {path: model}\ntokenizer: model\n`, /tokenizer has no effect/],
    [`${base}${fresh}epochs: 1\nsteps: 5\n`, /Both epochs and steps/],
  ])("refuses what contradicts itself (%#)", (text, reason) => {
    expect(() => sft(text)).toThrow(reason);
  });
});

describe("a task's name", () => {
  it("may be a file of one's own, which starts at the config's folder", () => {
    writeFileSync(join(folder, "mine.ts"), "");
    expect(load(valid.replace("dbbench", "./mine.ts")).tasks[0]!.name).toBe(join(folder, "mine.ts"));
    const error = loadError(valid.replace("dbbench", "./other.ts"));
    expect(error.detail.where).toMatch(/run\.yaml:5/);
    expect(error.message).toContain("tasks.0.name does not exist");
  });

  it("that is neither known nor a file is refused with what there is", () => {
    const error = loadError(valid.replace("dbbench", "dbbbench"));
    expect(error.detail.got).toBe('"dbbbench"');
    expect(error.detail.expected).toBe(
      "one of alfworld, dbbench, kg, os, webshop, or a path to your own file (.ts, .js)",
    );
  });
});
