/** Whole runs with everything that changes which groups are sampled and trained: reproducible, resumable, accounted for. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { latestCheckpoint, readCheckpoint } from "../../src/pipeline/checkpoint.ts";
import { fromRanges } from "../../src/pipeline/messages.ts";
import { killedAfter, run, runOptions, temporaryFolder } from "./tiny-run.ts";

/** It solves some of the easy tasks: groups with a signal and without. */
const model = fileURLToPath(new URL("../../models/tiny", import.meta.url));
const folder = temporaryFolder();
afterAll(() => folder.remove());

function settings(steps: number, more: Record<string, unknown> = {}) {
  return {
    model: { path: model },
    seed: 5,
    steps,
    mode: "sync",
    tasks: [
      { name: "dbbench", levels: { 1: 1 }, maxTurns: 3, algorithm: { incompletePenalty: -0.4 } },
      { name: "kg", levels: { 1: 1 }, maxTurns: 3, maxTokensPerTurn: 40 },
    ],
    sampling: { adaptive: { signal: "progress", floor: 0.4, halfLife: 2 } },
    rollout: { maxSequences: 16, groupSize: 3, groupsPerStep: 3, maxTokensPerTurn: 64, contextLimit: 512 },
    learner: { microBatchTokens: 1500 },
    algorithm: { filters: { dynamicSampling: { maxFactor: 2 } } },
    optimizer: { lr: 0.003 },
    checkpoint: { every: 2 },
    ...more,
  };
}

it("a synchronous run with dynamic and adaptive sampling gives the same bits twice, and over a resume", async () => {
  const options = runOptions(folder.path, "whole", settings(4));
  const whole = await run(options);
  const processes = { ...settings(4).rollout, processes: 2, maxSequences: 6 };
  const { config, yaml } = runOptions(folder.path, "parts", settings(4, { rollout: processes }));
  const resumed = await run({ ...killedAfter(options, 2, join(folder.path, "parts")), config, yaml });
  const told = ({ checksum, samplingWeights, spareGroups, tasks }: (typeof whole.steps)[number]) => ({
    checksum,
    samplingWeights,
    spareGroups,
    tasks,
  });
  expect(resumed.steps.map(told)).toEqual(whole.steps.slice(2).map(told));

  const { state } = readCheckpoint(latestCheckpoint(join(folder.path, "whole", "checkpoints"))!);
  const spares = whole.steps.reduce((sum, step) => sum + step.spareGroups, 0);
  expect(fromRanges(state.trainedGroups)).toEqual([...Array(4 * 3 + spares).keys()]);
  expect(state.sampling!.issued).toBe(12 + spares);
  expect(spares).toBeGreaterThan(0);
  expect(whole.steps[0]!.samplingWeights).not.toEqual(whole.steps[3]!.samplingWeights);
  for (const step of whole.steps) {
    const tasks = Object.values(step.tasks);
    expect(tasks.reduce((sum, task) => sum + task.episodes, 0)).toBe(3 * (3 + step.spareGroups));
    expect(tasks.reduce((sum, task) => sum + task.gradientShare, 0)).toBeCloseTo(step.trainedTokens > 0 ? 1 : 0, 9);
    expect(tasks.reduce((sum, task) => sum + task.tokenShare, 0)).toBeCloseTo(1, 9);
    expect(Object.values(step.samplingWeights).reduce((a, b) => a + b)).toBeCloseTo(1, 9);
    expect(step.mismatch).toBe(0);
  }
  // Of the tasks' own limits: no turn of kg is longer than its 40 tokens, of 3 at most.
  for (const { tasks } of whole.steps) {
    const { sampledTokens, turns, episodes } = tasks.kg ?? { sampledTokens: 0, turns: 0, episodes: 0 };
    expect(turns).toBeLessThanOrEqual(3);
    expect(sampledTokens).toBeLessThanOrEqual(40 * turns * episodes + 1e-6);
  }
});

it("an asynchronous run with them trains within its lag, every group once", async () => {
  const tasks = [
    { name: "dbbench", levels: { 1: 1 }, minShare: 0.2 },
    { name: "kg", levels: { 1: 1 } },
  ];
  const { steps } = await run(
    runOptions(folder.path, "async", settings(4, { mode: "async", tasks, staleness: { maxLag: 2 } })),
  );
  expect(steps.length).toBe(4);
  for (const step of steps) expect(step.maxLag).toBeLessThanOrEqual(2);
});
