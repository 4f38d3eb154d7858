import { describe, expect, it, vi } from "vitest";
import { benchGemm, defaultShapes } from "../../src/bench/gemm.ts";
import { OPENBLAS_HINT } from "../../src/bench/openblas.ts";
import { compare, geometricMean, median } from "../../src/bench/timing.ts";

describe("timing", () => {
  it("takes medians and geometric means", () => {
    expect(median([5, 1, 3])).toBe(3);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(geometricMean([0.5, 2, 8])).toBeCloseTo(2, 12);
  });

  it("lets candidates take turns, and gives each one's time per run", () => {
    // A clock that only the candidates move.
    let now = 0;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => now);
    try {
      const runs: string[] = [];
      const work = (name: string, milliseconds: number) => () => {
        runs.push(name);
        now += milliseconds;
      };
      const [fast, slow] = compare([work("fast", 0.5), work("slow", 4)], 0.36);
      expect(fast).toBeCloseTo(0.0005, 9);
      expect(slow).toBeCloseTo(0.004, 9);
      const turns = runs.filter((name, i) => i > 0 && name !== runs[i - 1]).length;
      expect(turns).toBeGreaterThanOrEqual(17);
      expect(now).toBeLessThan(600);
    } finally {
      clock.mockRestore();
    }
  });
});

describe("benchGemm", () => {
  it("covers the cubes in every layout and the model's products from 1 to 4096 rows", () => {
    const keys = defaultShapes().map(({ layout, m, n, k }) => `${layout} ${m} ${n} ${k}`);
    for (const size of [64, 256, 1024]) {
      for (const layout of ["nn", "nt", "tn"]) expect(keys).toContain(`${layout} ${size} ${size} ${size}`);
    }
    expect(keys).toContain("nn 1 384 128");
    expect(keys).toContain("nn 4096 384 128");
    expect(keys).toContain("tn 128 384 4096");
    expect(keys).toContain("nt 4096 1024 128");
    expect(new Set(keys).size).toBe(keys.length);
  });

  it("reports both sides per shape, or says how to install what is missing", async () => {
    const lines: string[] = [];
    const shapes = [
      { group: "a", layout: "nn" as const, m: 16, n: 64, k: 32 },
      { group: "b", layout: "tn" as const, m: 33, n: 17, k: 50 },
    ];
    const report = await benchGemm({ seconds: 0.02, threads: 1, shapes, print: (line) => void lines.push(line) });
    expect(report.results.map(({ group, threads }) => `${group}${threads}`)).toEqual(["a1", "b1"]);
    expect(report.results.every((result) => result.gflops > 0)).toBe(true);
    expect(lines.length).toBeGreaterThanOrEqual(4);
    if (report.openblas === null) {
      expect(report.notes).toContain(OPENBLAS_HINT);
      expect([report.ratio, ...report.results.map((result) => result.ratio)]).toEqual([null, null, null]);
    } else {
      const ratios = report.results.map((result) => result.gflops / result.openblasGflops!);
      expect(report.ratio!.all).toBeCloseTo(geometricMean(ratios), 9);
      expect(report.ratio!.byThreads["1"]).toBeCloseTo(report.ratio!.all, 9);
    }
  });
});
