import { describe, expect, it } from "vitest";
import { compare } from "../../src/experiment/compare.ts";
import type { ArmResult } from "../../src/experiment/run.ts";

function result(arm: string, row: string, seed: number, success: Record<string, number>): ArmResult {
  const reports = Object.entries(success).map(([task, share]) => ({
    task,
    policy: arm,
    episodes: 100,
    success: share,
    successes: share * 100,
    meanReward: share,
    endReasons: {},
  }));
  return { arm, row, seed, training: null, reports };
}

describe("the comparison of an experiment's arms", () => {
  const results = [
    result("both", "both", 1, { a: 0.6, b: 0.4 }),
    result("both", "both", 2, { a: 0.8, b: 0.4 }),
    result("both", "both", 3, { a: 0.7, b: 0.4 }),
    result("only-a", "specialists", 1, { a: 0.5 }),
    result("only-b", "specialists", 1, { b: 0.3 }),
    result("only-a", "specialists", 2, { a: 0.6 }),
    result("only-b", "specialists", 2, { b: 0.3 }),
    result("only-a", "specialists", 3, { a: 0.4 }),
    result("only-b", "specialists", 3, { b: 0.3 }),
  ];
  const [both, specialists] = compare(results, "specialists");

  it("gives mean and standard deviation over seeds, of each task and of the mean over tasks", () => {
    // a: 0.6, 0.8, 0.7: mean 0.7, sqrt((0.01 + 0.01 + 0) / 2) = 0.1; overall 0.5, 0.6, 0.55.
    expect(both!.tasks.a!.mean).toBeCloseTo(0.7, 12);
    expect(both!.tasks.a!.sd).toBeCloseTo(0.1, 12);
    expect(both!.tasks.b!.sd).toBeCloseTo(0, 12);
    expect(both!.overall.mean).toBeCloseTo(0.55, 12);
    expect(both!.overall.sd).toBeCloseTo(0.05, 12);
    expect(both!.overall.seeds).toBe(3);
  });

  it("puts the arms of a group together, each with its own tasks", () => {
    expect(specialists!.tasks.a!.mean).toBeCloseTo(0.5, 12);
    expect(specialists!.tasks.b!.mean).toBeCloseTo(0.3, 12);
    expect(specialists!.overall.mean).toBeCloseTo(0.4, 12);
    expect(specialists!.difference).toBeNull();
  });

  it("compares seed by seed, with Student's interval", () => {
    // 0.5 - 0.4, 0.6 - 0.45, 0.55 - 0.35: 0.1, 0.15, 0.2: mean 0.15, sd 0.05; 4.303 * 0.05 / sqrt(3) = 0.12422.
    expect(both!.difference!.mean).toBeCloseTo(0.15, 12);
    expect(both!.difference!.interval![0]).toBeCloseTo(0.15 - 0.12422, 4);
    expect(both!.difference!.interval![1]).toBeCloseTo(0.15 + 0.12422, 4);
  });

  it("has no interval for one seed, and no difference without a common seed", () => {
    const one = compare([...results.slice(3), result("both", "both", 1, { a: 1, b: 1 })], "specialists").at(-1)!;
    expect(one.overall.sd).toBeNull();
    expect(one.difference!.mean).toBeCloseTo(0.6, 12);
    expect(one.difference!.interval).toBeNull();
    const other = compare([...results.slice(3), result("both", "both", 9, { a: 1, b: 1 })], "specialists").at(-1)!;
    expect(other.difference).toBeNull();
  });
});
