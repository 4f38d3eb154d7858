/**
 * Supervised training on expert episodes, the warm start of a small model: minus the mean log-probability of the
 * expert's tokens at the config's temperature, through the same training pass as reinforcement learning. With `until`
 * it stops as soon as held-out success reaches a target.
 */
import { loraOf } from "../config/lora.ts";
import type { SftConfig } from "../config/sft.ts";
import type { Device } from "../device/device.ts";
import type { Environment } from "../env/environment.ts";
import { successOf } from "../env/report.ts";
import { AgentRLError } from "../errors.ts";
import { Engine } from "../generate/engine.ts";
import { fixedWeights } from "../generate/weight-source.ts";
import { loadModelFolder, type ModelFolder, type ModelText, saveModelFolder } from "../model/files.ts";
import { initWeights } from "../model/init.ts";
import { loadCompute } from "../model/load.ts";
import { initAdapters } from "../model/lora.ts";
import { mergedTensors } from "../model/merge.ts";
import { AdamW } from "../model/optimizer.ts";
import { packTensors, unpackTensors } from "../model/parameters.ts";
import { learningRate } from "../model/schedule.ts";
import { TrainPass } from "../model/train-pass.ts";
import { allocateGradients, type TrainedShape, trainedLayout, withAdapters } from "../model/trained.ts";
import { ComputeCopy, Weights } from "../model/weights.ts";
import { packMicroBatches, sampledCount } from "../rl/batch.ts";
import { mix32, TaskSampler } from "../rl/sampler.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import type { Dialect } from "./dialect.ts";
import { openEnvironment } from "./environments.ts";
import { evaluateTask } from "./evaluate-task.ts";
import { type ExpertEpisode, playExpert, toTrajectory } from "./expert-episodes.ts";
import { withLocalSftModels } from "./locate-models.ts";
import { newModel } from "./new-model.ts";
import { openDevice, resolveDevice } from "./open-device.ts";
import { levelsOf, taskMix } from "./task-mix.ts";
import { scheduleOf } from "./training-options.ts";

export interface SftSummary {
  steps: number;
  episodes: number;
  /** Episodes left out because they do not fit `contextLimit`. */
  tooLong: number;
  /** Sampled (expert) tokens trained on, repeats counted. */
  tokens: number;
  /** Mean negative log-probability of the last step. */
  loss: number;
  /** Held-out success by task, where it was measured. */
  success: Record<string, number>;
  seconds: number;
}

export interface SftProgress {
  step: number;
  steps: number;
  loss: number;
  tokensPerSecond: number;
  success?: Record<string, number>;
}

export interface SftOptions {
  config: SftConfig;
  /** Model folder to write. */
  out: string;
  onProgress?: (progress: SftProgress) => void;
}

export async function runSft(options: SftOptions): Promise<SftSummary> {
  const { out, onProgress } = options;
  const config = await withLocalSftModels(options.config);
  const started = performance.now();
  const environments = await Promise.all(config.tasks.map(openEnvironment));
  const experts = await collectExperts(config, environments);
  const existing = config.model.path === undefined ? null : loadModelFolder(config.model.path, config.model);
  const model: ModelText = existing ?? newModel(config, experts);
  const { config: modelConfig } = model;
  const dialect: Dialect = {
    tokenizer: model.tokenizer,
    template: model.template,
    stopTokens: modelConfig.eosTokenIds,
  };
  const all = experts.map((episode) => ({ ...toTrajectory(episode, dialect), temperature: config.temperature }));
  const fitting = all.filter((trajectory) => trajectory.tokens.length <= config.contextLimit);
  if (fitting.length === 0) {
    throw new AgentRLError("CONFIG", "No expert episode fits the context", {
      where: "contextLimit",
      got: config.contextLimit,
      expected: `at least ${Math.min(...all.map((trajectory) => trajectory.tokens.length))} tokens`,
    });
  }

  const maxRows = Math.max(config.microBatchTokens, config.contextLimit);
  const device = await openDevice(await resolveDevice(config), config.threads, {
    config: modelConfig,
    rows: { train: maxRows, decode: config.until ? 48 : 0 },
  });
  const lora = loraOf(config);
  const loraRank = lora?.rank ?? 0;
  const pass = new TrainPass(device, modelConfig, { maxRows, maxScored: maxRows, loraRank });
  const shape = { config: modelConfig, lora };
  const grads = allocateGradients(device, shape, "gradients");
  const { weights, compute } = openTrained(device, shape, existing, config.seed);
  const { beta1, beta2, eps, weightDecay, maxGradNorm } = config.optimizer;
  const optimizer = new AdamW(device, weights.layout, { beta1, beta2, eps, weightDecay });

  const batches = batchStream(fitting, config.batchTokens, config.seed);
  const perEpoch = Math.ceil(fitting.reduce((sum, t) => sum + t.tokens.length, 0) / config.batchTokens);
  const steps = config.steps ?? (config.epochs ?? 1) * perEpoch;
  const engine = config.until
    ? new Engine({
        device,
        config: modelConfig,
        loraRank,
        weights: fixedWeights(compute.weights),
        maxConversations: 48,
        contextLimit: config.contextLimit,
      })
    : null;
  const summary: SftSummary = {
    steps: 0,
    episodes: fitting.length,
    tooLong: all.length - fitting.length,
    tokens: 0,
    loss: Number.NaN,
    success: {},
    seconds: 0,
  };
  for (let step = 1; step <= steps; step++) {
    const stepStarted = performance.now();
    const batch = batches.next().value as Trajectory[];
    const denominator = batch.reduce((sum, trajectory) => sum + sampledCount(trajectory), 0);
    device.fill(grads.arena, 0);
    let loss = 0;
    for (const { batch: packed } of packMicroBatches(batch, { maxRows })) {
      const { logProbs } = await pass.forward(compute.weights, packed);
      for (const logProb of logProbs) loss -= logProb / denominator;
      await pass.backward(
        compute.weights,
        {
          dLogProbs: new Float32Array(logProbs.length).fill(-1 / denominator),
          dEntropies: new Float32Array(logProbs.length),
        },
        grads,
      );
    }
    const lr = learningRate(scheduleOf(config.optimizer, steps), step);
    await optimizer.step({ weights, out: weights.arena, grads, lr, maxGradNorm });
    compute.update();
    summary.steps = step;
    summary.tokens += denominator;
    summary.loss = loss;
    const progress: SftProgress = {
      step,
      steps,
      loss,
      tokensPerSecond: denominator / ((performance.now() - stepStarted) / 1000),
    };
    if (engine !== null && (isMeasured(step, config.until!) || step === steps)) {
      summary.success = await measure(config, engine, dialect, environments);
      progress.success = summary.success;
    }
    onProgress?.(progress);
    if (progress.success !== undefined && meanOf(progress.success) >= config.until!.success) break;
  }

  const trained = await device.readF32(weights.arena);
  const tensors =
    lora === null
      ? unpackTensors(weights.layout, trained)
      : mergedTensors(modelConfig, existing!.tensors, { lora, data: trained });
  existing?.tensors.close();
  saveModelFolder(out, { ...model, tensors });
  await engine?.destroy();
  device.destroy();
  for (const environment of environments) await environment.close();
  summary.seconds = (performance.now() - started) / 1000;
  return summary;
}

/** What is trained, and what passes compute with while it is; `update` after each change. */
function openTrained(device: Device, { config, lora }: TrainedShape, existing: ModelFolder | null, seed: number) {
  if (lora === null || existing === null) {
    const weights = Weights.allocate(device, config, "weights");
    const { layout } = weights;
    weights.write(
      existing === null ? initWeights(config, seed) : packTensors(layout, (name) => existing.tensors.read(name)),
    );
    return { weights, compute: new ComputeCopy(device, weights) };
  }
  const layout = trainedLayout({ config, lora });
  const arena = device.alloc(layout.length, "f32", "adapters");
  device.write(arena, initAdapters(config, lora, seed));
  const base = loadCompute(device, { config, tensors: existing.tensors }, "frozen weights");
  const compute = { weights: withAdapters(device, config, base, { lora, arena }), update: () => {} };
  return { weights: { layout, arena }, compute };
}

/** Expert episodes as the task weights share them out; every one must have earned the full reward. */
async function collectExperts(config: SftConfig, environments: Environment[]): Promise<ExpertEpisode[]> {
  const sampler = new TaskSampler(taskMix(config.tasks, environments), config.seed);
  const episodes: ExpertEpisode[] = [];
  for (let group = 0; group < config.episodes; group++) {
    const { task, index, seed } = sampler.draw(group);
    const { split, maxTurns } = config.tasks[task]!;
    const environment = environments[task]!;
    const episode = await playExpert(environment, split, index, seed, maxTurns ?? environment.maxTurns);
    // The expert of published data may miss a few; what failed is no example.
    if (episode.reward >= 1) episodes.push(episode);
  }
  return episodes;
}

/** Batches of whole episodes, shuffled anew each pass. */
function* batchStream(trajectories: readonly Trajectory[], batchTokens: number, seed: number): Generator<Trajectory[]> {
  for (let epoch = 0; ; epoch++) {
    const shuffled = trajectories
      .map((trajectory, i) => ({ trajectory, key: mix32(mix32(seed, epoch), i) }))
      .sort((a, b) => a.key - b.key);
    let batch: Trajectory[] = [];
    let tokens = 0;
    for (const { trajectory } of shuffled) {
      if (batch.length > 0 && tokens + trajectory.tokens.length > batchTokens) {
        yield batch;
        batch = [];
        tokens = 0;
      }
      batch.push(trajectory);
      tokens += trajectory.tokens.length;
    }
    if (batch.length > 0) yield batch;
  }
}

async function measure(config: SftConfig, engine: Engine, dialect: Dialect, environments: Environment[]) {
  const { split, episodes, temperature } = config.until!;
  const success: Record<string, number> = {};
  for (const [task, environment] of environments.entries()) {
    const report = await evaluateTask({
      engine,
      dialect,
      environment,
      split,
      policy: "sft",
      levels: levelsOf(config.tasks[task]!),
      episodes,
      concurrency: 48,
      sampling: { temperature, topK: 0, topP: 1, minP: 0 },
      maxTokensPerTurn: 128,
      maxTurns: environment.maxTurns,
      seed: config.seed,
    });
    success[environment.name] = successOf(report);
  }
  return success;
}

function isMeasured(step: number, { every, from }: { every: number; from: number }): boolean {
  return step >= from && step % every === 0;
}

function meanOf(scores: Record<string, number>): number {
  const values = Object.values(scores);
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
