import { expect, it } from "vitest";
import { benchAsync } from "../../src/bench/async.ts";

it("trains with late environments, and says how fast, how far and how busy", { timeout: 120_000 }, async () => {
  const lines: string[] = [];
  const report = await benchAsync({
    modes: ["async"],
    steps: 2,
    seeds: 1,
    maxLag: 1,
    episodes: 4,
    latency: { medianMs: 20, p99Ms: 100 },
    set: ["rollout.groupsPerStep=4", "rollout.maxSequences=32"],
    print: (line) => lines.push(line),
  });
  expect(report).toMatchObject({ tasks: ["dbbench", "os"], steps: 2, episodesPerStep: 16 });
  // Timers are never early by more than their resolution.
  expect(report.latency.medianMs).toBeGreaterThan(18);
  const [async] = report.modes;
  // Runs on to step 6, so that some steps lie between filling and running dry.
  expect(async).toMatchObject({ mode: "async", window: { from: 2, to: 6 }, toSync: null, toIdeal: null });
  expect(async!.lag.max).toBeLessThanOrEqual(1);
  expect(async!.score).toEqual({ mean: async!.score.values[0], sd: null, seeds: 1, values: [expect.any(Number)] });
  expect(async!.course.engine).toHaveLength(10);
  for (const share of [async!.utilisation.learner, async!.utilisation.engine]) {
    expect(share).toBeGreaterThan(0);
    expect(share).toBeLessThanOrEqual(1);
  }
  expect(lines.filter((line) => line.startsWith("async"))).toHaveLength(3);
});

it("refuses a config that would compare something else", async () => {
  await expect(benchAsync({ set: ["mode=async"], print: () => {} })).rejects.toMatchObject({ code: "USAGE" });
});
