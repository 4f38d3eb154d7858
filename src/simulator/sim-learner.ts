/** The learner process of a simulation: the real loop over a model of training, which checks what it is given. */
import { AgentRLError, failure } from "../errors.ts";
import { type Clock, every, sleep } from "../pipeline/clock.ts";
import { collect } from "../pipeline/collect.ts";
import { LearnerLoop, type Trainer } from "../pipeline/learner-loop.ts";
import { type FromLearner, type GroupBooks, pulseMs, type ToLearner } from "../pipeline/messages.ts";
import type { StepMetrics } from "../pipeline/step-metrics.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import type { FaultPlan } from "./fault-plan.ts";
import { type Lineage, type SimBoard, trained, untrained } from "./sim-board.ts";
import type { SimDisk } from "./sim-disk.ts";
import { rewardOf } from "./sim-environment.ts";
import type { SimProcess } from "./sim-process.ts";
import type { SimRing } from "./sim-ring.ts";
import type { Timing } from "./timing.ts";

export interface SimLearnerOptions {
  process: SimProcess<ToLearner, FromLearner>;
  ring: SimRing;
  board: SimBoard;
  disk: SimDisk;
  /** Folder of the checkpoint to go on from. */
  from: string | null;
  faults: FaultPlan;
  timing: Timing;
  groupSize: number;
  maxLag: number;
  /** Where a batch that breaks a law is told. */
  violation(what: string): void;
  /** Samples that wait, once a second. */
  inbox(samples: number): void;
}

export function startSimLearner(options: SimLearnerOptions): void {
  const { process } = options;
  let loop: LearnerLoop<Trajectory> | null = null;
  const fail = (error: unknown) => {
    process.emit({ type: "failed", ...failure(error) });
    process.crash(String(error));
  };
  const begin = async () => {
    await sleep(process.clock, options.timing.setUp);
    const begun = new LearnerLoop<Trajectory>({
      trainer: new SimTrainer(options),
      send: (message) => process.emit(message),
      goOnWithoutCheckpoint: true,
    });
    loop = begun;
    every(process.clock, pulseMs, () => {
      options.inbox(begun.waiting);
      process.emit({ type: "pulse", progress: begun.handled, doing: begun.doing });
    });
    await collect({
      pop: () => options.ring.pop(process.clock, 1_000),
      into: begun,
      corrupt: () => process.emit({ type: "ignored", fault: "corruptRecords" }),
    });
  };
  process.handle((message) => {
    if (message.type === "setup") begin().catch(fail);
    else if (message.type !== "stop") loop!.handle(message).catch(fail);
  });
}

class SimTrainer implements Trainer<Trajectory> {
  readonly books: GroupBooks;
  readonly #options: SimLearnerOptions;
  readonly #clock: Clock;
  #lineage: Lineage;

  constructor(options: SimLearnerOptions) {
    this.#options = options;
    this.#clock = options.process.clock;
    const saved = options.from === null ? null : options.disk.read(options.from);
    this.#lineage = saved?.lineage ?? untrained;
    this.books = saved?.books ?? { trainedGroups: [] };
    options.board.publish(this.#lineage);
  }

  get step(): number {
    return this.#lineage.version;
  }

  rewardOf({ reward }: Trajectory): number {
    return reward;
  }

  async train(groups: Trajectory[][]): Promise<StepMetrics> {
    for (const group of groups) this.#check(group);
    await sleep(this.#clock, this.#options.timing.train);
    const lags = groups.flat().map(({ oldestVersion }) => this.step - Math.min(...oldestVersion));
    this.#lineage = trained(this.#lineage, groups);
    this.#options.board.publish(this.#lineage);
    return {
      ...noMetrics,
      step: this.step,
      version: this.step,
      maxLag: Math.max(...lags),
      checksum: this.#lineage.weights,
    };
  }

  async save(books: GroupBooks): Promise<string> {
    const { timing, disk, faults } = this.#options;
    await sleep(this.#clock, timing.checkpoint);
    if (faults.strikes("diskFull")) throw new AgentRLError("DISK", "no space is left on the disk");
    return disk.write({ books, lineage: this.#lineage });
  }

  /** A batch holds whole groups of episodes that ended by themselves, with the rewards that they earned, none too old. */
  #check(group: Trajectory[]): void {
    const { groupSize, maxLag, violation } = this.#options;
    const number = group[0]?.group;
    const samples = group.map(({ sample }) => sample);
    if (samples.join() !== [...Array(groupSize).keys()].join()) violation(`group ${number} has samples ${samples}`);
    for (const { sample, seed, reward, endReason, oldestVersion } of group) {
      const where = `group ${number}, sample ${sample}`;
      if (endReason !== "completed") violation(`${where} ended as '${endReason}'`);
      if (reward !== rewardOf(seed, sample)) violation(`${where} has reward ${reward}`);
      const lag = this.step - Math.min(...oldestVersion);
      if (lag > maxLag) violation(`${where} is ${lag} versions old at step ${this.step}`);
    }
  }
}

const noMetrics: Omit<StepMetrics, "step" | "version" | "maxLag" | "checksum"> = {
  tasks: {},
  reward: 0,
  loss: 0,
  entropy: 0,
  ratio: 1,
  clipFraction: 0,
  maskFraction: 0,
  kl: null,
  valueLoss: null,
  explainedVariance: null,
  gradNorm: 0,
  lr: 0,
  sampledTokens: 0,
  trainedTokens: 0,
  zeroVarianceGroups: 0,
  spareGroups: 0,
  overlongEpisodes: 0,
  meanLag: 0,
  mismatch: null,
  mismatchTokens: 0,
  timings: { verify: 0, train: 0, step: 0 },
};
