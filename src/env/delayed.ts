/**
 * An environment that answers late, as remote ones do: every start and every step waits a time drawn from a log-normal
 * distribution first, on a timer, while others go on. To rehearse slow environments, and to measure what hides them.
 */

import { AgentRLError } from "../errors.ts";
import type { Action, Environment, Session, StepResult } from "./environment.ts";
import { Rng } from "./rng.ts";

/** A log-normal distribution by two of its quantiles, in milliseconds. */
export interface Latency {
  medianMs: number;
  p99Ms: number;
}

/** The standard normal's quantile at 0.99. */
const z99 = 2.3263478740408408;
/** Seeds whose sessions are counted at a time: more groups than that no process plays at once. */
const mostSeeds = 8192;

/** One draw, in milliseconds: the median times e^(σz), z normal (Box and Muller 1958), σ = ln(p99 / median) / z99. */
export function drawDelay({ medianMs, p99Ms }: Latency, random: Rng): number {
  const sigma = Math.log(p99Ms / medianMs) / z99;
  const z = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  return medianMs * Math.exp(sigma * z);
}

/**
 * The same environment, delayed. The n-th session with a seed has the same delays in every run; another try of a sample is
 * another session. A delay counts towards the deadline of a start or step, as the time of a slow environment does.
 */
export function delayed(environment: Environment, latency: Latency): Environment {
  const { expert, randomAction } = environment;
  const sessions = new Map<string, number>();
  const ordinalOf = (key: string): number => {
    const ordinal = sessions.get(key) ?? 0;
    sessions.delete(key);
    sessions.set(key, ordinal + 1);
    if (sessions.size > mostSeeds) sessions.delete(sessions.keys().next().value!);
    return ordinal;
  };
  return {
    name: environment.name,
    tools: environment.tools,
    maxTurns: environment.maxTurns,
    ...(environment.stepTimeoutMs !== undefined && { stepTimeoutMs: environment.stepTimeoutMs }),
    split: (name) => environment.split(name),
    level: (split, index) => environment.level(split, index),
    async start(split, index, seed) {
      const random = new Rng("latency", split, index, seed, ordinalOf(`${split} ${index} ${seed}`));
      await after(drawDelay(latency, random));
      return new DelayedSession(await environment.start(split, index, seed), () => drawDelay(latency, random));
    },
    ...(expert && { expert: expert.bind(environment) }),
    ...(randomAction && {
      randomAction: (session: Session, random: () => number) =>
        randomAction.call(environment, session instanceof DelayedSession ? session.inner : session, random),
    }),
    close: () => environment.close(),
  };
}

class DelayedSession implements Session {
  readonly inner: Session;
  readonly #draw: () => number;
  readonly #closing = new AbortController();

  constructor(inner: Session, draw: () => number) {
    this.inner = inner;
    this.#draw = draw;
  }

  get messages() {
    return this.inner.messages;
  }

  async step(action: Action): Promise<StepResult> {
    await after(this.#draw(), this.#closing.signal);
    return this.inner.step(action);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.inner.close();
  }
}

/** @throws AgentRLError ENVIRONMENT when the session is closed meanwhile. */
function after(ms: number, closing?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const closed = () => {
      clearTimeout(timer);
      reject(new AgentRLError("ENVIRONMENT", "The session was closed in the middle of a step"));
    };
    const timer = setTimeout(() => {
      closing?.removeEventListener("abort", closed);
      resolve();
    }, ms);
    closing?.addEventListener("abort", closed, { once: true });
  });
}
