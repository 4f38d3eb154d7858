import { expect, it } from "vitest";
import { memoryTrend } from "../scripts/soak-memory.ts";

const samples = (process: string, bytes: (minute: number) => number) =>
  Array.from({ length: 20 }, (_, minutes) => ({ process, minutes, bytes: bytes(minutes) }));

it("a leak of 1 % of the median a minute drifts by the minutes after the warm-up; what the warm-up adds does not count", () => {
  const [leak, flat] = memoryTrend(
    [
      // Minutes 10 to 19 hold 1000 to 1090: median 1045, 90 more at the end than at the beginning.
      ...samples("leak", (minute) => (minute < 10 ? minute : 1000 + 10 * (minute - 10))),
      ...samples("flat", (minute) => (minute < 10 ? minute : 500 + (minute === 15 ? 50 : 0))),
    ],
    10,
  );
  expect(leak).toMatchObject({ process: "leak", median: 1045 });
  expect(leak!.drift).toBeCloseTo((100 * 90) / 1045, 9);
  expect(leak!.tenths).toEqual([0.5, 2.5, 4.5, 6.5, 8.5, 1005, 1025, 1045, 1065, 1085]);
  expect(leak!.largestDeviation).toBeCloseTo((100 * 45) / 1045, 9);
  expect(flat).toMatchObject({ process: "flat", median: 500, largestDeviation: 10, largestTenthDeviation: 10 });
});

it("a process that has ended in the warm-up is left out", () => {
  expect(memoryTrend(samples("short", () => 1).slice(0, 5), 10)).toEqual([]);
});
