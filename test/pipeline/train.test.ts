/**
 * Whole runs: separate rollout and learner processes, real shared memory, real environments. The laws that the design
 * promises: bit-identical synchronous runs, mismatch exactly 0, a bounded lag, exactly-once after a kill.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readMetrics } from "../../src/observe/metrics.ts";
import { TraceReader } from "../../src/observe/traces/reader.ts";
import type { TraceSummary } from "../../src/observe/traces/trace.ts";
import { latestCheckpoint, readCheckpoint } from "../../src/pipeline/checkpoint.ts";
import { policyOf } from "../../src/pipeline/eval-policies.ts";
import { fromRanges } from "../../src/pipeline/messages.ts";
import type { RunStep } from "../../src/pipeline/train.ts";
import { Tokenizer } from "../../src/text/tokenizer.ts";
import { killedAfter, makeModel, run, runOptions, tasks, temporaryFolder } from "./tiny-run.ts";

const folder = temporaryFolder();
let model = "";
beforeAll(async () => {
  model = await makeModel(folder.path);
});
afterAll(() => folder.remove());

function settings(overrides: Record<string, unknown> = {}) {
  return {
    model: { path: model },
    seed: 5,
    steps: 4,
    mode: "sync",
    tasks,
    rollout: { maxSequences: 16, groupSize: 4, groupsPerStep: 4, maxTokensPerTurn: 24, contextLimit: 320 },
    learner: { microBatchTokens: 700 },
    // A model that knows nothing earns nothing; the bonus gives it a gradient all the same.
    algorithm: { entropyBonus: 0.01 },
    optimizer: { lr: 0.003 },
    verify: { fraction: 1 },
    checkpoint: { every: 2 },
    ...overrides,
  };
}

function childrenOf(pid: number): number[] {
  const out = execFileSync("ps", ["-o", "pid=,args=", "--ppid", String(pid)], {
    encoding: "utf8",
    maxBuffer: 64 << 20,
  });
  return out
    .split("\n")
    .filter((line) => /pipeline\/rollout\.ts/.test(line))
    .map((line) => Number.parseInt(line, 10));
}

describe("a synchronous run", () => {
  let one: Awaited<ReturnType<typeof run>>;
  beforeAll(async () => {
    one = await run(runOptions(folder.path, "sync-one", settings()));
  });

  it("gives bit-identical weights twice, with other threads, batch shapes and process counts", async () => {
    const two = await run(
      runOptions(
        folder.path,
        "sync-two",
        settings({
          rollout: { ...settings().rollout, processes: 2, maxSequences: 8, threads: 2 },
          learner: { microBatchTokens: 700, threads: 2 },
        }),
      ),
    );
    expect(two.steps.map((step) => step.checksum)).toEqual(one.steps.map((step) => step.checksum));
    expect(new Set(one.steps.map((step) => step.checksum)).size).toBe(4);
    for (const step of [...one.steps, ...two.steps]) {
      expect(step.mismatch).toBe(0);
      expect(step.mismatchTokens).toBe(step.sampledTokens);
      expect(step.maxLag).toBe(0);
      expect(step.ratio).toBe(1);
    }
    // An evaluation takes a run's folder for its newest model.
    const newest = latestCheckpoint(join(folder.path, "sync-one", "checkpoints"))!;
    expect(policyOf(join(folder.path, "sync-one"))).toEqual({ kind: "model", folder: join(newest, "model") });
    expect(policyOf(model)).toEqual({ kind: "model", folder: model });
    const weights = (name: string) =>
      readFileSync(join(latestCheckpoint(join(folder.path, name, "checkpoints"))!, "model", "model.safetensors"));
    expect(weights("sync-one").equals(weights("sync-two"))).toBe(true);
  });

  it("goes on from a checkpoint to the same weights as the run that was never stopped", async () => {
    const stop = new AbortController();
    const first = await run({
      ...runOptions(folder.path, "stopped", settings()),
      signal: stop.signal,
      onEvent: (event) => {
        if (event.type === "step" && event.metrics.step === 2) stop.abort();
      },
    });
    expect(first.summary.stopped).toBe(true);
    expect(first.summary.steps).toBeLessThan(4);
    const second = await run({ ...runOptions(folder.path, "stopped", settings()), resume: true });
    expect(second.summary.steps).toBe(4);
    const lines = readMetrics<RunStep>(join(folder.path, "stopped", "metrics.jsonl"));
    expect(lines.map((line) => line.checksum)).toEqual(one.steps.map((step) => step.checksum));
    expect(tracesOf("stopped").map(withoutTimings)).toEqual(tracesOf("sync-one").map(withoutTimings));
  });

  it("keeps what it trained as traces", () => {
    const reader = TraceReader.open(join(folder.path, "sync-one"));
    const traces = reader.summaries();
    expect(traces).toHaveLength(4 * 16);
    const tokenizer = Tokenizer.load(model);
    for (const { step, reward, sampledTokens } of one.steps) {
      const ofStep = traces.filter((trace) => trace.step === step);
      expect(sum(ofStep.map((trace) => trace.sampledTokens))).toBe(sampledTokens);
      expect(sum(ofStep.map((trace) => trace.reward)) / 16).toBeCloseTo(reward, 12);
      // Each step trains what the weights before it sampled.
      expect(new Set(ofStep.flatMap(({ versions }) => versions))).toEqual(new Set([step - 1]));
      // GRPO compares the samples of a group with their mean.
      for (const group of new Set(ofStep.map((trace) => trace.group))) {
        expect(sum(ofStep.filter((trace) => trace.group === group).map((trace) => trace.advantage))).toBeCloseTo(0, 5);
      }
    }
    for (const { id, tokens, turns, sampledTokens, advantage } of traces) {
      const trace = reader.read(id);
      expect(trace.tokens).toHaveLength(tokens);
      expect(trace.tokenTexts.join("")).toBe(tokenizer.decode(trace.tokens));
      expect(trace.messages.filter(({ role }) => role === "assistant")).toHaveLength(turns);
      for (const { role, content } of trace.messages.slice(0, 2)) {
        if (role !== "assistant") expect(trace.tokenTexts.join("")).toContain(content);
      }
      expect(trace.mask.filter((flag) => flag === 1)).toHaveLength(sampledTokens);
      expect([...trace.advantages].filter((value, i) => trace.mask[i] === 0 && value !== 0)).toEqual([]);
      expect(sum(trace.advantages) / sampledTokens).toBeCloseTo(advantage, 5);
    }
  });
});

function sum(values: Iterable<number>): number {
  return [...values].reduce((total, value) => total + value, 0);
}

function tracesOf(run: string): readonly TraceSummary[] {
  return TraceReader.open(join(folder.path, run)).summaries();
}

function withoutTimings({ timings: _, ...summary }: TraceSummary) {
  return summary;
}

describe("a run with a KL penalty", () => {
  it("starts at exactly 0 from its reference, goes away from it, and keeps it over a resume", async () => {
    const algorithm = { entropyBonus: 0.01, kl: { coefficient: 0.1 } };
    const options = runOptions(folder.path, "kl", settings({ steps: 3, algorithm }));
    const whole = await run(options);
    expect(whole.steps[0]!.kl).toBe(0);
    expect(whole.steps.slice(1).every((step) => step.kl !== 0 && Math.abs(step.kl!) < 1)).toBe(true);
    const rest = await run(killedAfter(options, 2, join(folder.path, "kl-killed")));
    expect(rest.steps).toHaveLength(1);
    expect(rest.steps.at(-1)).toMatchObject({ kl: whole.steps[2]!.kl, checksum: whole.steps[2]!.checksum });
  });
});

describe("a run with a critic", () => {
  it.each(["gae-turn", "gae-token"])(
    "%s: learns what its returns are, and goes on from a checkpoint to the same bits",
    async (advantage) => {
      const algorithm = { advantage, critic: { lr: 0.002, trunk: "shared" } };
      // Groups of one: the critic is what an episode is compared with.
      const rollout = { maxSequences: 8, groupSize: 1, groupsPerStep: 8, maxTokensPerTurn: 12, contextLimit: 320 };
      const checkpoint = { every: 4, keep: 2 };
      const options = runOptions(folder.path, advantage, settings({ steps: 8, algorithm, rollout, checkpoint }));
      const whole = await run(options);
      for (const step of whole.steps) expect(step.mismatch).toBe(0);
      // A critic that says 0 explains nothing, and its loss is half the mean square of the returns.
      expect(whole.steps[0]!.explainedVariance ?? 0).toBe(0);
      const late = whole.steps.slice(-3).map((step) => step.valueLoss!);
      expect(Math.max(...late)).toBeLessThan(whole.steps[0]!.valueLoss! / 2);
      const rest = await run(killedAfter(options, 4, join(folder.path, `${advantage}-killed`)));
      expect(rest.steps).toHaveLength(4);
      expect(rest.steps.at(-1)).toMatchObject({
        valueLoss: whole.steps.at(-1)!.valueLoss,
        checksum: whole.steps.at(-1)!.checksum,
      });

      const without = killedAfter(options, 4, join(folder.path, `${advantage}-without`));
      rmSync(join(latestCheckpoint(join(without.out, "checkpoints"))!, "critic.safetensors"));
      await expect(run(without)).rejects.toThrow(/The checkpoint has no critic/);
    },
  );
});

describe("an asynchronous run", () => {
  const async = (overrides: Record<string, unknown> = {}) =>
    settings({ mode: "async", staleness: { maxLag: 2 }, steps: 10, ...overrides });

  it("keeps the lag within its bound and mismatch at 0 while weights change under way", async () => {
    const { summary, steps } = await run(runOptions(folder.path, "async", async()));
    expect(summary.mismatch).toBe(0);
    expect(summary.mismatchTokens).toBeGreaterThan(0.05 * summary.sampledTokens);
    expect(summary.maxLag).toBeLessThanOrEqual(2);
    expect(summary.abortedTokens).toBe(0);
    expect(steps.length).toBe(10);
    const { state } = readCheckpoint(summary.checkpoint);
    expect(fromRanges(state.trainedGroups)).toEqual([...Array(40).keys()]);
  });

  it("compares every token at learning rate 0, and finds no difference", async () => {
    const { summary } = await run(runOptions(folder.path, "lr-zero", async({ optimizer: { lr: 0 } })));
    expect(summary.mismatch).toBe(0);
    expect(summary.mismatchTokens).toBe(summary.sampledTokens);
  });

  it("restarts a rollout process that is killed, counts it, and trains every group once", async () => {
    let killed = 0;
    const { summary, steps } = await run({
      ...runOptions(folder.path, "killed", async({ rollout: { ...settings().rollout, processes: 2 } })),
      onEvent: (event) => {
        if (event.type !== "step" || (event.metrics.step !== 2 && event.metrics.step !== 5)) return;
        const [pid] = childrenOf(process.pid);
        if (pid === undefined) return;
        process.kill(pid, "SIGKILL");
        killed++;
      },
    });
    expect(killed).toBe(2);
    expect(summary.faults.rolloutRestarts).toBe(2);
    expect(steps.map((step) => step.step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(fromRanges(readCheckpoint(summary.checkpoint).state.trainedGroups)).toEqual([...Array(40).keys()]);
    expect(summary.mismatch).toBe(0);
  });

  it("evaluates on held-out tasks while it trains, and again what a process was killed over", async () => {
    const reports: number[] = [];
    const { summary } = await run({
      ...runOptions(
        folder.path,
        "evaluated",
        async({ steps: 4, evaluation: { every: 2, episodes: 6 }, checkpoint: { every: 0 } }),
      ),
      onEvent: (event) => {
        if (event.type === "evaluated") reports.push(event.step);
        // The evaluation of step 2 has just been asked for.
        if (event.type === "step" && event.metrics.step === 2) process.kill(childrenOf(process.pid)[0]!, "SIGKILL");
      },
    });
    expect(summary.faults.rolloutRestarts).toBe(1);
    expect(reports).toEqual([2, 4]);
    const lines = readMetrics<RunStep>(join(folder.path, "evaluated", "metrics.jsonl"));
    const evaluated = lines.map(({ step, evaluation }) => [
      step,
      evaluation?.map(({ task, episodes }) => `${task} ${episodes}`),
    ]);
    const played = ["dbbench 6", "kg 6"];
    expect(evaluated.sort()).toEqual([
      [1, undefined],
      [2, played],
      [3, undefined],
      [4, played],
    ]);
  });

  it("leaves no shared memory behind", () => {
    if (!existsSync("/dev/shm")) return;
    expect(readdirSync("/dev/shm").filter((name) => name.startsWith(`agentrl-${process.pid}-`))).toEqual([]);
  });
});
