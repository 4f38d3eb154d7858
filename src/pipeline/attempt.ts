/**
 * One life of a run's learner: from a checkpoint, or from the beginning, to the end of the run or of that process. Feeds the
 * coordinator with what the processes say, gives them work, and looks whether they move.
 */
import { AgentRLError, briefly, type ErrorCode, oneLine } from "../errors.ts";
import { type Child, type ChildEnd, endChild, relayed } from "./children.ts";
import { type Clock, every, type Timer } from "./clock.ts";
import type { Coordinator } from "./coordinator.ts";
import { addFaults, type FaultCounts } from "./faults.ts";
import { Liveness } from "./liveness.ts";
import type { FromLearner, FromRollout, GroupBooks, Received, ToLearner } from "./messages.ts";
import { type FleetStats, RolloutFleet } from "./rollout-fleet.ts";
import type { AttemptHost, SavedBooks } from "./run-host.ts";
import type { RunLog } from "./run-log.ts";
import type { StepMetrics } from "./step-metrics.ts";

/** Groups of one task given up beyond those that were played to their end, after which its environment is taken for broken. */
const mostGivenUp = 8;
/**
 * Pulses of the learner, some seconds, for a sample to get from the ring to the supervisor's books once its group has ended.
 * Counted in its own pulses: a learner that stands still has lost nothing.
 */
const arrivalPulses = 30;
const tickMs = 1_000;
/** A tick that comes this late says that the machine stood still, not that the processes did. */
const jumpMs = 10_000;
/** Errors of a learner that starting it again would not mend. */
const finalCodes: readonly string[] = [
  "CONFIG",
  "MODEL_FILE",
  "TOKENIZER",
  "CHECKPOINT",
  "DISK",
  "NOT_FINITE",
  "MEMORY",
  "NATIVE_ADDON",
  "DEVICE",
] satisfies ErrorCode[];

export interface AttemptOptions {
  host: AttemptHost;
  clock: Clock;
  coordinator: Coordinator;
  log: RunLog;
  /** The newest checkpoint. */
  latest(): SavedBooks | null;
  /** Counts what goes wrong; those of the rollout processes are added when they are asked for. */
  faults: FaultCounts;
  processes: number;
  /** Restarts of a rollout process in a row. */
  restarts: number;
  /** Milliseconds without progress after which a process with work is taken for hung. */
  stallMs: { learner: number; rollout: number };
  /** Steps between checkpoints and between evaluations; 0: none. */
  checkpointEvery: number;
  evaluateEvery: number;
  /** [tasks] for messages. */
  tasks: readonly { name: string; split: string }[];
}

export type AttemptEnd =
  | { kind: "finished" | "stopped" }
  /** The learner is gone, and what it had trained since the last checkpoint with it. */
  | { kind: "lost"; error: AgentRLError };

export class Attempt {
  readonly #options: AttemptOptions;
  readonly #coordinator: Coordinator;
  readonly #log: RunLog;
  readonly #fleet: RolloutFleet;
  readonly #learner: Child<ToLearner, FromLearner>;
  readonly #liveness: Liveness;
  readonly outcome: Promise<AttemptEnd>;
  #resolve!: (end: AttemptEnd) => void;
  #reject!: (error: unknown) => void;
  #ticking: Timer | null = null;
  #lastTick = 0;
  /** Milliseconds since anything moved at all. */
  #still = 0;
  #ready = false;
  #training = false;
  /** Checkpoints that the learner has been asked for. */
  #saving = 0;
  /** The last checkpoint is being written. */
  #closing = false;
  #stopRequested = false;
  /** Why the run ends, once what is trained is saved. */
  #failure: unknown = null;
  #over = false;
  /** Groups that ended, until their samples have had time to arrive. */
  #ended: { group: number; worker: number; pulse: number }[] = [];
  #learnerPulses = 0;

  constructor(options: AttemptOptions) {
    this.#options = options;
    this.#coordinator = options.coordinator;
    this.#log = options.log;
    this.outcome = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // The first failure counts; what breaks while the run is being taken down is its consequence.
    this.outcome.catch(() => {});
    const { host, clock, processes, restarts, stallMs, faults } = options;
    this.#liveness = new Liveness(stallMs.learner);
    this.#learner = host.learner();
    this.#learner.onMessage(this.#guarded((message) => this.#fromLearner(message)));
    this.#learner.ended.then((how) => this.#learnerEnded(how)).catch((error) => this.#fail(error));
    this.#fleet = new RolloutFleet({
      processes,
      clock,
      start: (worker) => host.rollout(worker),
      maxIdleRestarts: restarts,
      stallMs: stallMs.rollout,
      playing: (worker) => this.#playing(worker),
      faults,
      events: {
        ready: this.#guarded((worker) => {
          // What its predecessor was evaluating when it died.
          if (worker === 0) for (const step of this.#log.evaluating) this.#fleet.evaluate(step);
        }),
        room: this.#guarded((worker) => this.#lease(worker)),
        ended: (worker, group) => this.#ended.push({ group, worker, pulse: this.#learnerPulses }),
        evaluated: this.#guarded(({ step, reports }) => {
          this.#log.evaluated(step, reports);
          if (this.#coordinator.finished) this.#finalCheckpoint();
        }),
        faulted: this.#guarded((message) => this.#faulted(message)),
        lost: this.#guarded((worker) => {
          this.#coordinator.workerLost(worker);
          host.reclaim();
          this.#giveUpHopeless();
        }),
        notice: (message) => this.#log.notice(message),
        failed: (error) => this.#endWith(error),
      },
    });
    this.#fleet.start();
    this.#lastTick = clock.now();
    this.#ticking = every(clock, tickMs, () => this.#tick());
  }

  /** What the rollout processes have come to. */
  get rolloutStats(): FleetStats {
    return this.#fleet.stats;
  }

  /** Ends the run after the step in progress, in a checkpoint. */
  stop(): void {
    if (this.#stopRequested) return;
    this.#stopRequested = true;
    if (this.#ready && !this.#training) this.#finalCheckpoint();
  }

  /** Stops the processes, with a bound on how long that may take. */
  async close(): Promise<void> {
    this.#over = true;
    this.#ticking?.cancel();
    await Promise.all([endChild(this.#learner, this.#options.clock), this.#fleet.end()]);
    this.#options.host.close();
  }

  #fromLearner(message: FromLearner): void {
    if (message.type === "pulse") {
      this.#liveness.pulse(message);
      this.#learnerPulses++;
      this.#lookForMissing();
      return;
    }
    this.#liveness.moved();
    if (message.type === "received") {
      this.#received(message);
    } else if (message.type === "ignored") {
      this.#options.faults[message.fault]++;
    } else if (message.type === "traceFailed") {
      this.#options.faults.traceFailures++;
      this.#log.noticeOnce("traces", `traces cannot be written, the run goes on without: ${message.error}`);
    } else if (message.type === "trained") {
      this.#trained(message.groups, message.metrics);
    } else if (message.type === "saved") {
      this.#log.checkpoint(message.step, message.folder);
      this.#saving--;
      if (this.#closing && this.#saving === 0) this.#settle();
    } else if (message.type === "checkpointFailed") {
      this.#saving--;
      this.#checkpointFailed(message.step, message.error);
    } else if (message.type === "ready") {
      this.#ready = true;
      if (this.#ends) this.#finalCheckpoint();
    } else if (message.type === "failed" && finalCodes.includes(message.code)) {
      this.#fail(relayed(message, "learner"));
    }
  }

  #received(message: Received): void {
    const { group, sample, reward } = message;
    const worker = this.#coordinator.received(group, sample, reward, message);
    if (worker === "late") {
      this.#options.faults.lateSamples++;
      this.#learner.send({ type: "discard", group, sample });
      return;
    }
    if (worker !== null) this.#fleet.delivered(worker);
    // A group of equal rewards may make room for another.
    this.#goOn();
  }

  #trained(groups: number[], metrics: StepMetrics): void {
    const { faults, evaluateEvery, tasks } = this.#options;
    this.#training = false;
    this.#coordinator.trained(groups);
    const { shares, bufferBytes, dropped } = this.#coordinator;
    const evaluated = evaluateEvery > 0 && metrics.step % evaluateEvery === 0;
    const stats = this.#fleet.stats;
    const context = {
      samplingWeights: Object.fromEntries(tasks.map(({ name }, task) => [name, shares[task]!])),
      abortedTokens: stats.abortedTokens,
      droppedGroups: dropped.groups,
      droppedTokens: dropped.tokens,
      engineShare: this.#fleet.takeEngineShare(),
      weightsVerified: stats.weightsVerified,
      bufferBytes,
      faults: addFaults(stats.faults, faults),
    };
    // First the line, then the checkpoint: whoever dies when, there is no checkpoint of a step without a line.
    this.#log.step(metrics, context, evaluated);
    if (evaluated) this.#fleet.evaluate(metrics.step);
    if (this.#ends) {
      this.#finalCheckpoint();
      return;
    }
    this.#checkpointIfDue();
    this.#goOn();
  }

  #checkpointIfDue(): void {
    const { checkpointEvery } = this.#options;
    const { version } = this.#coordinator;
    if (checkpointEvery === 0 || version % checkpointEvery !== 0) return;
    const error = this.#log.unwritten();
    if (error !== null) {
      this.#checkpointFailed(version, briefly(error));
      return;
    }
    this.#saving++;
    this.#learner.send({ type: "checkpoint", books: this.#books(), final: false });
  }

  #checkpointFailed(step: number, error: string): void {
    const { faults, latest } = this.#options;
    faults.checkpointFailures++;
    const previous = latest()?.folder ?? "no earlier one";
    this.#log.notice(
      `step ${step}: the checkpoint could not be written (${error}); the run goes on and keeps ${previous}`,
    );
  }

  /** A group that the environment cannot play costs that group; an environment that plays none ends the run. */
  #faulted({ group, index, error }: Extract<FromRollout, { type: "faulted" }>): void {
    this.#giveUp({ group, index }, `its environment failed in every try: ${oneLine(error)}`);
    this.#goOn();
  }

  /** Groups that end their processes, or whose samples never arrive. */
  #giveUpHopeless(): void {
    for (const group of this.#coordinator.hopeless) {
      this.#giveUp(group, "the process that played it ended, or its samples were lost, each time");
    }
  }

  #giveUp({ group, index }: { group: number; index: number }, cause: string): void {
    const abandoned = this.#coordinator.abandon(group);
    if (abandoned === null) return;
    const { name, split } = this.#options.tasks[abandoned.task]!;
    this.#learner.send({ type: "abandon", group });
    this.#options.faults.abandonedGroups++;
    const where = `${name}, ${split}[${index}]`;
    this.#log.notice(`${where} is left out: ${cause}`);
    if (abandoned.surplus < mostGivenUp) return;
    this.#endWith(
      new AgentRLError(
        "ENVIRONMENT",
        `Environment ${name} fails: ${mostGivenUp} more groups were given up than played to their end`,
        {
          where,
          got: cause,
          expected: "episodes that end",
          hint: "mend the cause above, then go on with --resume",
        },
      ),
    );
  }

  /** As in "kg train[12], train[40]". */
  #playing(worker: number): string {
    const { tasks } = this.#options;
    const draws = this.#coordinator.playedBy(worker);
    return [...new Set(draws.map(({ task }) => task))]
      .map((task) => {
        const { name, split } = tasks[task]!;
        const of = draws.filter((draw) => draw.task === task);
        return `${name} ${of.map(({ index }) => `${split}[${index}]`).join(", ")}`;
      })
      .join("; ");
  }

  #goOn(): void {
    this.#leaseAll();
    this.#advance();
  }

  #leaseAll(): void {
    for (const worker of this.#fleet.workers) this.#lease(worker);
  }

  #lease(worker: number): void {
    const room = this.#fleet.roomOf(worker);
    if (room === 0 || this.#ends) return;
    const leases = this.#coordinator.lease(worker, room);
    if (leases.length === 0) return;
    this.#fleet.give(
      worker,
      leases.map(({ draw, samples }) => ({ ...draw, samples })),
    );
  }

  #advance(): void {
    if (this.#training || this.#ends || this.#closing) return;
    const batch = this.#coordinator.nextBatch();
    if (batch === null) return;
    this.#training = true;
    const { groups, spares, dropped } = batch;
    for (const group of dropped) this.#learner.send({ type: "abandon", group });
    this.#learner.send({ type: "train", groups, spares, books: this.#books() });
    // Others are issued in the place of what was dropped.
    if (dropped.length > 0) this.#leaseAll();
  }

  #books(): GroupBooks {
    const { trainedGroups, sampling } = this.#coordinator;
    return { trainedGroups: trainedGroups.ranges(), ...(sampling && { sampling }) };
  }

  /** No more steps are to be begun. */
  get #ends(): boolean {
    return this.#coordinator.finished || this.#stopRequested || this.#failure !== null;
  }

  #finalCheckpoint(): void {
    if (this.#closing) return;
    // A run that ends with an evaluation under way waits for it.
    const evaluating = !this.#log.evaluating.next().done;
    if (evaluating && this.#coordinator.finished && !this.#stopRequested && this.#failure === null) return;
    const error = this.#log.unwritten();
    if (error !== null) {
      this.#fail(error);
      return;
    }
    this.#closing = true;
    this.#saving++;
    this.#learner.send({ type: "checkpoint", books: this.#books(), final: true });
  }

  #settle(): void {
    if (this.#failure !== null) this.#reject(this.#failure);
    else this.#resolve({ kind: this.#coordinator.finished ? "finished" : "stopped" });
  }

  #learnerEnded({ code, signal }: ChildEnd): void {
    if (this.#over) return;
    if (this.#failure !== null) {
      this.#reject(this.#failure);
      return;
    }
    const detail = { where: `exit ${signal ?? code}, at step ${this.#coordinator.version}` };
    const lines = this.#learner.lastLines();
    const error = new AgentRLError("PIPELINE", "The learner process ended", {
      ...detail,
      ...(lines && { got: lines }),
    });
    this.#resolve({ kind: "lost", error });
  }

  #tick(): void {
    const { clock, faults, stallMs } = this.#options;
    const now = clock.now();
    const passed = now - this.#lastTick;
    this.#lastTick = now;
    if (passed > jumpMs) faults.clockJumps++;
    // What a standstill of the whole machine took is nobody's delay.
    const ms = Math.min(passed, 2 * tickMs);
    this.#fleet.tick(ms);
    const busy = !this.#ready || this.#training || this.#saving > 0;
    if (this.#liveness.tick(ms, busy)) {
      faults.hungProcesses++;
      this.#log.notice(`${this.#liveness.describe(this.#learner.name)}; it is killed`);
      this.#liveness.moved();
      this.#learner.kill();
    }
    this.#still = [this.#liveness, ...this.#fleet.livenesses].some((one) => one.takeMoved()) ? 0 : this.#still + ms;
    if (this.#still >= 3 * Math.max(stallMs.learner, stallMs.rollout)) this.#fail(this.#standstill());
  }

  #lookForMissing(): void {
    const due = this.#ended.findIndex(({ pulse }) => this.#learnerPulses - pulse < arrivalPulses);
    for (const { group, worker } of this.#ended.splice(0, due < 0 ? this.#ended.length : due)) {
      const lost = this.#coordinator.missing(group, worker);
      if (lost === 0) continue;
      this.#options.faults.lostSamples += lost;
      this.#giveUpHopeless();
      this.#goOn();
    }
  }

  #standstill(): AgentRLError {
    const { version, inFlight } = this.#coordinator;
    const incomplete = this.#coordinator.incomplete().slice(0, 8).join(", ");
    return new AgentRLError("PIPELINE", "Nothing has moved", {
      where: `step ${version}: ${inFlight} groups in flight, incomplete: ${incomplete || "none"}`,
      got: `${Math.round(this.#still / 1000)} s of silence; learner ${this.#liveness.doing}; ${this.#fleet.describe()}`,
      expected: "progress in some process",
      hint: "look at what is waited for, then go on with --resume",
    });
  }

  /** The run cannot go on, but its learner can: what is trained is saved first. */
  #endWith(error: unknown): void {
    if (this.#over || this.#failure !== null) return;
    this.#failure = error;
    if (!this.#ready || this.#coordinator.version === 0) this.#reject(error);
    else if (!this.#training) this.#finalCheckpoint();
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#reject(this.#failure);
  }

  /** An error in a message handler (a full disk under the metrics file, say) ends the run, not the process. */
  #guarded<Args extends unknown[]>(work: (...args: Args) => void): (...args: Args) => void {
    return (...args) => {
      if (this.#over) return;
      try {
        work(...args);
      } catch (error) {
        this.#endWith(error);
      }
    };
  }
}
