/**
 * The rollout process: leases groups from the supervisor, plays their episodes on one generation engine under whatever
 * weights are newest, and pushes every finished episode into the ring.
 */
import { loraOf } from "../config/lora.ts";
import { tokensPerTurnOf } from "../config/train-tasks.ts";
import type { Environment } from "../env/environment.ts";
import type { EvalReport } from "../env/report.ts";
import { AgentRLError } from "../errors.ts";
import { type Conversation, Engine } from "../generate/engine.ts";
import { layersComputed } from "../model/layer-done.ts";
import { encodeTrajectory } from "../rl/record.ts";
import { mix32 } from "../rl/sampler.ts";
import { Ring } from "../shm/ring.ts";
import { boardWeights } from "./board-weights.ts";
import { connectToSupervisor, failWith } from "./children.ts";
import { every, realClock } from "./clock.ts";
import type { Dialect } from "./dialect.ts";
import { closeSession, startSession } from "./environment-faults.ts";
import { openEnvironment } from "./environments.ts";
import { promptTokens, runEpisode } from "./episode.ts";
import { evaluateTask } from "./evaluate-task.ts";
import { frozenWeights } from "./frozen-weights.ts";
import { GroupPlayer, type OpenGroup } from "./group-player.ts";
import { type FromRollout, type GroupLease, pulseMs, type Setup, type ToRollout } from "./messages.ts";
import { openDevice } from "./open-device.ts";
import { conversationsOf, messageBytesOf } from "./plan.ts";
import { PolicyPool } from "./policy-pool.ts";
import { loadPolicyText } from "./policy-text.ts";
import { levelsOf } from "./task-mix.ts";
import { loraRankOf } from "./training-options.ts";
import { Waits } from "./waits.ts";
import { WeightCheck } from "./weight-check.ts";

const ringTimeoutMs = 120_000;

class RolloutProcess {
  readonly #setup: Setup;
  readonly #send: (message: FromRollout) => void;
  readonly #environments: Environment[];
  readonly #dialect: Dialect;
  readonly #engine: Engine;
  readonly #pool: PolicyPool;
  readonly #check: WeightCheck;
  readonly #player: GroupPlayer;
  readonly #waits = new Waits(realClock);

  private constructor(parts: {
    setup: Setup;
    send: (message: FromRollout) => void;
    environments: Environment[];
    dialect: Dialect;
    engine: Engine;
    pool: PolicyPool;
    ring: Ring;
    check: WeightCheck;
  }) {
    const { setup, send, ring } = parts;
    this.#setup = setup;
    this.#send = send;
    this.#environments = parts.environments;
    this.#dialect = parts.dialect;
    this.#engine = parts.engine;
    this.#pool = parts.pool;
    this.#check = parts.check;
    const { tries, episodeSeconds } = setup.config.recovery;
    this.#player = new GroupPlayer({
      clock: realClock,
      tries,
      tryMs: episodeSeconds * 1000,
      open: (lease) => this.#openGroup(lease),
      deliver: (record) => ring.push(record, { timeoutMs: ringTimeoutMs }),
      send: (message) => {
        // What a group met with is known when it ends.
        this.#report();
        send(message);
      },
      waits: this.#waits,
      fail,
    });
    every(realClock, pulseMs, () => this.#pulse());
  }

  static async open(setup: Setup, send: (message: FromRollout) => void): Promise<RolloutProcess> {
    const { config } = setup;
    // Not a checkpoint's copy, which may be gone when a process is started again.
    const { dialect, modelConfig } = loadPolicyText(config.model.path, config.model);
    const rows = { train: 0, decode: config.rollout.maxSequences };
    const device = await openDevice(setup.device, config.rollout.threads, { config: modelConfig, rows });
    const environments = await Promise.all(config.tasks.map(openEnvironment));
    const ring = Ring.open(setup.ring);
    const { board, firstVersion: first } = setup;
    const check = new WeightCheck();
    const timeoutMs = 120_000;
    const base =
      setup.frozen === null
        ? null
        : await frozenWeights({ device, config: modelConfig, board: setup.frozen, timeoutMs });
    const model = { config: modelConfig, lora: loraOf(config), base };
    const weights = await boardWeights({ device, model, board, first, timeoutMs, check });
    const engine = new Engine({
      device,
      config: modelConfig,
      loraRank: loraRankOf(config),
      weights,
      maxConversations: conversationsOf(config),
      contextLimit: config.rollout.contextLimit,
      kvOnUpdate: config.rollout.kvOnUpdate,
    });
    const pool = new PolicyPool({ config, device, model, dialect, board, check });
    return new RolloutProcess({ setup, send, environments, dialect, engine, pool, ring, check });
  }

  get places(): number {
    const { maxSequences, groupSize } = this.#setup.config.rollout;
    return Math.floor(maxSequences / groupSize);
  }

  take(leases: GroupLease[]): void {
    this.#player.take(leases);
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

  /** The prompt's keys and values are computed once and shared by all samples of the group. */
  async #openGroup(lease: GroupLease): Promise<OpenGroup> {
    const task = this.#setup.config.tasks[lease.task]!;
    const environment = this.#environments[lease.task]!;
    const prompt = await this.#waits.during(`environment ${environment.name}`, async () => {
      const first = await startSession(environment, task.split, lease.index, lease.seed);
      await closeSession(first, environment);
      return promptTokens(this.#dialect, environment, first.messages);
    });
    this.#checkPrompt(prompt.length, task.name, lease);
    const root = this.#engine.open(prompt);
    await this.#waits.during("generation", () => root.prefill());
    return {
      play: (sample, attempt, signal) => this.#playSample(lease, { sample, attempt, root, signal }),
      close: () => root.close(),
    };
  }

  async #playSample(
    lease: GroupLease,
    { sample, attempt, root, signal }: { sample: number; attempt: number; root: Conversation; signal: AbortSignal },
  ): Promise<Uint8Array> {
    const { config } = this.#setup;
    const task = config.tasks[lease.task]!;
    const environment = this.#environments[lease.task]!;
    const conversation = root.fork();
    // A turn that is being generated ends with it.
    signal.addEventListener("abort", () => conversation.close(), { once: true });
    // A policy whose own call hung the environment would sample that call again.
    const seed = { group: lease.group, sample, key: attempt === 1 ? config.seed : mix32(config.seed, attempt) };
    const pool = this.#pool.seat({ task: lease.task, tools: environment.tools, seed });
    try {
      const session = await this.#waits.during(`environment ${environment.name}`, () =>
        startSession(environment, task.split, lease.index, lease.seed),
      );
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
          waits: this.#waits,
          ...(config.observe.traces.every > 0 && { messageBytes: messageBytesOf(config) }),
        });
        return encodeTrajectory(trajectory);
      } finally {
        await closeSession(session, environment);
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

  #pulse(): void {
    this.#report();
    const progress = layersComputed() + this.#waits.ended;
    this.#send({ type: "pulse", progress, doing: `waits for ${this.#waits.describe()}` });
  }

  #report(): void {
    const engines = [this.#engine.stats, ...this.#pool.stats];
    this.#send({
      type: "stats",
      abortedTokens: engines.reduce((sum, { abortedTokens }) => sum + abortedTokens, 0),
      weightsVerified: this.#check.verified,
      busyMs: this.#engine.stats.busyMs,
      faults: this.#player.faults,
    });
  }
}

let rollout: RolloutProcess | null = null;
let evaluations: Promise<void> = Promise.resolve();

const send = connectToSupervisor<ToRollout, FromRollout>((message) => {
  handle(message).catch(fail);
});
const fail = failWith(send);

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

send({ type: "started" });
