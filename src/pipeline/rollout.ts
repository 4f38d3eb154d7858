/**
 * The rollout process: leases groups from the supervisor, plays their episodes on one generation engine under whatever
 * weights are newest, and pushes every finished episode into the ring.
 */
import { setTimeout as delay } from "node:timers/promises";
import { tokensPerTurnOf } from "../config/train-tasks.ts";
import type { Environment } from "../env/environment.ts";
import type { EvalReport } from "../env/report.ts";
import { AgentRLError } from "../errors.ts";
import { type Conversation, Engine } from "../generate/engine.ts";
import { encodeTrajectory } from "../rl/record.ts";
import { mix32 } from "../rl/sampler.ts";
import { Ring } from "../shm/ring.ts";
import { boardWeights } from "./board-weights.ts";
import { connectToSupervisor } from "./children.ts";
import { openEnvironment } from "./environments.ts";
import { type Dialect, isEnvironmentFault, promptTokens, runEpisode, startSession } from "./episode.ts";
import { evaluateTask } from "./evaluate-task.ts";
import type { FromRollout, GroupLease, Setup, ToRollout } from "./messages.ts";
import { openDevice } from "./open-device.ts";
import { conversationsOf } from "./plan.ts";
import { PolicyPool } from "./policy-pool.ts";
import { loadPolicyText } from "./policy-text.ts";
import { levelsOf } from "./task-mix.ts";

/** Tries for a sample, or for a group's first messages, before the group is given up. */
const maxTries = 5;
const ringTimeoutMs = 120_000;
const reportMs = 1_000;

class RolloutProcess {
  readonly #setup: Setup;
  readonly #send: (message: FromRollout) => void;
  readonly #environments: Environment[];
  readonly #dialect: Dialect;
  readonly #engine: Engine;
  readonly #pool: PolicyPool;
  readonly #ring: Ring;
  #retries = 0;

  private constructor(parts: {
    setup: Setup;
    send: (message: FromRollout) => void;
    environments: Environment[];
    dialect: Dialect;
    engine: Engine;
    pool: PolicyPool;
    ring: Ring;
  }) {
    this.#setup = parts.setup;
    this.#send = parts.send;
    this.#environments = parts.environments;
    this.#dialect = parts.dialect;
    this.#engine = parts.engine;
    this.#pool = parts.pool;
    this.#ring = parts.ring;
    setInterval(() => this.#report(), reportMs).unref();
  }

  static async open(setup: Setup, send: (message: FromRollout) => void): Promise<RolloutProcess> {
    const { config } = setup;
    const { dialect, modelConfig } = loadPolicyText(setup.modelFolder);
    const rows = { train: 0, decode: config.rollout.maxSequences };
    const device = await openDevice(setup.device, config.rollout.threads, { config: modelConfig, rows });
    const environments = await Promise.all(config.tasks.map(openEnvironment));
    const ring = Ring.open(setup.ring);
    const { board, firstVersion: first } = setup;
    const weights = await boardWeights({ device, config: modelConfig, board, first, timeoutMs: 120_000 });
    const engine = new Engine({
      device,
      config: modelConfig,
      weights,
      maxConversations: conversationsOf(config),
      contextLimit: config.rollout.contextLimit,
    });
    const pool = new PolicyPool({ config, device, model: modelConfig, dialect, board });
    return new RolloutProcess({ setup, send, environments, dialect, engine, pool, ring });
  }

  get places(): number {
    const { maxSequences, groupSize } = this.#setup.config.rollout;
    return Math.floor(maxSequences / groupSize);
  }

  take(leases: GroupLease[]): void {
    for (const lease of leases) {
      this.#playGroup(lease)
        .catch((error: unknown) => {
          if (!isEnvironmentFault(error)) throw error;
          this.#send({ type: "faulted", group: lease.group, index: lease.index, error: error.message });
        })
        .then(() => {
          this.#report();
          this.#send({ type: "room", groups: 1 });
        })
        .catch(fail);
    }
  }

  /** Held-out episodes under the newest weights, beside the training ones. */
  async evaluate(step: number): Promise<void> {
    const { config } = this.#setup;
    const { episodes, split, temperature } = config.evaluation;
    const reports: EvalReport[] = [];
    for (const [task, environment] of this.#environments.entries()) {
      reports.push(
        await evaluateTask({
          engine: this.#engine,
          dialect: this.#dialect,
          environment,
          split,
          policy: `step ${step}`,
          levels: levelsOf(config.tasks[task]!),
          episodes,
          concurrency: config.rollout.groupSize,
          sampling: { ...this.#sampling(), temperature },
          maxTokensPerTurn: tokensPerTurnOf(config, config.tasks[task]!),
          maxTurns: config.tasks[task]!.maxTurns ?? environment.maxTurns,
          seed: config.seed,
        }),
      );
    }
    this.#send({ type: "evaluated", step, reports });
  }

  /** @throws AgentRLError ENVIRONMENT where a sample failed in every try. */
  async #playGroup(lease: GroupLease): Promise<void> {
    const task = this.#setup.config.tasks[lease.task]!;
    const environment = this.#environments[lease.task]!;
    const prompt = await this.#retried(lease, async () => {
      const first = await startSession(environment, task.split, lease.index, lease.seed);
      await first.close();
      return promptTokens(this.#dialect, environment, first.messages);
    });
    this.#checkPrompt(prompt.length, task.name, lease);

    // The prompt's keys and values are computed once and shared by all samples of the group.
    const root = this.#engine.open(prompt);
    try {
      await root.prefill();
      const faults = await Promise.all(
        lease.samples.map((sample) =>
          this.#retried(lease, (attempt) => this.#playSample(lease, sample, attempt, root)).catch((error: unknown) => {
            // The others end first: their tokens go on being sampled under the root.
            if (isEnvironmentFault(error)) return error;
            throw error;
          }),
        ),
      );
      for (const fault of faults) if (fault !== undefined) throw fault;
    } finally {
      root.close();
    }
  }

  /** Does anew, after a pause that grows, what the environment or an endpoint fails in. @throws the last fault. */
  async #retried<T>(lease: GroupLease, work: (attempt: number) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work(attempt);
      } catch (error) {
        const outer = isEnvironmentFault(error) || (error instanceof AgentRLError && error.code === "ENDPOINT");
        if (!outer || attempt >= maxTries) throw error;
        this.#retries++;
        this.#report();
        await delay(50 * 2 ** attempt * (1 + mix32(lease.seed, attempt) / 2 ** 32));
      }
    }
  }

  async #playSample(lease: GroupLease, sample: number, attempt: number, root: Conversation): Promise<void> {
    const { config } = this.#setup;
    const task = config.tasks[lease.task]!;
    const environment = this.#environments[lease.task]!;
    const conversation = root.fork();
    // A policy whose own call hung the environment would sample that call again.
    const seed = { group: lease.group, sample, key: attempt === 1 ? config.seed : mix32(config.seed, attempt) };
    const pool = this.#pool.seat({ task: lease.task, tools: environment.tools, seed });
    try {
      const session = await startSession(environment, task.split, lease.index, lease.seed);
      try {
        const trajectory = await runEpisode({
          environment,
          session,
          conversation,
          ...(pool && { pool }),
          dialect: this.#dialect,
          limits: {
            maxTurns: task.maxTurns ?? environment.maxTurns,
            maxTokensPerTurn: tokensPerTurnOf(config, task),
            endOnFailure: config.rollout.endOnFailure,
          },
          sampling: this.#sampling(),
          seed,
          identity: {
            task: environment.name,
            split: task.split,
            index: lease.index,
            group: lease.group,
            sample,
            seed: lease.seed,
          },
        });
        await this.#ring.push(encodeTrajectory(trajectory), { timeoutMs: ringTimeoutMs });
      } finally {
        await session.close();
      }
    } finally {
      conversation.close();
      pool?.close();
    }
  }

  #checkPrompt(length: number, task: string, lease: GroupLease): void {
    const { contextLimit } = this.#setup.config.rollout;
    if (length < contextLimit) return;
    throw new AgentRLError("CONFIG", "A task's prompt does not fit the context", {
      where: `${task}[${lease.index}]`,
      got: `${length} tokens`,
      expected: `fewer than rollout.contextLimit = ${contextLimit}`,
      hint: "raise rollout.contextLimit, or choose tasks[].options.prompt: brief",
    });
  }

  #sampling() {
    const { temperature, topK, topP, minP } = this.#setup.config.rollout;
    return { temperature, topK, topP, minP };
  }

  #report(): void {
    const engines = [this.#engine.stats, ...this.#pool.stats];
    const sum = (of: "abortedTokens" | "sampledTokens" | "rows" | "steps") =>
      engines.reduce((total, stats) => total + stats[of], 0);
    this.#send({
      type: "stats",
      abortedTokens: sum("abortedTokens"),
      sampledTokens: sum("sampledTokens"),
      rows: sum("rows"),
      retries: this.#retries,
      engineSteps: sum("steps"),
      busyMs: this.#engine.stats.busyMs,
    });
  }
}

let rollout: RolloutProcess | null = null;
let evaluations: Promise<void> = Promise.resolve();

const send = connectToSupervisor<ToRollout, FromRollout>((message) => {
  handle(message).catch(fail);
});

async function handle(message: ToRollout): Promise<void> {
  if (message.type === "setup") {
    rollout = await RolloutProcess.open(message.setup, send);
    send({ type: "room", groups: rollout.places });
  } else if (message.type === "lease") {
    rollout!.take(message.leases);
  } else if (message.type === "evaluate") {
    // One at a time: the engine has room for one evaluation beside the training episodes.
    evaluations = evaluations.then(() => rollout!.evaluate(message.step));
    await evaluations;
  } else {
    process.exit(0);
  }
}

function fail(error: unknown): void {
  const known = error instanceof AgentRLError;
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
  send({
    type: "failed",
    message: error instanceof Error ? error.message : String(error),
    code: known ? error.code : "",
  });
  process.exitCode = 1;
  process.disconnect();
}

process.on("uncaughtException", fail);
send({ type: "started" });
