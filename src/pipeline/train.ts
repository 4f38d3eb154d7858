/**
 * The supervisor of a run: creates the shared memory, starts the learner and the rollout processes, feeds the
 * coordinator, writes metrics, restarts what crashes, and ends everything in a checkpoint.
 */
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TrainConfig } from "../config/train.ts";
import type { EvalReport } from "../env/report.ts";
import { AgentRLError, oneLine } from "../errors.ts";
import { loadModelFolder } from "../model/files.ts";
import { modelFingerprint } from "../model/fingerprint.ts";
import { assertFitsMemory } from "../model/memory.ts";
import type { RunEvent } from "../observe/events.ts";
import { MetricsSink } from "../observe/metrics.ts";
import { ownModule } from "../own-files.ts";
import { Ring } from "../shm/ring.ts";
import { WeightBoard } from "../shm/weight-board.ts";
import { latestCheckpoint, readCheckpoint } from "./checkpoint.ts";
import { type Child, endChild, relayed, startChild } from "./children.ts";
import { Coordinator } from "./coordinator.ts";
import { openEnvironment } from "./environments.ts";
import {
  type FromLearner,
  type FromRollout,
  fromRanges,
  type GroupBooks,
  type Setup,
  type ToLearner,
  toRanges,
} from "./messages.ts";
import { resolveDevice } from "./open-device.ts";
import { assertPanels } from "./panel.ts";
import { maxLagOf, planRun } from "./plan.ts";
import { checkPool } from "./pool-models.ts";
import { RolloutFleet } from "./rollout-fleet.ts";
import { recordSession } from "./run-record.ts";
import type { StepMetrics } from "./step-metrics.ts";
import { taskMix, taskNamesOf } from "./task-mix.ts";

/** Nothing moving for this long ends the run with the names of those who wait. */
const stallMs = 180_000;
const startMs = 120_000;
/** Groups of one task given up in a row, after which its environment is taken for broken. */
const maxAbandonedInARow = 8;

/** A line of metrics.jsonl. */
export interface RunStep extends StepMetrics {
  /** Seconds since the run (or its resumption) began. */
  elapsed: number;
  /** Trained tokens per second of the last step's wall time, waiting included. */
  tokensPerSecond: number;
  /**
   * Share of the step's wall time in which the learner trained, and in which the engines computed (mean over the rollout
   * processes, between their last reports; null when none has reported since the step before).
   */
  utilisation: { learner: number; engine: number | null };
  /** Share of each task in the groups that are drawn next. */
  samplingWeights: Record<string, number>;
  abortedTokens: number;
  environmentRetries: number;
  /** Groups given up so far, since the environment failed a sample in every try; others were played instead. */
  abandonedGroups: number;
  rolloutRestarts: number;
  /** Present on steps that were evaluated. */
  evaluation?: EvalReport[];
}

export interface RunOptions {
  config: TrainConfig;
  /** Resolved config as YAML, kept in the run folder. */
  yaml: string;
  /** Run folder. */
  out: string;
  /** Go on from the newest checkpoint in `out`. */
  resume?: boolean;
  onEvent?: (event: RunEvent) => void;
  /** Ends the run after the step in progress, in a checkpoint. */
  signal?: AbortSignal;
}

export interface RunSummary {
  steps: number;
  /** True when `signal` ended the run before its last step. */
  stopped: boolean;
  checkpoint: string;
  /** Model folder inside the checkpoint. */
  model: string;
  seconds: number;
  sampledTokens: number;
  tokensPerSecond: number;
  /** Over the whole run; null when nothing was compared. */
  mismatch: number | null;
  mismatchTokens: number;
  maxLag: number;
  abortedTokens: number;
  rolloutRestarts: number;
}

export async function runTraining(options: RunOptions): Promise<RunSummary> {
  const run = new Run(options);
  try {
    return await run.play();
  } finally {
    await run.cleanUp();
  }
}

class Run {
  readonly #options: RunOptions;
  readonly #config: TrainConfig;
  /** Opened once the input is known to be good: a start that fails leaves no run behind. */
  #sink: MetricsSink | null = null;
  #learner: Child<ToLearner, FromLearner> | null = null;
  #coordinator!: Coordinator;
  #setup!: Setup;
  #rollouts: RolloutFleet | null = null;
  #ring: Ring | null = null;
  #board: WeightBoard | null = null;
  #ending = false;
  #stopRequested = false;
  #training = false;
  #startedAt = 0;
  #lastStepAt = 0;
  #lastProgress = 0;
  #watchdog: NodeJS.Timeout | undefined;
  #finish!: (summary: RunSummary) => void;
  #fail!: (error: unknown) => void;
  #abandonedGroups = 0;
  #lastCheckpoint: { step: number; folder: string } | null = null;
  /** Lines of metrics.jsonl that wait for their step's evaluation, by step. */
  readonly #evaluating = new Map<number, RunStep>();
  #totals = { sampledTokens: 0, mismatch: 0, mismatchTokens: 0, maxLag: 0 };

  constructor(options: RunOptions) {
    this.#options = options;
    this.#config = options.config;
    const { out, resume = false } = options;
    const exists = existsSync(join(out, "metrics.jsonl"));
    if (exists && !resume) {
      throw new AgentRLError("USAGE", "The run folder holds a run already", {
        where: out,
        expected: "a new folder, or --resume",
        hint: "choose another --out, or go on with --resume",
      });
    }
    mkdirSync(join(out, "checkpoints"), { recursive: true });
  }

  async play(): Promise<RunSummary> {
    const { config } = this.#options;
    const outcome = new Promise<RunSummary>((resolve, reject) => {
      this.#finish = resolve;
      this.#fail = reject;
    });
    // The first failure counts; what breaks while the run is being taken down is its consequence.
    outcome.catch(() => {});
    await this.#prepare();
    this.#startedAt = performance.now();
    this.#lastStepAt = this.#startedAt;
    this.#progress();
    this.#startLearner();
    this.#watchdog = setInterval(() => this.#watch(), 1_000);
    const { signal } = this.#options;
    const stop = () => this.#stop();
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    this.#fleet().start(config.rollout.processes);
    try {
      return await outcome;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Everything that can be wrong with the input is found here, before a process starts. */
  async #prepare(): Promise<void> {
    const { config, yaml, out, resume = false } = this.#options;
    const checkpoints = join(out, "checkpoints");
    const from = resume ? latestCheckpoint(checkpoints) : null;
    const checkpoint = from === null ? null : readCheckpoint(from);
    const modelFolder = checkpoint?.modelFolder ?? config.model.path;
    const model = loadModelFolder(modelFolder);
    model.tensors.close();
    checkPool(config, model);
    const plan = planRun(config, model.config);
    assertFitsMemory(plan.memory);
    const device = await resolveDevice(config);

    const environments = await Promise.all(config.tasks.map(openEnvironment));
    const sampler = taskMix(config.tasks, environments, config.seed);
    const taskNames = taskNamesOf(environments);
    // What the run will be evaluated on must exist as well.
    if (config.evaluation.every > 0) assertPanels(config, environments);
    await Promise.all(environments.map((environment) => environment.close()));

    const minShares = config.tasks.map((task) => task.minShare);
    const { signal, floor, halfLife } = config.sampling.adaptive;
    const { step: done = 0, trainedGroups = [], sampling } = checkpoint?.state ?? {};
    this.#coordinator = new Coordinator({
      sampler,
      groupSize: config.rollout.groupSize,
      groupsPerStep: config.rollout.groupsPerStep,
      maxLag: maxLagOf(config),
      steps: config.steps,
      maxFactor: config.algorithm.filters.dynamicSampling.maxFactor,
      ...(minShares.some((share) => share > 0) && { minShares }),
      ...(signal !== "off" && { adaptive: { signal, floor, halfLife } }),
      step: done,
      trained: fromRanges(trainedGroups),
      ...(sampling && { sampling }),
    });
    this.#sink = new MetricsSink(join(out, "metrics.jsonl"));
    writeFileSync(join(out, "config.yaml"), yaml);

    const id = `${process.pid}-${randomBytes(4).toString("hex")}`;
    this.#ring = Ring.create({ name: `/agentrl-${id}-ring`, capacityBytes: plan.ringBytes });
    this.#board = WeightBoard.create({
      name: `/agentrl-${id}-board`,
      slots: plan.boardSlots,
      bytes: plan.boardSlotBytes,
    });
    this.#setup = {
      config,
      device,
      ring: `/agentrl-${id}-ring`,
      board: `/agentrl-${id}-board`,
      modelFolder,
      firstVersion: this.#coordinator.version,
      resume: from,
      checkpoints,
      configHash: configHash(config),
      taskNames,
    };
    const step = this.#coordinator.version;
    recordSession(out, { step, configHash: this.#setup.configHash, device });
    this.#emit({ type: "started", step, steps: config.steps });
  }

  #startLearner(): void {
    const child = startChild<ToLearner, FromLearner>("learner", entry("learner"));
    this.#learner = child;
    child.onMessage((message) => this.#guard(() => this.#fromLearner(message)));
    child.send({ type: "setup", setup: this.#setup });
    child.ended
      .then(({ code, signal }) => {
        if (this.#ending) return;
        this.#fail(
          new AgentRLError("PIPELINE", "The learner process ended", {
            where: `exit ${signal ?? code}`,
            got: child.lastLines(),
            hint: `go on from the last checkpoint with --resume (${this.#lastCheckpoint?.folder ?? "none written yet"})`,
          }),
        );
      })
      .catch((error) => this.#fail(error));
  }

  #fleet(): RolloutFleet {
    const guarded =
      <Args extends unknown[]>(work: (...args: Args) => void) =>
      (...args: Args) =>
        this.#guard(() => work(...args));
    this.#rollouts = new RolloutFleet(this.#setup, entry("rollout"), {
      alive: () => this.#progress(),
      ready: guarded((worker) => {
        // What its predecessor was evaluating when it died.
        if (worker === 0) for (const step of this.#evaluating.keys()) this.#rollouts!.evaluate(step);
      }),
      room: guarded((worker) => this.#lease(worker)),
      evaluated: guarded(({ step, reports }) => this.#evaluated(step, reports)),
      faulted: guarded((message) => this.#faulted(message)),
      lost: guarded((worker) => {
        this.#coordinator.workerLost(worker);
        this.#ring?.reclaim();
      }),
      notice: (message) => this.#emit({ type: "notice", message }),
      failed: (error) => this.#fail(error),
    });
    return this.#rollouts;
  }

  /** A group that the environment cannot play costs that group; an environment that plays none ends the run. */
  #faulted({ group, index, error }: Extract<FromRollout, { type: "faulted" }>): void {
    const abandoned = this.#coordinator.abandon(group);
    if (abandoned === null) return;
    const { task, inARow } = abandoned;
    const name = this.#setup.taskNames[task]!;
    const where = `${name}, ${this.#config.tasks[task]!.split}[${index}]`;
    const cause = oneLine(error);
    if (inARow >= maxAbandonedInARow) {
      throw new AgentRLError("ENVIRONMENT", `Environment ${name} fails: ${inARow} groups in a row were given up`, {
        where,
        got: cause,
        expected: "episodes that end",
        hint: "mend the cause above, then go on with --resume",
      });
    }
    this.#learner!.send({ type: "abandon", group });
    this.#abandonedGroups++;
    const message = `${where} is left out: its environment failed in every try: ${cause}`;
    this.#emit({ type: "notice", message });
    this.#leaseAll();
    this.#advance();
  }

  #fromLearner(message: FromLearner): void {
    this.#progress();
    if (message.type === "received") {
      this.#coordinator.received(message.group, message.sample, message.reward);
      this.#rollouts?.delivered();
      // A group of equal rewards may make room for another.
      this.#leaseAll();
      this.#advance();
    } else if (message.type === "trained") {
      this.#trained(message.groups, message.metrics);
    } else if (message.type === "saved") {
      this.#lastCheckpoint = { step: message.step, folder: message.folder };
      this.#emit({ type: "checkpoint", step: message.step, folder: message.folder });
      if ((this.#stopRequested && !this.#training) || this.#coordinator.finished) this.#done();
    } else if (message.type === "ready") {
      if (this.#coordinator.finished) this.#finalCheckpoint();
      else if (this.#stopRequested) this.#finalCheckpoint();
    } else if (message.type === "failed") {
      this.#fail(relayed(message, "learner"));
    }
  }

  #trained(groups: number[], metrics: StepMetrics): void {
    this.#training = false;
    this.#coordinator.trained(groups);
    const now = performance.now();
    const wallMs = now - this.#lastStepAt;
    const { abortedTokens, retries } = this.#rollouts!.stats;
    const line: RunStep = {
      ...metrics,
      elapsed: (now - this.#startedAt) / 1000,
      tokensPerSecond: metrics.sampledTokens / (wallMs / 1000),
      utilisation: {
        // A message that came late makes the next step look shorter than it was.
        learner: Math.min(1, metrics.timings.step / wallMs),
        engine: this.#rollouts!.takeEngineShare(),
      },
      samplingWeights: this.#samplingWeights(),
      abortedTokens,
      environmentRetries: retries,
      abandonedGroups: this.#abandonedGroups,
      rolloutRestarts: this.#rollouts!.restarts,
    };
    this.#lastStepAt = now;
    const totals = this.#totals;
    totals.sampledTokens += metrics.sampledTokens;
    totals.mismatchTokens += metrics.mismatchTokens;
    totals.mismatch = Math.max(totals.mismatch, metrics.mismatch ?? 0);
    totals.maxLag = Math.max(totals.maxLag, metrics.maxLag);

    const { every } = this.#config.evaluation;
    if (every > 0 && metrics.step % every === 0) {
      // The line is written when its evaluation is in, so that one line holds all that is known of a step.
      this.#evaluating.set(metrics.step, line);
      this.#rollouts!.evaluate(metrics.step);
    } else {
      this.#sink!.write(line);
    }
    this.#emit({ type: "step", metrics: line });
    if (this.#coordinator.finished || this.#stopRequested) this.#finalCheckpoint();
    else {
      this.#leaseAll();
      this.#advance();
    }
  }

  #evaluated(step: number, reports: EvalReport[]): void {
    const line = this.#evaluating.get(step);
    if (line === undefined) return;
    this.#sink!.write({ ...line, evaluation: reports });
    this.#evaluating.delete(step);
    this.#emit({ type: "evaluated", step, reports });
    if (this.#coordinator.finished) this.#finalCheckpoint();
  }

  #leaseAll(): void {
    for (const worker of this.#rollouts?.workers ?? []) this.#lease(worker);
  }

  #lease(worker: number): void {
    const room = this.#rollouts!.roomOf(worker);
    if (room === 0 || this.#stopRequested) return;
    const leases = this.#coordinator.lease(worker, room);
    if (leases.length > 0)
      this.#rollouts!.give(
        worker,
        leases.map(({ draw, samples }) => ({ ...draw, samples })),
      );
  }

  #advance(): void {
    if (this.#training || this.#stopRequested) return;
    const batch = this.#coordinator.nextBatch();
    if (batch === null) return;
    this.#training = true;
    const { every } = this.#config.checkpoint;
    const step = this.#coordinator.version + 1;
    const checkpoint = every > 0 && step % every === 0 && step < this.#config.steps;
    const books = this.#books([...batch.groups, ...batch.spares]);
    this.#learner!.send({ type: "train", ...batch, checkpoint, books });
  }

  /** For a checkpoint after a step that uses up `more` groups. */
  #books(more: readonly number[] = []): GroupBooks {
    const { trainedGroups, sampling } = this.#coordinator;
    return { trainedGroups: toRanges([...trainedGroups, ...more]), ...(sampling && { sampling }) };
  }

  #samplingWeights(): Record<string, number> {
    const { shares } = this.#coordinator;
    return Object.fromEntries(this.#setup.taskNames.map((name, task) => [name, shares[task]!]));
  }

  #stop(): void {
    if (this.#stopRequested) return;
    this.#stopRequested = true;
    this.#emit({ type: "notice", message: "stopping after the step in progress, with a checkpoint" });
    if (!this.#training) this.#finalCheckpoint();
  }

  #finalCheckpoint(): void {
    // A run that ends with an evaluation under way waits for it.
    if (this.#evaluating.size > 0 && this.#coordinator.finished && !this.#stopRequested) return;
    this.#learner!.send({ type: "checkpoint", books: this.#books() });
  }

  #done(): void {
    const seconds = (performance.now() - this.#startedAt) / 1000;
    const { sampledTokens, mismatch, mismatchTokens, maxLag } = this.#totals;
    this.#emit({ type: "finished" });
    this.#finish({
      steps: this.#coordinator.version,
      stopped: !this.#coordinator.finished,
      checkpoint: this.#lastCheckpoint!.folder,
      model: join(this.#lastCheckpoint!.folder, "model"),
      seconds,
      sampledTokens,
      tokensPerSecond: sampledTokens / seconds,
      mismatch: mismatchTokens > 0 ? mismatch : null,
      mismatchTokens,
      maxLag,
      abortedTokens: this.#rollouts?.stats.abortedTokens ?? 0,
      rolloutRestarts: this.#rollouts?.restarts ?? 0,
    });
  }

  #watch(): void {
    const still = performance.now() - this.#lastProgress;
    const limit = this.#coordinator.inFlight === 0 ? Math.max(startMs, stallMs) : stallMs;
    if (still < limit) return;
    const waiting = this.#training
      ? "the learner, which is training"
      : `${this.#coordinator.inFlight} groups in flight${this.#blockedBy()}`;
    this.#fail(
      new AgentRLError("PIPELINE", "Nothing has moved", {
        where: `step ${this.#coordinator.version}: the run waits for ${waiting}`,
        got: `${Math.round(still / 1000)} s of silence`,
        expected: "a message from a child process",
        hint: "look at the environment, then go on with --resume",
      }),
    );
  }

  #blockedBy(): string {
    const incomplete = this.#coordinator.incomplete();
    return incomplete.length === 0 ? "" : `, incomplete: ${incomplete.slice(0, 8).join(", ")}`;
  }

  #progress(): void {
    this.#lastProgress = performance.now();
  }

  /** An error in a message handler (a full disk under the metrics file, say) ends the run, not the process. */
  #guard(work: () => void): void {
    if (this.#ending) return;
    try {
      work();
    } catch (error) {
      this.#fail(error);
    }
  }

  #emit(event: RunEvent): void {
    this.#options.onEvent?.(event);
  }

  /** Stops the children, with a bound on how long that may take, and removes the shared memory. */
  async cleanUp(): Promise<void> {
    this.#ending = true;
    clearInterval(this.#watchdog);
    await Promise.all([this.#learner && endChild(this.#learner), this.#rollouts?.end()]);
    this.#ring?.close();
    this.#ring?.unlink();
    this.#board?.close();
    this.#board?.unlink();
    // Evaluations that a stop cut off: their steps are not lost.
    for (const line of this.#evaluating.values()) this.#sink!.write(line);
    this.#sink?.close();
  }
}

function entry(name: "learner" | "rollout"): URL {
  return ownModule(`./${name}`, import.meta.url);
}

/**
 * What a resumed run must agree on: everything but how long it runs and how it is spread over processes. The model counts
 * by its content, so that a project may be moved.
 */
function configHash(config: TrainConfig): string {
  const model = modelFingerprint(config.model.path);
  const { steps: _steps, checkpoint: _checkpoint, evaluation: _evaluation, ...rest } = config;
  const { processes: _processes, threads: _threads, maxSequences: _sequences, ...rollout } = rest.rollout;
  const { threads: _learnerThreads, ...learner } = rest.learner;
  const text = JSON.stringify({ ...rest, model, rollout, learner });
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
