/** A whole run in which weights change while episodes are under way, and contexts are recomputed when they do. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { readCheckpoint } from "../../src/pipeline/checkpoint.ts";
import type { RunStep } from "../../src/pipeline/train.ts";
import { makeModel, run, runOptions, tasks, temporaryFolder } from "./tiny-run.ts";

const folder = temporaryFolder();
let model = "";
beforeAll(async () => {
  model = await makeModel(folder.path);
});
afterAll(() => folder.remove());

const rollout = { maxSequences: 16, groupSize: 4, groupsPerStep: 2, maxTokensPerTurn: 24, contextLimit: 320 };

function play(name: string, overrides: Record<string, unknown>) {
  return run(
    runOptions(folder.path, name, {
      model: { path: model },
      seed: 5,
      steps: 6,
      tasks,
      rollout,
      algorithm: { entropyBonus: 0.01 },
      optimizer: { lr: 0.003 },
      verify: { fraction: 1 },
      checkpoint: { every: 0 },
      ...overrides,
    }),
  );
}

/** How many tokens of all steps were behind by how many versions. */
function lagsOf(steps: RunStep[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { lagTokens } of steps.flatMap((step) => Object.values(step.tasks))) {
    for (const [lag, count] of Object.entries(lagTokens)) sums[lag] = (sums[lag] ?? 0) + count;
  }
  return sums;
}

const total = (lags: Record<string, number>) => Object.values(lags).reduce((sum, count) => sum + count, 0);

it("one step off, with contexts recomputed at each update: every token of a run is compared, and equal to the bit", async () => {
  const { summary, steps } = await play("one-step-off", {
    mode: "one-step-off",
    rollout: { ...rollout, kvOnUpdate: "recompute" },
  });
  expect([summary.mismatch, summary.mismatchTokens]).toEqual([0, summary.sampledTokens]);
  expect([summary.maxLag, summary.abortedTokens]).toEqual([1, 0]);
  const lags = lagsOf(steps);
  expect(Object.keys(lags)).toEqual(["0", "1"]);
  expect(total(lags)).toBe(summary.sampledTokens);
  const { state } = readCheckpoint(summary.checkpoint);
  expect(state.trainedGroups).toEqual([[0, 11]]);
  // At least the first version and a later one, at most each that there was.
  const { weightsVerified } = steps.at(-1)!;
  expect(weightsVerified).toBeGreaterThanOrEqual(2);
  expect(weightsVerified).toBeLessThanOrEqual(7);
});
