/** The whole pipeline under simulated time: what every run must keep, whatever breaks. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../src/env/rng.ts";
import { type SimKill, type SimulateOptions, type Simulation, simulate } from "../../src/simulator/simulate.ts";
import { failureOf } from "../failure.ts";

const range = (n: number) => [...Array(n).keys()];
const ascending = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b);

/** Batches are whole, of episodes that ended by themselves with their own rewards; every step has its line. */
function expectLaws({ violations, lines, groups, steps }: Simulation, groupsPerStep = 4): void {
  expect(violations).toEqual([]);
  expect(lines.map(({ step }) => step)).toEqual(range(steps).map((step) => step + 1));
  expect(groups.length).toBe(steps * groupsPerStep);
  expect(new Set(groups).size).toBe(groups.length);
}

describe("a simulated run", () => {
  it("is the same twice, and trains every group once", async () => {
    const options = { steps: 60, seed: 3 };
    const [first, second] = [await simulate(options), await simulate(options)];
    expectLaws(first);
    expect(ascending(first.groups)).toEqual(range(240));
    expect(second.weights).toBe(first.weights);
    expect(second.seconds).toBe(first.seconds);
  });

  it("in synchronous mode comes to the same weights however many processes play", async () => {
    const options = { steps: 20, seed: 4, maxLag: 0 };
    const one = await simulate({ ...options, processes: 1 });
    const three = await simulate({ ...options, processes: 3, places: 2 });
    expect(three.weights).toBe(one.weights);
    expect((await simulate({ ...options, seed: 5 })).weights).not.toBe(one.weights);
  });

  it("is at least twice as fast asynchronous as synchronous where environments are late now and then", async () => {
    // Generation and training of little time beside environments of 200 ms, 3 s at p99.
    const options = { steps: 60, seed: 6, places: 32, timing: { train: 300, turn: { medianMs: 40, p99Ms: 200 } } };
    const synchronous = await simulate({ ...options, maxLag: 0 });
    const asynchronous = await simulate({ ...options, maxLag: 6 });
    expectLaws(asynchronous);
    expect(synchronous.seconds / asynchronous.seconds).toBeGreaterThan(2);
  });

  it("ends with its cause when the learner cannot be kept alive", async () => {
    const error = await failureOf(simulate({ steps: 20, seed: 1, restarts: 2, faults: { learnerCrash: 0.9 } }));
    expect(error.message).toMatch(
      /learner process keeps ending[\s\S]*3 times without a new step[\s\S]*simulated crash/,
    );
  });

  it("leaves out the tasks that end their process, and no other", async () => {
    const run = await simulate({ steps: 40, seed: 2, restarts: 8, fatalEvery: 20 });
    expectLaws(run);
    const trained = new Set(run.groups);
    const givenUp = run.used.filter((group) => !trained.has(group));
    expect(givenUp.length).toBe(run.end.faults.abandonedGroups);
    // A twentieth of some 170 groups.
    expect(givenUp.length).toBeGreaterThan(2);
    const named = run.notices.filter((notice) => notice.includes("is left out"));
    expect(named.length).toBe(givenUp.length);
    for (const notice of named) expect((Number(/train\[(\d+)\]/.exec(notice)![1]) + 1) % 20).toBe(0);
  });

  it("ends with its cause when its rollout processes cannot be kept alive", async () => {
    const error = await failureOf(simulate({ steps: 20, seed: 1, restarts: 3, faults: { rolloutCrash: 0.9 } }));
    expect(error.message).toMatch(
      /rollout process keeps crashing[\s\S]*4 times without an episode[\s\S]*simulated crash/,
    );
  });
});

describe("200 runs, killed at random instants and resumed", () => {
  const steps = 8;
  /** One to four kills, the supervisor's as likely as any other's; a run takes some 40 to 90 simulated seconds. */
  function kills(rng: Rng): SimKill[] {
    const instants = ascending(range(rng.between(1, 4)).map(() => rng.int(60_000)));
    const victims = ["supervisor", "learner", 0, 1] as const;
    return instants.map((at) => ({ at, victim: victims[rng.int(4)]! }));
  }

  it("train the groups of the unbroken run; synchronous ones come to its weights", async () => {
    const rng = new Rng("kills", 1);
    const whole = new Map<string, Simulation>();
    const seen = { lives: 0, learner: 0, rollout: 0 };
    for (let run = 0; run < 200; run++) {
      const options: SimulateOptions = { steps, seed: run % 4, maxLag: run % 2 === 0 ? 0 : 2, checkpointEvery: 3 };
      const name = JSON.stringify(options);
      const unbroken = whole.get(name) ?? (await simulate(options));
      whole.set(name, unbroken);
      const plan = kills(rng);
      const broken = await simulate({ ...options, kills: plan, processes: rng.between(1, 3) });
      const what = `${name} ${JSON.stringify(plan)}`;
      expect(ascending(broken.groups), what).toEqual(ascending(unbroken.groups));
      expect(ascending(broken.groups), what).toEqual(range(4 * steps));
      if (options.maxLag === 0) expect(broken.weights, what).toBe(unbroken.weights);
      expectLaws(broken);
      seen.lives += broken.lives - 1;
      seen.learner += broken.end.faults.learnerRestarts;
      seen.rollout += broken.end.faults.rolloutRestarts;
    }
    // The kills hit what they were meant for.
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(30);
  });
});

describe("10,000 steps with every fault at once", () => {
  it("neither hang nor leak, show each fault under its name, and make none a reward", async () => {
    const often = 2e-3;
    const steps = Number(process.env.AGENTRL_SIMULATED_STEPS ?? 10_000);
    const run = await simulate({
      steps,
      seed: 7,
      checkpointEvery: 10,
      episodeSeconds: 120,
      timing: { turns: 2 },
      faults: {
        environmentCrash: often,
        environmentHang: often / 4,
        environmentSlow: often / 4,
        environmentGarbage: often,
        engineStall: often / 8,
        recordCorrupt: often / 2,
        recordGarbage: often / 2,
        recordDuplicate: often,
        recordLate: often,
        rolloutCrash: often / 4,
        rolloutHang: often / 8,
        learnerCrash: often / 8,
        learnerHang: often / 8,
        diskFull: 0.05,
        clockJump: 0.01,
      },
    });
    expectLaws(run);
    const { injected } = run;
    const { faults } = run.end;
    for (const [kind, count] of Object.entries(injected)) expect(count, kind).toBeGreaterThan(10);

    // Each under its own name. A process that dies takes with it what it met in its last second.
    const near = (got: number, expected: number) => {
      expect(got).toBeLessThanOrEqual(expected);
      expect(got).toBeGreaterThan(0.9 * expected);
    };
    near(faults.environmentFaults, injected.environmentCrash + injected.environmentGarbage);
    expect(faults.environmentTimeouts).toBeGreaterThan(0.8 * (injected.environmentHang + injected.environmentSlow));
    expect(faults.episodeTimeouts).toBeGreaterThan(0.5 * injected.engineStall);
    near(faults.corruptRecords, injected.recordCorrupt + injected.recordGarbage);
    expect(faults.lostSamples).toBeGreaterThanOrEqual(0.9 * faults.corruptRecords);
    expect(faults.duplicateSamples + faults.lateSamples).toBeGreaterThan(0.8 * injected.recordDuplicate);
    expect(faults.rolloutRestarts).toBeGreaterThanOrEqual(injected.rolloutCrash);
    expect(faults.learnerRestarts).toBeGreaterThanOrEqual(injected.learnerCrash);
    expect(faults.hungProcesses).toBeGreaterThanOrEqual(0.8 * (injected.rolloutHang + injected.learnerHang));
    expect(faults.checkpointFailures).toBe(injected.diskFull);
    expect(faults.clockJumps).toBe(injected.clockJump);

    // Nothing leaks: what is used up was trained or given up, and what waited was bounded.
    expect(run.used.length).toBeLessThanOrEqual(run.groups.length + faults.abandonedGroups);
    expect(run.used.length).toBeGreaterThanOrEqual(run.groups.length);
    expect(run.most.inFlight).toBeLessThanOrEqual(3 * 4);
    expect(run.most.inboxSamples).toBeLessThanOrEqual(3 * 4 * 4);
    expect(run.most.ringBytes).toBeLessThanOrEqual(1 << 16);
  }, 120_000);
});
