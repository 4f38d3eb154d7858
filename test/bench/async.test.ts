import { expect, it } from "vitest";
import { benchAsync } from "../../src/bench/async.ts";

it("trains in two modes beside each other, and says how they compare", { timeout: 120_000 }, async () => {
  const lines: string[] = [];
  const report = await benchAsync({
    modes: ["sync", "ideal"],
    steps: 2,
    seeds: 1,
    maxLag: 1,
    episodes: 4,
    latency: { medianMs: 20, p99Ms: 100 },
    set: ["rollout.groupsPerStep=4", "rollout.maxSequences=32"],
    print: (line) => lines.push(line),
  });
  expect(report).toMatchObject({ tasks: ["dbbench", "os"], steps: 2, episodesPerStep: 16 });
  // Timers are never early.
  expect(report.latency.medianMs).toBeGreaterThan(19);
  const [sync, ideal] = report.modes;
  expect([sync!.mode, ideal!.mode]).toEqual(["sync", "ideal"]);
  expect([sync!.window, ideal!.window]).toEqual([
    { from: 1, to: 2 },
    { from: 2, to: 6 },
  ]);
  expect(sync!.lag).toEqual({ mean: 0, max: 0 });
  expect(sync!.toSync).toBe(1);
  expect(ideal!.toSync! * sync!.toIdeal!).toBeCloseTo(1, 12);
  for (const mode of report.modes) {
    expect(mode.score.values).toHaveLength(1);
    expect(mode.score.mean).toBe(mode.score.values[0]);
    expect(mode.course.learner).toHaveLength(10);
    for (const share of [mode.utilisation.learner, mode.utilisation.engine]) {
      expect(share).toBeGreaterThan(0);
      expect(share).toBeLessThanOrEqual(1);
    }
    expect(lines.filter((line) => line.startsWith(mode.mode))).toHaveLength(3);
  }
});

it("refuses a config that would compare something else", async () => {
  await expect(benchAsync({ set: ["mode=async"], print: () => {} })).rejects.toMatchObject({ code: "USAGE" });
});
