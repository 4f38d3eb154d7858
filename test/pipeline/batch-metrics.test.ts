import { expect, it } from "vitest";
import { batchMetrics } from "../../src/pipeline/batch-metrics.ts";
import { PolicyId } from "../../src/rl/trajectory.ts";
import { trajectory } from "../rl/trajectories.ts";

it("counts each task's tokens by lag: by hand", () => {
  // Weights of version 7 are trained: of the first episode's sampled tokens two are 2 versions behind, one is 0.
  const first = trajectory({ task: "kg", mask: [0, 1, 1, 0, 1], oldest: [3, 5, 5, 5, 7] });
  // A stale copy's token is none of the current policy's, however old.
  const second = trajectory({ task: "kg", mask: [0, 1, 1, 1], oldest: [6, 6, 5, 0] });
  second.policy.set([PolicyId.stale], 3);
  const third = trajectory({ task: "os", mask: [1, 1], oldest: [7, 7] });
  const silent = trajectory({ task: "webshop", mask: [0, 0], oldest: [1, 1] });
  const { tasks, meanLag, maxLag } = batchMetrics([first, second, third, silent], 7, {});
  expect(tasks.kg!.lagTokens).toEqual({ "0": 1, "1": 1, "2": 3 });
  expect(tasks.os!.lagTokens).toEqual({ "0": 2 });
  expect(tasks.webshop!.lagTokens).toEqual({});
  // (0 + 1 + 3 · 2) / 5 of kg; over all, the same sum over two tokens more.
  expect([tasks.kg!.meanLag, tasks.kg!.maxLag]).toEqual([7 / 5, 2]);
  expect([tasks.webshop!.meanLag, tasks.webshop!.maxLag]).toEqual([0, 0]);
  expect([meanLag, maxLag]).toEqual([7 / 7, 2]);
  expect(tasks.kg!.sampledTokens).toBe(6);
});
