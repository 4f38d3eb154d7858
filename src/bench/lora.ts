/**
 * `agentrl bench lora`: a training step of a LoRA adapter, forward to AdamW, beside PyTorch with PEFT: same model, same
 * adapter, same tokens, in turns; the losses of every step must agree.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NativeDevice } from "../device/native.ts";
import { saveAdapterFolder } from "../model/adapter-files.ts";
import { loadModelFolder, saveModelFolder } from "../model/files.ts";
import { loadCompute } from "../model/load.ts";
import { initAdapters, type LoraShape } from "../model/lora.ts";
import { mergedTensors } from "../model/merge.ts";
import { AdamW } from "../model/optimizer.ts";
import { linearRoles } from "../model/parameters.ts";
import { TrainPass } from "../model/train-pass.ts";
import { allocateGradients, trainedLayout, withAdapters } from "../model/trained.ts";
import { openPeft } from "./peft.ts";
import { expectSameLosses } from "./same-losses.ts";
import { median } from "./timing.ts";

export interface LoraBenchOptions {
  /** A model's folder, or a GGUF file. */
  model: string;
  /** Python that has torch, transformers and peft. */
  python: string;
  /** @default 16 */
  rank?: number;
  /** Sequences of a step. @default 4 */
  sequences?: number;
  /** Tokens of each. @default 256 */
  length?: number;
  /** @default 2 */
  threads?: number;
  /** Turns of each side. @default 7 */
  rounds?: number;
  print?: (line: string) => void;
}

export interface LoraBenchResult {
  device: string;
  peer: Record<string, string>;
  rows: number;
  /** Median milliseconds of a step. */
  ours: number;
  theirs: number;
  /** theirs / ours: above 1 we are faster. */
  ratio: number;
  /** Losses of the steps, of both sides. */
  losses: { ours: number[]; theirs: number[] };
}

const lr = 1e-3;

export async function benchLora(options: LoraBenchOptions): Promise<LoraBenchResult> {
  const print = options.print ?? ((line: string) => void process.stdout.write(`${line}\n`));
  const { rank = 16, sequences = 4, length = 256, threads = 2, rounds = 7 } = options;
  const folder = mkdtempSync(join(tmpdir(), "agentrl-bench-lora-"));
  try {
    const device = new NativeDevice({ threads });
    const model = loadModelFolder(options.model);
    const { config } = model;
    const base = loadCompute(device, model, "weights");
    const lora: LoraShape = { rank, alpha: 2 * rank, targets: linearRoles };
    const initial = initAdapters(config, lora, 1);
    const files = { base: join(folder, "model"), adapter: join(folder, "adapter") };
    saveModelFolder(files.base, {
      ...model,
      tensors: mergedTensors(config, model.tensors, model.adapter),
      dtype: "f32",
    });
    saveAdapterFolder(files.adapter, { base: files.base, config, lora, arena: initial });
    model.tensors.close();

    const shape = { config, lora };
    const layout = trainedLayout(shape);
    const arena = device.alloc(layout.length, "f32", "adapters");
    device.write(arena, initial);
    const weights = withAdapters(device, config, base, { lora, arena });
    const grads = allocateGradients(device, shape, "gradients");
    const rows = sequences * length;
    const pass = new TrainPass(device, config, { maxRows: rows, maxScored: rows, loraRank: rank });
    const optimizer = new AdamW(device, layout, { beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0 });
    const ids = Array.from({ length: sequences }, (_, s) =>
      Array.from({ length: length + 1 }, (_, i) => 100 + ((i * i * 7 + i * 37 + s * 1009) % (config.vocabSize - 200))),
    );
    const tokens = ids.map((one) => one.slice(0, -1));
    const targets = ids.map((one) => one.slice(1));
    const batch = {
      tokens: Uint32Array.from(tokens.flat()),
      offsets: Uint32Array.from({ length: sequences + 1 }, (_, i) => i * length),
      scoredRows: Uint32Array.from({ length: rows }, (_, i) => i),
      targets: Uint32Array.from(targets.flat()),
      temperatures: new Float32Array(rows).fill(1),
    };
    const derivatives = { dLogProbs: new Float32Array(rows).fill(-1 / rows), dEntropies: new Float32Array(rows) };
    const step = async () => {
      const started = performance.now();
      device.fill(grads.arena, 0);
      const { logProbs } = await pass.forward(weights, batch);
      await pass.backward(weights, derivatives, grads);
      await optimizer.step({ weights: { layout, arena }, out: arena, grads, lr, maxGradNorm: 1 });
      return { ms: performance.now() - started, loss: -logProbs.reduce((sum, one) => sum + one, 0) / rows };
    };

    const peer = await openPeft({ python: options.python, ...files, threads, lr });
    const versions = Object.entries(peer.versions).map(([name, version]) => `${name} ${version}`);
    print(`${device.name} beside ${versions.join(", ")}, f32, eager`);
    const turns = { ours: [] as number[], theirs: [] as number[] };
    const losses = { ours: [] as number[], theirs: [] as number[] };
    // The first turn warms up.
    for (let round = 0; round <= rounds; round++) {
      const [mine, other] = [await step(), await peer.step(tokens, targets)];
      losses.ours.push(mine.loss);
      losses.theirs.push(other.loss);
      if (round === 0) continue;
      turns.ours.push(mine.ms);
      turns.theirs.push(other.ms);
    }
    peer.close();
    expectSameLosses(losses);
    device.destroy();
    const [ours, theirs] = [median(turns.ours), median(turns.theirs)];
    const result = { device: device.name, peer: peer.versions, rows, ours, theirs, ratio: theirs / ours, losses };
    const perSecond = (ms: number) => `${((1000 * rows) / ms).toFixed(0)} tokens/s`;
    print(`rank ${rank} on every matrix, ${sequences} x ${length} tokens, in turns, median of ${rounds}`);
    print(`ours     ${ours.toFixed(0).padStart(6)} ms   ${perSecond(ours)}`);
    print(`PyTorch  ${theirs.toFixed(0).padStart(6)} ms   ${perSecond(theirs)}`);
    print(`${result.ratio.toFixed(2)}x its speed; losses ${losses.ours.map((loss) => loss.toFixed(4)).join(" ")}`);
    return result;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
