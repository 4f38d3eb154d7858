/**
 * What the processes of a run say to each other, over the IPC channel of the supervisor's children. Only control
 * travels here; trajectories go through the ring and weights through the board.
 */
import type { TrainConfig } from "../config/train.ts";
import type { EvalReport } from "../env/report.ts";
import type { SamplingState } from "./coordinator.ts";
import type { FaultCounts } from "./faults.ts";
import type { ResolvedDevice } from "./open-device.ts";
import type { StepMetrics } from "./step-metrics.ts";

export interface Setup {
  config: TrainConfig;
  device: ResolvedDevice;
  /** Shared-memory names. */
  ring: string;
  board: string;
  /** Board of the frozen weights, in a run that trains adapters. */
  frozen: string | null;
  /** Model folder whose weights the learner starts from: the configured one, or a checkpoint's. */
  modelFolder: string;
  /** Weight version that the run begins with: the steps that are done. */
  firstVersion: number;
  /** Checkpoint folder to resume from. */
  resume: string | null;
  checkpoints: string;
  /** Hash that ties a checkpoint to the config it belongs to. */
  configHash: string;
  /** [config.tasks] what the environments call themselves: the names in trajectories and metrics. */
  taskNames: string[];
}

/** What the supervisor knows of the groups, for a checkpoint. */
export interface GroupBooks {
  trainedGroups: [number, number][];
  /** Where task weights change during the run. */
  sampling?: SamplingState;
}

export interface GroupLease {
  group: number;
  /** Position in config.tasks. */
  task: number;
  index: number;
  seed: number;
  samples: number[];
}

export type ToRollout =
  | { type: "setup"; setup: Setup }
  | { type: "lease"; leases: GroupLease[] }
  | { type: "evaluate"; step: number }
  | { type: "stop" };

/** Milliseconds between two pulses. */
export const pulseMs = 1_000;

/** From the event loop of a child: that it turns, how much has been done, and what is being waited for. */
export interface Pulse {
  type: "pulse";
  /** Rises whenever something moves. */
  progress: number;
  /** For people. */
  doing: string;
}

/** Since the process began. */
export interface RolloutStats {
  abortedTokens: number;
  /** Versions of the weights that were found to be the learner's. */
  weightsVerified: number;
  /** Milliseconds in which the current policy's engine was computing. */
  busyMs: number;
  faults: FaultCounts;
}

export type FromRollout =
  | { type: "started" }
  | Pulse
  /**
   * Groups it can take on top of what it was promised: all of its places at first, then one for each group that `ended`, all
   * of whose samples are in the ring.
   */
  | { type: "room"; groups: number; ended?: number }
  /** The environment failed a sample of the group in every try: the group has ended without. */
  | { type: "faulted"; group: number; index: number; error: string }
  | { type: "evaluated"; step: number; reports: EvalReport[] }
  | ({ type: "stats" } & RolloutStats)
  | { type: "failed"; message: string; code: string };

export type ToLearner =
  | { type: "setup"; setup: Setup }
  /** `spares` are used up beside the groups that are trained; `books` are those before the step, should it fail. */
  | { type: "train"; groups: number[]; spares: number[]; books: GroupBooks }
  /** The group will not be trained: what came of it is forgotten. */
  | { type: "abandon"; group: number }
  /** The sample is from before its group was begun anew: another copy is on its way. */
  | { type: "discard"; group: number; sample: number }
  /**
   * Of the step last trained, once its line of metrics is written: no run goes on from a step that has none. A `final` one
   * that cannot be written is always an error.
   */
  | { type: "checkpoint"; books: GroupBooks; final: boolean }
  | { type: "stop" };

/** A sample has come in, the first of its group and number. */
export interface Received extends RecordSize {
  type: "received";
  group: number;
  sample: number;
  /** What it is trained on. */
  reward: number;
}

export interface RecordSize {
  /** What it takes until it is trained. */
  bytes: number;
  /** Sampled ones. */
  tokens: number;
  /** Oldest weights among those that its sampled tokens of the current policy saw; null without any. */
  oldestVersion: number | null;
}

export type FromLearner =
  | { type: "started" }
  | Pulse
  | { type: "ready"; step: number; trainedGroups: [number, number][] }
  | Received
  /** A record of the ring that is of no use. */
  | { type: "ignored"; fault: "duplicateSamples" | "lateSamples" | "corruptRecords" }
  | { type: "trained"; groups: number[]; metrics: StepMetrics }
  | { type: "saved"; step: number; folder: string }
  /** The disk did not take it; the run goes on. */
  | { type: "checkpointFailed"; step: number; error: string }
  /** The traces of a step, or a part of them; the run goes on. */
  | { type: "traceFailed"; error: string }
  | { type: "failed"; message: string; code: string };

/** A set of numbers as ascending inclusive ranges: compact in a checkpoint, exact. */
export function toRanges(numbers: Iterable<number>): [number, number][] {
  const ranges: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && number <= last[1] + 1) last[1] = Math.max(last[1], number);
    else ranges.push([number, number]);
  }
  return ranges;
}

export function fromRanges(ranges: readonly (readonly [number, number])[]): number[] {
  return ranges.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, i) => from + i));
}
