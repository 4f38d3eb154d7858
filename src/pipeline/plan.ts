/**
 * What a config comes to on this machine, before anything starts: sizes of the shared memory and the memory estimate.
 * `--dry-run` prints it; a run checks it.
 */

import { loraOf } from "../config/lora.ts";
import type { TrainConfig } from "../config/train.ts";
import { ATTENTION_BLOCK } from "../device/device.ts";
import type { ModelConfig } from "../model/config.ts";
import { estimateMemory, type MemoryEstimate } from "../model/memory.ts";
import { parameterLayout } from "../model/parameters.ts";
import { trainedLayout } from "../model/trained.ts";
import { mostSlots } from "../shm/weight-board.ts";
import { lossFormula } from "./method.ts";
import { mostHeld, refreshIntervals } from "./stale-versions.ts";
import { passSize } from "./training-options.ts";

export interface RunPlan {
  parameters: number;
  /** Those that are trained: all of them, or those of the adapters. */
  trainedParameters: number;
  maxLag: number;
  boardSlots: number;
  boardSlotBytes: number;
  ringBytes: number;
  /** Of the longest episode that the context allows. */
  largestRecordBytes: number;
  memory: MemoryEstimate;
  /** The loss in force, with its constants. */
  loss: string;
}

/** Bytes of a token in a ring record: the five arrays and the two stamps. */
const recordBytesPerToken = 4 + 1 + 4 + 4 + 1 + 4 + 4;

/** Most that the messages of an episode may take in its record, for its trace. */
export function messageBytesOf({ rollout, observe }: TrainConfig): number {
  return observe.traces.every > 0 ? rollout.contextLimit * 8 + 4096 : 0;
}

export function maxLagOf(config: TrainConfig): number {
  return { async: config.staleness.maxLag, "one-step-off": 1, sync: 0 }[config.mode];
}

export function conversationsOf(config: TrainConfig): number {
  const { maxSequences, groupSize } = config.rollout;
  // One more per group: the prompt that its samples are forked from; and room for evaluation.
  return Math.ceil(maxSequences * (1 + 1 / groupSize)) + (config.evaluation.every > 0 ? groupSize : 0) + 1;
}

export function planRun(config: TrainConfig, model: ModelConfig): RunPlan {
  const maxLag = maxLagOf(config);
  const { rollout } = config;
  const lora = loraOf(config);
  const trained = trainedLayout({ config: model, lora }).length;
  // The versions that live tokens may carry, the one being written, and one that a slow reader still holds; and those of
  // stale copies. Beyond what a board can hold, tokens of the oldest versions are trained but not compared.
  const boardSlots = Math.min(maxLag + 4 + mostHeld(refreshIntervals(config), maxLag), mostSlots);
  const largestRecord = rollout.contextLimit * recordBytesPerToken + messageBytesOf(config) + 4096;
  const pages = conversationsOf(config) * Math.ceil(rollout.contextLimit / ATTENTION_BLOCK);
  const pool = (config.crossPolicy?.pool ?? []).map(({ kind }) => kind);
  const checkpoints = pool.filter((kind) => kind === "checkpoint").length;
  return {
    parameters: parameterLayout(model).length,
    trainedParameters: trained,
    maxLag,
    boardSlots,
    boardSlotBytes: trained * 4,
    ringBytes: Math.max(8 * 2 ** 20, 8 * largestRecord),
    largestRecordBytes: largestRecord,
    memory: estimateMemory(model, {
      ...passSize(config),
      lora,
      severalTasks: config.tasks.length > 1,
      reference: config.algorithm.kl.coefficient > 0,
      pages,
      boardSlots,
      engines: rollout.processes,
      pool: {
        engines: rollout.processes * pool.filter((kind) => kind !== "endpoint").length,
        pages: rollout.maxSequences * Math.ceil(rollout.contextLimit / ATTENTION_BLOCK),
        // Each process that computes with a checkpoint has it in memory: those that sample, and the one that checks.
        weights: checkpoints * (rollout.processes + (config.verify.fraction > 0 ? 1 : 0)),
      },
      // Whether `auto` finds a GPU is not known yet.
      kvCache: config.device === "webgpu" ? config.webgpu.kvCache : "f32",
      weights: config.device === "webgpu" ? config.webgpu.weights : config.native.weights,
    }),
    loss: lossFormula(config),
  };
}
