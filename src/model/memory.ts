/**
 * What a run will allocate, before it allocates it: shown by --dry-run, and checked against the machine so that a model
 * that is too large ends with a message instead of the kernel's out-of-memory killer.
 */
import { freemem, totalmem } from "node:os";
import { elementBytes, type Storage } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import { planBytes } from "./buffers.ts";
import type { ModelConfig } from "./config.ts";
import { cachePlan, inferencePlan } from "./inference-pass.ts";
import type { LoraShape } from "./lora.ts";
import { parameterLayout } from "./parameters.ts";
import { trainLayerPlans, trainSharedPlan, trainSpreadPlan } from "./train-pass.ts";
import { trainedLayout } from "./trained.ts";

export interface MemoryLimits {
  /** Rows and scored rows of a training micro-batch; 0 rows: nothing is trained. */
  maxRows: number;
  maxScored: number;
  /** Attention rows of a training micro-batch; default `maxRows`: no prefix is shared. */
  maxSpread?: number;
  /** Whether a layer's activations are computed again on the way back. */
  recompute?: boolean;
  /** Adapters that are trained on a frozen model; null or absent: every parameter is trained. */
  lora?: LoraShape | null;
  /** Whether the gradient is accumulated task by task. */
  severalTasks?: boolean;
  /** Whether a frozen reference is kept beside the weights that are trained. */
  reference?: boolean;
  /** Pages of one engine's KV cache; 0: nothing is generated. */
  pages: number;
  /** Versions that the weight board holds. */
  boardSlots: number;
  /** Rows of an engine's largest step; default 512. */
  inferenceRows?: number;
  /** Engines, each with a cache of its own; default 1. */
  engines?: number;
  /** Engines of other policies, the pages of each, and copies of weights that are on no board. */
  pool?: { engines: number; pages: number; weights: number };
  /** What a cache holds; default f32. */
  kvCache?: Storage["kvCache"];
  /** What passes compute with; default f32. */
  weights?: Storage["weights"];
}

export interface MemoryEstimate {
  parts: { name: string; bytes: number }[];
  /** Bytes. */
  total: number;
}

/** Tensors only: the JavaScript heap and the tokenizer are small beside them and not counted. */
export function estimateMemory(config: ModelConfig, limits: MemoryLimits): MemoryEstimate {
  const { maxRows, maxScored, maxSpread = maxRows, pages, boardSlots, inferenceRows = 512, engines = 1 } = limits;
  const { lora = null, recompute = false } = limits;
  const { weights = "f32" } = limits;
  const layout = parameterLayout(config);
  /** Weights that passes compute with and nobody trains. */
  const whole = elementBytes(weights) * layout.decayedLength + 4 * (layout.length - layout.decayedLength);
  const arena = 4 * trainedLayout({ config, lora }).length;
  const loraRank = lora?.rank ?? 0;
  const parts = [{ name: "weight board", bytes: boardSlots * arena }];
  if (lora !== null) parts.push({ name: "frozen weights", bytes: whole });
  // The optimizer's and the board's own are f32: each process that computes has a copy in 16 bits beside them.
  else if (weights !== "f32")
    parts.push({ name: `weights in ${weights}`, bytes: (engines + (maxRows > 0 ? 1 : 0)) * whole });
  if (maxRows > 0) {
    const train = { maxRows, maxScored, maxSpread, loraRank, recompute };
    const { kept, computed } = trainLayerPlans(config, train);
    parts.push({ name: "gradients", bytes: arena });
    if (limits.severalTasks) parts.push({ name: "gradient of one task", bytes: arena });
    parts.push({ name: "optimizer moments", bytes: 2 * arena });
    if (limits.reference && lora === null) parts.push({ name: "reference weights", bytes: whole });
    const activations = [...kept, ...computed].reduce((sum, plan) => sum + planBytes(plan), 0);
    parts.push({ name: "training activations", bytes: activations });
    const scratch = planBytes(trainSharedPlan(config, train)) + planBytes(trainSpreadPlan(config, train) ?? {});
    parts.push({ name: "training scratch", bytes: scratch });
  }
  if (pages > 0) {
    const inference = { maxRows: inferenceRows, pages, loraRank };
    const cache = config.layers * planBytes(cachePlan(config, inference, limits.kvCache ?? "f32"));
    parts.push({ name: "KV cache", bytes: engines * cache });
    parts.push({ name: "generation scratch", bytes: engines * planBytes(inferencePlan(config, inference)) });
  }
  const { pool } = limits;
  if (pool !== undefined && pool.engines > 0) {
    const inference = { maxRows: inferenceRows, pages: pool.pages, loraRank };
    const cache = config.layers * planBytes(cachePlan(config, inference, limits.kvCache ?? "f32"));
    const bytes = pool.engines * (cache + planBytes(inferencePlan(config, inference))) + pool.weights * whole;
    parts.push({ name: "other policies", bytes });
  }
  return { parts, total: parts.reduce((sum, part) => sum + part.bytes, 0) };
}

/** Bytes that this process may still take: what is free on the machine, or in its container when that is less. */
export function availableMemory(): number {
  // Both arrived within Node 20's life, and constrainedMemory gives 0 or a huge number where there is no limit.
  const available = process.availableMemory?.() ?? freemem();
  const constrained = process.constrainedMemory?.() ?? 0;
  const limit = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  return Math.min(available, limit);
}

/**
 * @param remedy Settings that would fit, in words.
 * @throws AgentRLError MEMORY naming the largest parts.
 */
export function assertFitsMemory(estimate: MemoryEstimate, available = availableMemory(), remedy?: string): void {
  if (estimate.total <= available) return;
  const largest = [...estimate.parts].sort((a, b) => b.bytes - a.bytes).slice(0, 3);
  throw new AgentRLError("MEMORY", "The run does not fit into memory.", {
    where: largest.map((part) => `${part.name} ${formatBytes(part.bytes)}`).join(", "),
    got: `${formatBytes(estimate.total)} needed`,
    expected: `at most ${formatBytes(available)}, which is available now`,
    hint:
      remedy ?? "Use a smaller model, fewer rows per micro-batch, a smaller KV cache, or a machine with more memory.",
  });
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value.toFixed(unit === 0 ? 0 : 1)} ${units[unit]}`;
}
