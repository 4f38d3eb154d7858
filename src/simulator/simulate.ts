/**
 * The pipeline with its engine and its learner replaced by models of their timing. Supervisor, coordinator, group player,
 * learner loop, deadlines and restarts are the code of a real run; time is simulated, so that thousands of steps take
 * seconds, and every fault that a run can meet can be injected.
 */
import { AgentRLError } from "../errors.ts";
import type { Overdue } from "../pipeline/batch-choice.ts";
import { type Clock, every } from "../pipeline/clock.ts";
import { Coordinator } from "../pipeline/coordinator.ts";
import {
  type FromLearner,
  type FromRollout,
  fromRanges,
  type ToLearner,
  type ToRollout,
} from "../pipeline/messages.ts";
import type { AttemptHost, RunHost, SavedBooks } from "../pipeline/run-host.ts";
import { RunLog, type RunStep } from "../pipeline/run-log.ts";
import { type RunEnd, supervise } from "../pipeline/supervisor.ts";
import { TaskSampler } from "../rl/sampler.ts";
import { FaultPlan, type FaultRates } from "./fault-plan.ts";
import { groupsOf, SimBoard } from "./sim-board.ts";
import { SimDisk } from "./sim-disk.ts";
import { startSimLearner } from "./sim-learner.ts";
import { SimProcess } from "./sim-process.ts";
import { SimRing } from "./sim-ring.ts";
import { startSimRollout } from "./sim-rollout.ts";
import { defaultTiming, type Timing } from "./timing.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** SIGKILL for one process, at a moment of simulated time. */
export interface SimKill {
  at: number;
  victim: "supervisor" | "learner" | number;
}

export interface SimulateOptions {
  steps: number;
  seed: number;
  groupSize?: number;
  groupsPerStep?: number;
  maxLag?: number;
  overdue?: Overdue;
  processes?: number;
  /** Groups that a rollout process plays at once. */
  places?: number;
  checkpointEvery?: number;
  bufferBytes?: number;
  ringBytes?: number;
  restarts?: number;
  /** Seconds that a try of an episode may take. */
  episodeSeconds?: number;
  /** One task in so many ends the process that plays it. @default none does */
  fatalEvery?: number;
  timing?: Partial<Timing>;
  faults?: Partial<FaultRates>;
  /** In order of time, which begins anew after each kill of the supervisor. */
  kills?: readonly SimKill[];
}

export interface Simulation {
  steps: number;
  /** A hash of all that was trained, in order. */
  weights: string;
  /** Groups that went into the weights, in order of training. */
  groups: number[];
  /** Numbers that no batch can have any more. */
  used: number[];
  lines: RunStep[];
  /** Of the last life of the supervisor. */
  end: RunEnd;
  injected: FaultPlan["injected"];
  /** Laws that were broken. */
  violations: string[];
  notices: string[];
  /** Lives of the supervisor. */
  lives: number;
  /** Simulated seconds of all lives. */
  seconds: number;
  events: number;
  /** The most that there was at any time. */
  most: { bufferBytes: number; inFlight: number; inboxSamples: number; ringBytes: number };
}

const supervisorKilled = Symbol("the supervisor is killed");
/** Simulated milliseconds without a step in which a run counts as hung for ever. */
const hangMs = 6 * 3600_000;
/** Bytes of the longest record. */
const largestEpisode = 1024;

/** @throws AgentRLError what the run ended with; PIPELINE where it hung. */
export async function simulate(options: SimulateOptions): Promise<Simulation> {
  return await new Simulator(options).play();
}

class Simulator {
  readonly #options: Required<Omit<SimulateOptions, "timing" | "faults" | "kills">>;
  readonly #timing: Timing;
  readonly #faults: FaultPlan;
  readonly #kills: SimKill[];
  readonly #disk = new SimDisk();
  readonly #violations: string[] = [];
  readonly #notices: string[] = [];
  readonly #most = { bufferBytes: 0, inFlight: 0, inboxSamples: 0, ringBytes: 0 };
  #starts = 0;

  constructor({ timing, faults = {}, kills = [], ...options }: SimulateOptions) {
    this.#options = {
      groupSize: 4,
      groupsPerStep: 4,
      maxLag: 2,
      overdue: "pace",
      processes: 2,
      places: 8,
      checkpointEvery: 5,
      bufferBytes: 1 << 20,
      ringBytes: 1 << 16,
      restarts: 20,
      episodeSeconds: 1800,
      fatalEvery: Number.POSITIVE_INFINITY,
      ...options,
    };
    this.#timing = { ...defaultTiming, ...timing };
    this.#faults = new FaultPlan(faults, options.seed);
    this.#kills = [...kills];
  }

  async play(): Promise<Simulation> {
    let seconds = 0;
    let events = 0;
    for (let lives = 1; ; lives++) {
      const world = new VirtualClock();
      const end = await this.#live(world, lives > 1);
      seconds += world.now() / 1000;
      events += world.passed;
      if (end === supervisorKilled) continue;
      const { lineage, books } = this.#disk.read(end.checkpoint);
      return {
        steps: end.steps,
        weights: lineage.weights,
        groups: groupsOf(lineage),
        used: fromRanges(books.trainedGroups),
        lines: [...this.#disk.lines.values()].sort((a, b) => a.step - b.step),
        end,
        injected: this.#faults.injected,
        violations: this.#violations,
        notices: this.#notices,
        lives,
        seconds,
        events,
        most: this.#most,
      };
    }
  }

  /** One life of the supervisor. */
  async #live(world: VirtualClock, resume: boolean): Promise<RunEnd | typeof supervisorKilled> {
    const { steps, processes, restarts, checkpointEvery } = this.#options;
    const host = this.#host(world);
    let killed = false;
    let lastStep = 0;
    let coordinator: Coordinator | null = null;
    const next = () => {
      const kill = this.#kills.shift();
      if (kill === undefined) return;
      world.after(kill.at - world.now(), () => {
        if (kill.victim === "supervisor") {
          killed = true;
          return;
        }
        host.kill(kill.victim);
        next();
      });
    };
    next();
    every(world, 60_000, () => {
      if (this.#faults.strikes("clockJump")) world.jump(3600_000);
    });
    const log = new RunLog({
      clock: world,
      sink: {
        write: (line) => {
          const step = line as RunStep;
          this.#disk.lines.set(step.step, step);
          this.#most.bufferBytes = Math.max(this.#most.bufferBytes, step.bufferBytes);
          this.#most.inFlight = Math.max(this.#most.inFlight, coordinator?.inFlight ?? 0);
          lastStep = world.now();
        },
      },
      emit: (event) => {
        if (event.type === "notice") this.#notices.push(event.message);
      },
    });
    const run = supervise({
      host,
      log,
      coordinator: (from) => {
        coordinator = this.#coordinator(from);
        return coordinator;
      },
      resume,
      processes,
      restarts,
      stallMs: { learner: 180_000, rollout: 180_000 },
      checkpointEvery,
      evaluateEvery: 0,
      tasks: [{ name: "simulated", split: "train" }],
    });
    const how = await world.run(run, () => killed || world.now() - lastStep > hangMs);
    if (how === "settled") return await run;
    run.catch(() => {});
    if (killed) return supervisorKilled;
    throw new AgentRLError("PIPELINE", "The simulated run hangs", {
      where: `${this.#disk.lines.size} of ${steps} steps`,
      got: how === "nothing" ? "nothing more would happen" : `no step in ${hangMs / 3600_000} simulated hours`,
      expected: "steps",
    });
  }

  #coordinator(from: SavedBooks | null): Coordinator {
    const { groupSize, groupsPerStep, maxLag, overdue, steps, seed, bufferBytes } = this.#options;
    const indices = [...Array(200).keys()];
    const { step = 0, trainedGroups = [] } = from?.state ?? {};
    return new Coordinator({
      sampler: new TaskSampler([{ name: "simulated", weight: 1, strata: [{ weight: 1, indices }] }], seed),
      groupSize,
      groupsPerStep,
      maxLag,
      overdue,
      steps,
      buffer: { maxBytes: bufferBytes, largestEpisode },
      step,
      trained: trainedGroups,
    });
  }

  #host(world: VirtualClock): RunHost & { kill(victim: "learner" | number): void } {
    let current: Attempt | null = null;
    return {
      clock: world,
      latest: () => this.#disk.latest(),
      open: (from) => {
        current = this.#attempt(world, from);
        return current;
      },
      kill: (victim) => current?.kill(victim),
    };
  }

  #attempt(world: Clock, from: SavedBooks | null): Attempt {
    const { groupSize, maxLag, places, ringBytes, seed, episodeSeconds, fatalEvery } = this.#options;
    const faults = this.#faults;
    const timing = this.#timing;
    const board = new SimBoard();
    const ring = new SimRing({ world, capacityBytes: ringBytes, faults, seed: this.#starts });
    let learner: SimProcess<ToLearner, FromLearner> | null = null;
    const rollouts: SimProcess<ToRollout, FromRollout>[] = [];
    return {
      learner: () => {
        const process = new SimProcess<ToLearner, FromLearner>("learner", world);
        learner = process;
        const violation = (what: string) => this.#violations.push(what);
        const folder = from?.folder ?? null;
        startSimLearner({
          process,
          ring,
          board,
          disk: this.#disk,
          from: folder,
          faults,
          timing,
          groupSize,
          maxLag,
          violation,
          inbox: (samples) => {
            this.#most.inboxSamples = Math.max(this.#most.inboxSamples, samples);
          },
        });
        this.#endanger(process, "learner");
        process.send(setUp);
        return process;
      },
      rollout: (worker) => {
        const process = new SimProcess<ToRollout, FromRollout>(`rollout ${worker}`, world);
        rollouts[worker] = process;
        const limits = { places, tries: 5, tryMs: episodeSeconds * 1000, fatalEvery };
        const name = "simulated";
        startSimRollout({ process, ring, board, faults, timing, ...limits, seed: mixSeed(seed, this.#starts++), name });
        this.#endanger(process, "rollout");
        process.send(setUp);
        return process;
      },
      reclaim: () => {},
      close: () => {
        this.#most.ringBytes = Math.max(this.#most.ringBytes, ring.mostUsed);
      },
      kill: (victim) => {
        if (victim === "learner") learner?.kill();
        else rollouts[victim]?.kill();
      },
    };
  }

  /** Crashes and hangs, as the plan has them, for as long as the process lives. */
  #endanger(
    process: SimProcess<ToLearner, FromLearner> | SimProcess<ToRollout, FromRollout>,
    kind: "learner" | "rollout",
  ) {
    every(process.clock, 1_000, () => {
      if (this.#faults.strikes(`${kind}Crash`)) process.crash(`simulated crash of ${process.name}`);
      else if (this.#faults.strikes(`${kind}Hang`)) process.hang();
    });
  }
}

type Attempt = AttemptHost & { kill(victim: "learner" | number): void };

/** Models need nothing of the real set-up. */
const setUp = { type: "setup" } as Extract<ToLearner, { type: "setup" }>;

function mixSeed(seed: number, start: number): number {
  return (Math.imul(seed, 0x9e3779b1) + start) >>> 0;
}
