/** Options of filters, tasks, sampling and panels that do nothing, or do not go together, are refused by name. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadTrainConfig } from "../../src/config/load.ts";
import { AgentRLError } from "../../src/errors.ts";

let folder: string;
let file: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-control-"));
  mkdirSync(join(folder, "model"));
  file = join(folder, "run.yaml");
});
afterAll(() => rmSync(folder, { recursive: true }));

function load(kg: string, os: string | null, more = "") {
  const tasks = [`{name: kg${kg && `, ${kg}`}}`, ...(os === null ? [] : [`{name: os${os && `, ${os}`}}`])];
  writeFileSync(
    file,
    `model: {path: model}\nsteps: 9\ntasks:\n${tasks.map((task) => `  - ${task}\n`).join("")}${more}\n`,
  );
  return loadTrainConfig(file).config;
}

function refusal(...args: Parameters<typeof load>): AgentRLError {
  try {
    load(...args);
  } catch (error) {
    if (error instanceof AgentRLError) return error;
    throw error;
  }
  throw new Error("not refused");
}

describe("without effect", () => {
  it.each([
    ["lossWeight: 2", null, "", "tasks.0.lossWeight", "there is one task"],
    ["lossWeight: 2", "lossWeight: 2", "", "tasks.0.lossWeight", "all tasks have the same"],
    ["policies: {}", "", "", "tasks.0.policies", "there is no crossPolicy.pool"],
    ["minShare: 0.5", null, "", "tasks.0.minShare", "there is one task"],
    ["minShare: 0.2", "", "mode: sync", "tasks.0.minShare", "mode is sync"],
    ["minShare: 0.2", "", "mode: one-step-off", "tasks.0.minShare", "in the order of issue"],
    ["minShare: 0.2", "", "staleness: {overdue: wait}", "tasks.0.minShare", "in the order of issue"],
    ["algorithm: {gamma: 0.5}", "", "", "tasks.0.algorithm.gamma", "belongs to advantage gigpo"],
    // Each entry by its own advantage: the first one's gamma does something.
    [
      "algorithm: {advantage: gigpo, gamma: 0.5}",
      "algorithm: {omega: 2}",
      "",
      "tasks.1.algorithm.omega",
      "belongs to advantage gigpo",
    ],
    ["algorithm: {advantage: rloo, normalizeStd: true}", "", "", "tasks.0.algorithm.normalizeStd", "grpo, gigpo"],
    [
      "algorithm: {advantage: grpo}",
      "algorithm: {advantage: rloo}",
      "algorithm: {advantage: gigpo}",
      "algorithm.advantage",
      "every task has an advantage of its own",
    ],
    [
      "algorithm: {omega: 3}",
      "algorithm: {advantage: grpo}",
      "algorithm: {advantage: gigpo, omega: 2}",
      "algorithm.omega",
      "every task has its own",
    ],
    ["", "", "sampling: {adaptive: {floor: 0.5}}", "sampling.adaptive.floor", "signal is off"],
    ["", null, "sampling: {adaptive: {signal: progress}}", "sampling.adaptive.signal", "there is one task"],
    [
      "",
      "",
      "algorithm: {entropyBonus: 0.1, filters: {zeroVariance: keep}}",
      "algorithm.filters.zeroVariance",
      "all of them count",
    ],
    [
      "",
      "",
      "algorithm: {advantage: gae-turn, filters: {zeroVariance: keep}}",
      "algorithm.filters.zeroVariance",
      "a critic learns from every episode",
    ],
    ["", "", "evaluation: {panels: {kg: kg-eval-01234567}}", "evaluation.panels.kg", "does not evaluate"],
  ])("kg {%s}, os {%s}, %s", (kg, os, more, path, why) => {
    const error = refusal(kg, os, more);
    expect(error.message).toContain(`${path} has no effect: `);
    expect(error.message).toContain(why);
    expect(error.detail.where).toContain(`(${path})`);
  });
});

describe("what does not go together", () => {
  it.each([
    ["lossWeight: 0", "lossWeight: 0", "", "tasks.0.lossWeight", /sum to 0.*/],
    ["minShare: 0.7", "minShare: 0.6", "", "tasks.0.minShare", /more than a batch/],
    ["minShare: 0.7", "", "", "tasks.0.minShare", /kg is not drawn often enough/],
    [
      "minShare: 0.4",
      "",
      "sampling: {adaptive: {signal: progress, floor: 0.5}}",
      "tasks.0.minShare",
      /sampling.adaptive.floor/,
    ],
    ["maxTokensPerTurn: 2048", "", "", "tasks.0.maxTokensPerTurn", /whole context/],
    ["latency: {medianMs: 200, p99Ms: 200}", "", "", "tasks.0.latency.p99Ms", /no tail/],
    ["algorithm: {advantage: gigpo}", "", "algorithm: {advantage: gae-token}", "tasks.0.algorithm", /beside a critic/],
    [
      "algorithm: {advantage: rloo}",
      "",
      "algorithm: {advantage: reinforce++}\nrollout: {groupSize: 1}",
      "tasks.0.algorithm.advantage",
      /group of one episode/,
    ],
    [
      "",
      "",
      "evaluation: {every: 5, panels: {dbbench: dbbench-eval-01234567}}",
      "evaluation.panels.dbbench",
      /not trained: dbbench/,
    ],
    ...["reinforce++", "gigpo", "gae-turn", "gae-token"].map((advantage): [string, string, string, string, RegExp] => [
      "",
      "",
      `algorithm: {advantage: ${advantage}, filters: {dynamicSampling: {maxFactor: 3}}}`,
      "algorithm.filters.dynamicSampling.maxFactor",
      /throw away groups that teach/,
    ]),
    [
      "",
      "algorithm: {advantage: reinforce++}",
      "algorithm: {filters: {dynamicSampling: {maxFactor: 3}}}",
      "algorithm.filters.dynamicSampling.maxFactor",
      /advantage of task os/,
    ],
    [
      "",
      "",
      "algorithm: {taskNormalization: paper, filters: {dynamicSampling: {maxFactor: 3}}}",
      "algorithm.filters.dynamicSampling.maxFactor",
      /-mean\/spread/,
    ],
  ])("kg {%s}, os {%s}, %s", (kg, os, more, path, reason) => {
    const error = refusal(kg, os, more);
    expect(error.message).toMatch(reason);
    expect(error.detail.where).toContain(`(${path})`);
  });

  it.each([
    ["lossWeight: -1", "tasks.0.lossWeight", "a number ≥ 0"],
    ["latency: {medianMs: 0, p99Ms: 9}", "tasks.0.latency.medianMs", "a number > 0 and ≤ 60000"],
    ["latency: {medianMs: 5, p99Ms: 60001}", "tasks.0.latency.p99Ms", "a number > 0 and ≤ 60000"],
    ["minShare: 1.5", "tasks.0.minShare", "a number ≥ 0 and ≤ 1"],
    ["algorithm: {advantage: gae-turn}", "tasks.0.algorithm.advantage", /^one of grpo/],
    ["algorithm: {incompletePenalty: 1}", "tasks.0.algorithm.incompletePenalty", "a number ≥ -1000 and ≤ 0"],
  ])("a wrong value: %s", (kg, path, expected) => {
    const error = refusal(kg, "");
    expect(error.message).toContain(`Wrong value for \`${path}\``);
    expect(error.detail.expected).toMatch(expected);
  });
});

it("all of it together is a config", () => {
  const config = load(
    "weight: 3, maxTokensPerTurn: 64, lossWeight: 2, minShare: 0.3, algorithm: {advantage: rloo, incompletePenalty: -1}",
    "lossWeight: 0, minShare: 0.1",
    [
      "sampling: {adaptive: {signal: progress, floor: 0.5, halfLife: 8}}",
      "algorithm: {filters: {zeroVariance: keep, overlong: mask, dynamicSampling: {maxFactor: 3}}}",
      "evaluation: {every: 5, panels: {kg: 0123abcd}}",
    ].join("\n"),
  );
  expect(config.tasks[0]).toMatchObject({ lossWeight: 2, algorithm: { advantage: "rloo", incompletePenalty: -1 } });
  expect(config.algorithm.filters).toEqual({
    zeroVariance: "keep",
    overlong: "mask",
    dynamicSampling: { maxFactor: 3 },
  });
  expect(config.evaluation.panels).toEqual({ kg: "0123abcd" });
});
