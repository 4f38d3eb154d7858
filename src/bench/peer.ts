/**
 * `agentrl bench peer`: this project's WebGPU device beside TensorFlow.js' on one adapter in one run, taking turns: the
 * matrix product, and a whole training step of a model of the tiny one's sizes (same weights, same loss).
 */
import { WebGpuDevice } from "../device/webgpu/webgpu-device.ts";
import { initWeights } from "../model/init.ts";
import { AdamW } from "../model/optimizer.ts";
import { TrainPass } from "../model/train-pass.ts";
import { Weights } from "../model/weights.ts";
import { modelOf } from "./encoding.ts";
import { kernelShapes } from "./kernel-cases.ts";
import { expectSameLosses } from "./same-losses.ts";
import { loadTfjs, type Tf } from "./tfjs.ts";
import { TfjsModel } from "./tfjs-model.ts";
import { median } from "./timing.ts";

export interface PeerOptions {
  /** Folder in which TensorFlow.js is installed. */
  tfjs: string;
  /** Part of the adapter's name. */
  adapter: string;
  /** Turns of each side; small products, whose times spread more, get more of them. @default 7 */
  rounds?: number;
  print?: (line: string) => void;
}

export interface PeerResult {
  what: string;
  /** Median milliseconds. */
  ours: number;
  theirs: number;
  /** theirs / ours: above 1 we are faster. */
  ratio: number;
}

export async function benchPeer(options: PeerOptions): Promise<{ device: string; results: PeerResult[] }> {
  const print = options.print ?? ((line: string) => void process.stdout.write(`${line}\n`));
  const { adapter, rounds = 7 } = options;
  const device = await WebGpuDevice.open({ adapter });
  const tf = await loadTfjs(options.tfjs, adapter);
  print(`${device.name} beside TensorFlow.js' WebGPU backend, in turns, median of ${rounds} or more`);
  print("what                                   ours ms   theirs ms   theirs/ours");
  const results: PeerResult[] = [];
  const report = (result: PeerResult) => {
    results.push(result);
    const { what, ours, theirs, ratio } = result;
    print(
      `${what.padEnd(36)} ${ours.toFixed(2).padStart(9)} ${theirs.toFixed(2).padStart(11)} ${ratio.toFixed(2).padStart(13)}`,
    );
  };
  for (const size of [128, 256, 512]) report(await matmul(device, tf, size, Math.round((rounds * 512) / size)));
  report(await trainingStep(device, tf, rounds));
  device.destroy();
  return { device: device.name, results };
}

async function inTurns(
  what: string,
  rounds: number,
  ours: () => Promise<void>,
  theirs: () => Promise<void>,
): Promise<PeerResult> {
  const times: { ours: number[]; theirs: number[] } = { ours: [], theirs: [] };
  // The first turn compiles.
  for (let round = 0; round <= rounds; round++) {
    for (const [side, run] of [
      ["ours", ours],
      ["theirs", theirs],
    ] as const) {
      const started = performance.now();
      await run();
      if (round > 0) times[side].push(performance.now() - started);
    }
  }
  const [a, b] = [median(times.ours), median(times.theirs)];
  return { what, ours: a, theirs: b, ratio: b / a };
}

/** So many products for one that is read back: the only way in which the peer can be waited for. */
const PRODUCTS = 10;

async function matmul(device: WebGpuDevice, tf: Tf, size: number, rounds: number): Promise<PeerResult> {
  const [a, b, out] = [device.alloc(size * size), device.alloc(size * size), device.alloc(size * size)];
  device.fill(a, 0.5);
  device.fill(b, 0.25);
  const [x, y] = [tf.randomNormal([size, size]), tf.randomNormal([size, size])];
  const result = await inTurns(
    `matmul ${size}³`,
    rounds,
    async () => {
      for (let i = 0; i < PRODUCTS; i++) device.matmul({ layout: "nn", a, b, out, m: size, n: size, k: size });
      await device.readF32(out);
    },
    async () => {
      for (let i = 1; i < PRODUCTS; i++) tf.matMul(x, y).dispose();
      const last = tf.matMul(x, y);
      await last.data();
      last.dispose();
    },
  );
  for (const tensor of [a, b, out]) device.free(tensor);
  for (const tensor of [x, y]) tensor.dispose();
  return { ...result, ours: result.ours / PRODUCTS, theirs: result.theirs / PRODUCTS };
}

const LEARNING_RATE = 1e-4;

async function trainingStep(device: WebGpuDevice, tf: Tf, rounds: number): Promise<PeerResult> {
  const config = modelOf(kernelShapes.tiny);
  const [sequences, length] = [4, 64];
  const rows = sequences * length;
  const arena = initWeights(config, 1);
  const tokens = Uint32Array.from({ length: rows }, (_, i) => (i * 37) % config.vocabSize);
  const targets = Uint32Array.from({ length: rows }, (_, i) => (i * 11) % config.vocabSize);

  const pass = new TrainPass(device, config, { maxRows: rows, maxScored: rows });
  const weights = Weights.allocate(device, config, "weights");
  const grads = Weights.allocate(device, config, "gradients");
  const optimizer = new AdamW(device, weights.layout, { beta1: 0.9, beta2: 0.999, eps: 1e-7, weightDecay: 0 });
  device.write(weights.arena, arena);
  const batch = {
    tokens,
    offsets: Uint32Array.from({ length: sequences + 1 }, (_, i) => i * length),
    scoredRows: Uint32Array.from({ length: rows }, (_, i) => i),
    targets,
    temperatures: new Float32Array(rows).fill(1),
  };
  const derivatives = { dLogProbs: new Float32Array(rows).fill(-1 / rows), dEntropies: new Float32Array(rows) };
  const losses = { ours: [] as number[], theirs: [] as number[] };
  const ours = async () => {
    device.fill(grads.arena, 0);
    const { logProbs } = await pass.forward(weights, batch);
    await pass.backward(weights, derivatives, grads);
    const update = { weights, out: weights.arena, grads, lr: LEARNING_RATE, maxGradNorm: Number.POSITIVE_INFINITY };
    await optimizer.step(update);
    await device.gpu.recorder.drain();
    losses.ours.push(-logProbs.reduce((sum, one) => sum + one, 0) / rows);
  };

  const peer = new TfjsModel(tf, config, arena, LEARNING_RATE);
  const theirs = async () => {
    losses.theirs.push(await peer.step(Int32Array.from(tokens), Int32Array.from(targets), sequences));
  };
  const result = await inTurns(`training step, ${rows} tokens`, rounds, ours, theirs);
  expectSameLosses(losses);
  return result;
}
