/**
 * Exactly once, whatever is killed and when: real runs, real SIGKILLs, the supervisor included. KILL_RUNS, KILL_SEED
 * and KILL_STEPS set how many runs there are, which, and of how many steps.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { killedRun, type Outcome, unbrokenRun } from "./kill-run.ts";
import { makeModel, tasks, temporaryFolder } from "./tiny-run.ts";

const runs = Number(process.env.KILL_RUNS ?? 2);
const firstSeed = Number(process.env.KILL_SEED ?? 0);
const steps = Number(process.env.KILL_STEPS ?? 5);
const groupsPerStep = 4;
/** Milliseconds: a run starts four processes up to four times, on a machine that may be busy with others. */
const timeout = 300_000;
const onLinux = process.platform === "linux";
if (!onLinux) console.log("skipped: processes are found through /proc, which only Linux has");

const folder = temporaryFolder();
let model = "";
afterAll(() => folder.remove());

/** Writes the config of a run and returns its file. */
function configFile(mode: "sync" | "async", processes: number): string {
  const file = join(folder.path, `${mode}-${processes}.yaml`);
  const config = {
    model: { path: model },
    seed: 3,
    steps,
    mode,
    tasks,
    rollout: { processes, maxSequences: 16, groupSize: 4, groupsPerStep, maxTokensPerTurn: 16, contextLimit: 320 },
    learner: { microBatchTokens: 700 },
    algorithm: { entropyBonus: 0.01 },
    optimizer: { lr: 0.003 },
    checkpoint: { every: 1, keep: 2 },
    ...(mode === "async" && { staleness: { maxLag: 2 } }),
  };
  writeFileSync(file, stringify(config));
  return file;
}

describe.skipIf(!onLinux)("a run whose processes are killed at random instants", () => {
  let whole: Awaited<ReturnType<typeof unbrokenRun>>;
  beforeAll(async () => {
    model = await makeModel(folder.path);
    whole = await unbrokenRun(configFile("sync", 1), join(folder.path, "whole"));
  });

  const everyGroupOnce = [...Array(steps * groupsPerStep).keys()];
  const everyStep = Array.from({ length: steps }, (_, i) => i + 1);
  function expectWhole({ trainedGroups, steps, left, output }: Outcome): void {
    expect({ trainedGroups, steps }, output).toEqual({ trainedGroups: everyGroupOnce, steps: everyStep });
    expect(left, output).toEqual({ processes: [], segments: [] });
  }

  it("trains every group once when nothing is killed", () => {
    expectWhole(whole);
  });

  const summary: string[] = [];
  for (let i = 0; i < runs; i++) {
    const seed = firstSeed + i;
    const mode = seed % 2 === 1 ? "sync" : "async";
    it(
      `(${mode}, seed ${seed}) trains every group once and leaves nothing behind`,
      async () => {
        const began = performance.now();
        const outcome = await killedRun({
          seed,
          // Synchronous runs give the same weights however they are spread over processes.
          configOf: (start) => configFile(mode, mode === "sync" && start === 0 ? 1 : 2),
          out: join(folder.path, `killed-${seed}`),
          steps,
          kills: 1 + (Math.floor(seed / 2) % 3),
          pace: whole.pace,
        });
        const kills = outcome.kills.map(
          ({ role, afterSteps, start }) => `${role} at ${afterSteps} (start ${start + 1})`,
        );
        const seconds = ((performance.now() - began) / 1000).toFixed(1);
        summary.push(
          `${mode}, seed ${seed}: ${kills.join(", ") || "nothing was hit"}; ${outcome.starts} starts, ${seconds} s`,
        );
        expectWhole(outcome);
        // Whatever else is killed, the run mends by itself.
        const supervisors = outcome.kills.filter(({ role }) => role === "supervisor").length;
        expect(outcome.starts, outcome.output).toBe(1 + supervisors);
        if (mode === "sync") expect(outcome.weights, outcome.output).toBe(whole.weights);
      },
      timeout,
    );
  }

  afterAll(() => {
    console.log(summary.join("\n"));
  });
});
