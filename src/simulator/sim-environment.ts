/** An environment that takes its time, and fails in every way that environments do. */
import { drawDelay } from "../env/delayed.ts";
import type { Environment, Session, StepResult } from "../env/environment.ts";
import type { Rng } from "../env/rng.ts";
import { AgentRLError } from "../errors.ts";
import { type Clock, sleep } from "../pipeline/clock.ts";
import { mix32 } from "../rl/sampler.ts";
import type { FaultPlan } from "./fault-plan.ts";
import type { Timing } from "./timing.ts";

/** What an episode of this seed earns when nothing goes wrong: all samples of some groups the same, others not. */
export function rewardOf(seed: number, attemptSeed: number): number {
  return mix32(seed, 5) % 3 === 0 ? 1 : mix32(seed, attemptSeed) % 2;
}

export function simEnvironment(options: {
  name: string;
  clock: Clock;
  faults: FaultPlan;
  timing: Timing;
  rng: Rng;
}): Environment {
  const { name, clock, faults, timing, rng } = options;
  const answer = async () => {
    if (faults.strikes("environmentCrash")) throw new AgentRLError("ENVIRONMENT", "the engine is gone");
    if (faults.strikes("environmentHang")) await new Promise<never>(() => {});
    if (faults.strikes("environmentSlow")) await sleep(clock, 90_000);
    await sleep(clock, drawDelay(timing.environment, rng));
  };
  return {
    name,
    tools: [],
    maxTurns: timing.turns,
    split: (split) => ({ name: split, indices: [...Array(200).keys()], hash: "" }),
    level: () => 0,
    start: async (_split, _index, seed) => {
      await answer();
      return new SimSession(seed, answer, faults);
    },
    close: async () => {},
  };
}

class SimSession implements Session {
  readonly messages = [{ role: "user" as const, content: "go on" }];
  readonly #seed: number;
  readonly #answer: () => Promise<void>;
  readonly #faults: FaultPlan;

  constructor(seed: number, answer: () => Promise<void>, faults: FaultPlan) {
    this.#seed = seed;
    this.#answer = answer;
    this.#faults = faults;
  }

  /** The action's text says how many turns are left, and then what was sampled. */
  async step({ text }: { text: string }): Promise<StepResult> {
    await this.#answer();
    const [left = 0, sampled = 0] = text.split(" ").map(Number);
    const messages = [{ role: "user" as const, content: "go on" }];
    if (this.#faults.strikes("environmentGarbage")) {
      return { messages, reward: Number.NaN, done: true, endReason: "completed" };
    }
    if (left > 0) return { messages, reward: 0, done: false };
    return { messages, reward: rewardOf(this.#seed, sampled), done: true, endReason: "completed" };
  }

  async close(): Promise<void> {}
}
