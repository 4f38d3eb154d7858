import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { delayed, drawDelay, type Latency } from "../../src/env/delayed.ts";
import type { Environment, Session } from "../../src/env/environment.ts";
import { Rng } from "../../src/env/rng.ts";
import { startSession } from "../../src/pipeline/environment-faults.ts";
import { openEnvironment } from "../../src/pipeline/environments.ts";

const latency: Latency = { medianMs: 200, p99Ms: 3000 };

describe("the law of delays", () => {
  it("has the quantiles and the mean of the log-normal distribution that the config names", () => {
    const random = new Rng("law");
    const draws = Array.from({ length: 100_000 }, () => drawDelay(latency, random)).sort((a, b) => a - b);
    const quantile = (share: number) => draws[Math.round(share * draws.length)]!;
    // σ = ln(3000 / 200) / 2.32635 = 1.16408; z(0.9) = 1.28155; e^(1.16408 · 1.28155) = 4.4452; e^(σ²/2) = 1.9690.
    // Tolerances: four standard errors of a quantile of 100,000 draws.
    const near = (value: number, expected: number, share: number) =>
      expect(Math.abs(value / expected - 1)).toBeLessThan(share);
    near(quantile(0.5), 200, 0.02);
    near(quantile(0.9), 200 * 4.4452, 0.03);
    near(quantile(0.1), 200 / 4.4452, 0.03);
    near(quantile(0.99), 3000, 0.06);
    near(draws.reduce((sum, draw) => sum + draw, 0) / draws.length, 200 * 1.969, 0.03);
  });
});

/** Counts what reaches it. */
function probe() {
  const seen = { started: 0, steps: 0, closed: 0 };
  const session: Session = {
    messages: [{ role: "user", content: "begin" }],
    step: async () => {
      seen.steps++;
      return { messages: [], reward: 1, done: true, endReason: "completed" };
    },
    close: async () => {
      seen.closed++;
    },
  };
  const environment: Environment = {
    name: "probe",
    tools: [],
    maxTurns: 1,
    split: (name) => ({ name, indices: [0], hash: "" }),
    level: () => 0,
    start: async () => {
      seen.started++;
      return session;
    },
    close: async () => {},
  };
  return { seen, environment };
}

const nothing = { text: "", calls: [] };

describe("a delayed environment", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** Milliseconds until the work is done, on the faked clock. */
  async function timeOf<T>(work: Promise<T>): Promise<{ ms: number; value: T }> {
    const before = performance.now();
    let ended = 0;
    const timed = work.then((value) => {
      ended = performance.now();
      return value;
    });
    await vi.runAllTimersAsync();
    const value = await timed;
    return { ms: ended - before, value };
  }

  async function delaysOf(environment: Environment, seed: number): Promise<number[]> {
    const start = await timeOf(environment.start("train", 0, seed));
    const steps: number[] = [];
    for (let turn = 0; turn < 3; turn++) steps.push((await timeOf(start.value.step(nothing))).ms);
    return [start.ms, ...steps];
  }

  it("gives the n-th session with a seed the same delays in every run, and every other one others", async () => {
    const runs = [delayed(probe().environment, latency), delayed(probe().environment, latency)];
    const [first, again] = [await delaysOf(runs[0]!, 7), await delaysOf(runs[0]!, 7)];
    const other = await delaysOf(runs[1]!, 8);
    expect([await delaysOf(runs[1]!, 7), await delaysOf(runs[1]!, 7)]).toEqual([first, again]);
    expect(new Set([...first, ...again, ...other]).size).toBe(12);
    expect(Math.min(...first, ...again, ...other)).toBeGreaterThan(0);
  });

  it("carries a call out only after the delay, and not at all once the session is closed", async () => {
    const { seen, environment } = probe();
    const { value: session } = await timeOf(delayed(environment, latency).start("train", 0, 1));
    const step = session.step(nothing);
    const refused = expect(step).rejects.toMatchObject({ code: "ENVIRONMENT" });
    await session.close();
    await refused;
    expect(vi.getTimerCount()).toBe(0);
    expect(seen).toEqual({ started: 1, steps: 0, closed: 1 });
  });

  it("counts the delay towards the deadline; a session that comes up after it is closed", async () => {
    const { seen, environment } = probe();
    // No delay of this law is under the minute that an environment without a deadline of its own has.
    const opening = startSession(delayed(environment, { medianMs: 100_000, p99Ms: 100_001 }), "train", 0, 1);
    const refused = expect(opening).rejects.toMatchObject({
      code: "ENVIRONMENT",
      message: expect.stringContaining("probe start did not answer in time"),
    });
    await vi.advanceTimersByTimeAsync(60_000);
    await refused;
    expect(seen.started).toBe(0);
    await vi.runAllTimersAsync();
    expect(seen).toEqual({ started: 1, steps: 0, closed: 1 });
  });
});

it("is the environment in all else: its tasks, its expert, its random actions", async () => {
  const options = { name: "kg", options: {} };
  const [plain, late] = [
    await openEnvironment(options),
    await openEnvironment({ ...options, latency: { medianMs: 0.5, p99Ms: 1 } }),
  ];
  expect(late.split("eval")).toEqual(plain.split("eval"));
  expect([late.name, late.maxTurns, late.level("train", 3)]).toEqual([
    plain.name,
    plain.maxTurns,
    plain.level("train", 3),
  ]);
  const [ours, theirs] = [await late.start("train", 3, 1), await plain.start("train", 3, 1)];
  expect(ours.messages).toEqual(theirs.messages);
  expect(late.randomAction!(ours, () => 0.5)).toEqual(plain.randomAction!(theirs, () => 0.5));
  const expert = late.expert!("train", 3, 1);
  const history = [...ours.messages];
  let result = await ours.step(expert.act(history));
  while (!result.done) {
    history.push(...result.messages);
    result = await ours.step(expert.act(history));
  }
  expect(result.reward).toBe(1);
  await Promise.all([ours.close(), theirs.close(), late.close(), plain.close()]);
});
