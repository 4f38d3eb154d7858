/**
 * What a training step through WebGPU costs the CPU: microseconds to record a dispatch once all caches are warm, the
 * buffers and bind groups that later steps still make (none), and what memory grows by.
 */
import type { WebGpuDevice } from "../device/webgpu/webgpu-device.ts";
import type { ModelConfig } from "../model/config.ts";
import { initWeights } from "../model/init.ts";
import { AdamW } from "../model/optimizer.ts";
import { TrainPass } from "../model/train-pass.ts";
import { Weights } from "../model/weights.ts";
import type { KernelShape } from "./kernel-cases.ts";
import { median } from "./timing.ts";

export interface EncodingReport {
  steps: number;
  /** Of one forward and backward pass. */
  dispatches: number;
  /** Median over the second half of the steps. */
  microsecondsPerDispatch: number;
  /** Made after the second step. */
  newBuffers: number;
  newBindGroups: number;
  /** Growth of the resident set over the second half of the steps, in MiB. */
  rssGrowth: number;
}

const layers = 4;

/** A model of four layers of these sizes. */
export function modelOf(shape: KernelShape): ModelConfig {
  return {
    vocabSize: shape.vocab,
    hiddenSize: shape.dim,
    intermediateSize: shape.inner,
    layers,
    heads: shape.heads,
    kvHeads: shape.kvHeads,
    headDim: shape.headDim,
    family: "llama",
    ropeTheta: 10_000,
    rmsNormEps: 1e-6,
    maxPositions: 1024,
    tieWordEmbeddings: true,
    eosTokenIds: [],
  };
}

export async function benchEncoding(
  device: WebGpuDevice,
  shape: KernelShape,
  { steps = 200, rows = 64 } = {},
): Promise<EncodingReport> {
  const config = modelOf(shape);
  const { gpu } = device;
  const { recorder } = gpu;
  const pass = new TrainPass(device, config, { maxRows: rows, maxScored: rows });
  const weights = Weights.allocate(device, config, "weights");
  const grads = Weights.allocate(device, config, "gradients");
  const optimizer = new AdamW(device, weights.layout, { beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0 });
  device.write(weights.arena, initWeights(config, 1));
  const scored = rows / 2;
  const batch = {
    tokens: Uint32Array.from({ length: rows }, (_, i) => (i * 37) % config.vocabSize),
    offsets: Uint32Array.of(0, rows / 4, rows),
    scoredRows: Uint32Array.from({ length: scored }, (_, i) => 2 * i),
    targets: Uint32Array.from({ length: scored }, (_, i) => (i * 11) % config.vocabSize),
    temperatures: new Float32Array(scored).fill(1),
  };
  const derivatives = { dLogProbs: new Float32Array(scored).fill(-1 / scored), dEntropies: new Float32Array(scored) };

  // One submission a pass: an adapter that computes on the CPU would otherwise take the core from the recording.
  const { maxBatch } = recorder;
  recorder.maxBatch = Number.POSITIVE_INFINITY;
  const costs: number[] = [];
  let dispatches = 0;
  let warm = { buffers: 0, groups: 0 };
  let rss = 0;
  for (let step = 0; step < steps; step++) {
    const before = recorder.dispatches;
    // Both record everything before they first wait.
    let started = performance.now();
    const forward = pass.forward(weights, batch);
    let spent = performance.now() - started;
    await forward;
    started = performance.now();
    const backward = pass.backward(weights, derivatives, grads);
    spent += performance.now() - started;
    await backward;
    dispatches = recorder.dispatches - before;
    costs.push((1000 * spent) / dispatches);
    await optimizer.step({ weights, out: weights.arena, grads, lr: 1e-4, maxGradNorm: 1 });
    if (step === 1) warm = { buffers: gpu.buffersCreated, groups: recorder.bindGroups.created };
    if (step === steps >> 1) rss = process.memoryUsage().rss;
  }
  recorder.maxBatch = maxBatch;
  return {
    steps,
    dispatches,
    microsecondsPerDispatch: median(costs.slice(steps >> 1)),
    newBuffers: gpu.buffersCreated - warm.buffers,
    newBindGroups: recorder.bindGroups.created - warm.groups,
    rssGrowth: (process.memoryUsage().rss - rss) / 2 ** 20,
  };
}
