import { describe, expect, it } from "vitest";
import { learningRate, type Schedule } from "../../src/model/schedule.ts";

const base: Schedule = { kind: "constant", lr: 0.1, warmupSteps: 4, totalSteps: 14, finalShare: 0.2 };
const rates = (schedule: Schedule, steps: number[]) => steps.map((step) => learningRate(schedule, step));
const close = (got: number[], expected: number[]) => {
  for (const [i, value] of expected.entries()) expect(got[i]).toBeCloseTo(value, 12);
};

describe("learningRate", () => {
  it("rises linearly through the warm-up, never from 0", () => {
    close(rates(base, [1, 2, 3, 4, 5, 6, 100]), [0.02, 0.04, 0.06, 0.08, 0.1, 0.1, 0.1]);
  });

  it("decays linearly to the floor", () => {
    // 10 steps after the warm-up: progress 0, 1/10, ... 9/10; then the floor.
    close(rates({ ...base, kind: "linear" }, [5, 6, 14, 15, 99]), [0.1, 0.092, 0.028, 0.02, 0.02]);
  });

  it("decays along half a cosine", () => {
    // Half way: the mean of peak and floor. A quarter: (1 + cos(pi/4)) / 2 of the way up.
    close(rates({ ...base, kind: "cosine", totalSteps: 12 }, [5, 9, 13]), [0.1, 0.06, 0.02]);
    const quarter = 0.02 + 0.08 * ((1 + Math.SQRT1_2) / 2);
    close(rates({ ...base, kind: "cosine", totalSteps: 12 }, [7]), [quarter]);
  });

  it("gives a run of one step the peak", () => {
    for (const kind of ["constant", "linear", "cosine"] as const) {
      expect(learningRate({ ...base, kind, warmupSteps: 0, totalSteps: 1 }, 1)).toBe(0.1);
    }
  });
});
