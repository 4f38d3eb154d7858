/**
 * What a learner process makes of records and messages, whatever trains: samples are kept by group until the supervisor
 * names their batch, the first copy of each counts. The simulator runs this same code over a model of training.
 */
import { AgentRLError, briefly } from "../errors.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import type { FromLearner, GroupBooks, RecordSize, ToLearner } from "./messages.ts";
import type { StepMetrics } from "./step-metrics.ts";
import { UsedNumbers } from "./used-numbers.ts";

/** What a loop needs to know of a sample. */
export type Sample = Pick<Trajectory, "group" | "sample">;

export interface Trainer<T extends Sample> {
  readonly step: number;
  /** What the run that is resumed had used up. */
  readonly books: GroupBooks;
  /** What a sample is trained on. */
  rewardOf(sample: T): number;
  /** One optimizer step on complete groups. `spares` are those that dynamic sampling uses up beside them. */
  train(groups: T[][], spares: T[][]): Promise<StepMetrics>;
  /** Writes a checkpoint and returns its folder. */
  save(books: GroupBooks): Promise<string>;
}

export class LearnerLoop<T extends Sample> {
  readonly #trainer: Trainer<T>;
  readonly #send: (message: FromLearner) => void;
  readonly #onFailedStep: (error: unknown, batch: T[][], books: GroupBooks) => Promise<never>;
  readonly #groups = new Map<number, Map<number, T>>();
  readonly #goOnWithoutCheckpoint: boolean;
  readonly #used: UsedNumbers;
  #queue: Promise<void> = Promise.resolve();
  /** Rises with every message that has been dealt with. */
  handled = 0;
  /** For people. */
  doing = "waits for messages";

  constructor(options: {
    trainer: Trainer<T>;
    send: (message: FromLearner) => void;
    /** A checkpoint that the disk does not take, unless it is the last, is told and left out. @default it is an error */
    goOnWithoutCheckpoint?: boolean;
    /** A step that threw; ends in an error. @default throws it on */
    onFailedStep?: (error: unknown, batch: T[][], books: GroupBooks) => Promise<never>;
  }) {
    this.#trainer = options.trainer;
    this.#send = options.send;
    this.#goOnWithoutCheckpoint = options.goOnWithoutCheckpoint ?? false;
    this.#onFailedStep = options.onFailedStep ?? ((error) => Promise.reject(error));
    const { step, books } = this.#trainer;
    this.#used = new UsedNumbers(books.trainedGroups);
    this.#send({ type: "ready", step, trainedGroups: books.trainedGroups });
  }

  /** Samples that wait to be trained. */
  get waiting(): number {
    return [...this.#groups.values()].reduce((sum, samples) => sum + samples.size, 0);
  }

  accept(sample: T, size: RecordSize): void {
    const { group, sample: number } = sample;
    if (this.#used.has(group)) {
      this.#send({ type: "ignored", fault: "lateSamples" });
      return;
    }
    const samples = this.#groups.get(group) ?? new Map<number, T>();
    this.#groups.set(group, samples);
    // A rollout process that died after delivering has its group issued again: the first copy counts.
    if (samples.has(number)) {
      this.#send({ type: "ignored", fault: "duplicateSamples" });
      return;
    }
    samples.set(number, sample);
    this.#send({ type: "received", group, sample: number, reward: this.#trainer.rewardOf(sample), ...size });
  }

  /** One message after another: a checkpoint never sees a step half done. */
  handle(message: Exclude<ToLearner, { type: "setup" | "stop" }>): Promise<void> {
    this.#queue = this.#queue.then(() => this.#handle(message));
    return this.#queue;
  }

  async #handle(message: Exclude<ToLearner, { type: "setup" | "stop" }>): Promise<void> {
    if (message.type === "train") await this.#train(message);
    else if (message.type === "abandon") this.#forget(message.group);
    else if (message.type === "discard") this.#groups.get(message.group)?.delete(message.sample);
    else await this.#save(message);
    this.doing = "waits for messages";
    this.handled++;
  }

  async #train(message: Extract<ToLearner, { type: "train" }>): Promise<void> {
    const batch = this.#batchOf(message.groups);
    const spares = this.#batchOf(message.spares);
    this.doing = `trains step ${this.#trainer.step + 1}`;
    const metrics = await this.#trainer
      .train(batch, spares)
      .catch((error) => this.#onFailedStep(error, batch, message.books));
    for (const group of [...message.groups, ...message.spares]) this.#forget(group);
    this.#send({ type: "trained", groups: message.groups, metrics });
  }

  #forget(group: number): void {
    this.#groups.delete(group);
    this.#used.add(group);
  }

  #batchOf(numbers: readonly number[]): T[][] {
    return numbers.map((number) => {
      const samples = this.#groups.get(number);
      if (samples === undefined) {
        throw new AgentRLError("PIPELINE", "A group to train has no samples", { where: `group ${number}` });
      }
      return [...samples.values()].sort((a, b) => a.sample - b.sample);
    });
  }

  async #save({ books, final }: Extract<ToLearner, { type: "checkpoint" }>): Promise<void> {
    const { step } = this.#trainer;
    this.doing = `writes the checkpoint of step ${step}`;
    try {
      const folder = await this.#trainer.save(books);
      this.#send({ type: "saved", step, folder });
    } catch (error) {
      const mayFail = this.#goOnWithoutCheckpoint && !final;
      if (!mayFail || !(error instanceof AgentRLError) || error.code !== "DISK") throw error;
      this.#send({ type: "checkpointFailed", step, error: briefly(error) });
    }
  }
}
