/**
 * The learner's weights and optimizer, and one training step: verify a sample of the batch under the weights that
 * sampled it, accumulate the gradient over micro-batches, apply AdamW from the current board slot into a free one,
 * publish.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { TrainConfig } from "../config/train.ts";
import type { Device } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "../model/config.ts";
import { loadModelFolder, type ModelFolder, type ModelText } from "../model/files.ts";
import { AdamW } from "../model/optimizer.ts";
import { packTensors, unpackTensors } from "../model/parameters.ts";
import { learningRate } from "../model/schedule.ts";
import { TrainPass } from "../model/train-pass.ts";
import { allocateCompute, type ComputeWeights, Weights } from "../model/weights.ts";
import type { Sample } from "../rl/advantages/estimator.ts";
import { gatherScored, type MicroBatch, packMicroBatches, scoredOffsets } from "../rl/batch.ts";
import { trainedReward } from "../rl/rewards.ts";
import { VersionChecksums } from "../rl/staleness.ts";
import { tokenScales } from "../rl/token-scales.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { WeightBoard } from "../shm/weight-board.ts";
import { batchMetrics } from "./batch-metrics.ts";
import { readCheckpoint, writeCheckpoint } from "./checkpoint.ts";
import { fromRanges, type Setup } from "./messages.ts";
import { type Method, methodOf } from "./method.ts";
import { openDevice } from "./open-device.ts";
import { type SlotWriter, slotWriter } from "./slot-weights.ts";
import type { StepMetrics } from "./step-metrics.ts";
import { passSize, scheduleOf } from "./training-options.ts";
import { Verifier } from "./verifier.ts";

export class LearnerState {
  step = 0;
  trainedGroups: number[] = [];
  readonly #setup: Setup;
  readonly #config: TrainConfig;
  readonly #device: Device;
  readonly #model: ModelText;
  readonly #board: WeightBoard;
  readonly #pass: TrainPass;
  readonly #grads: Weights;
  readonly #optimizer: AdamW;
  readonly #checksums = new VersionChecksums();
  readonly #verifier: Verifier;
  readonly #current: SlotWriter;
  readonly #method: Method;
  /** The frozen weights that a KL penalty compares with. */
  readonly #reference: ComputeWeights | null;

  private constructor(setup: Setup, device: Device, model: ModelFolder, board: WeightBoard) {
    const { config } = setup;
    this.#setup = setup;
    this.#config = config;
    this.#device = device;
    this.#model = model;
    this.#board = board;
    const size = passSize(config);
    this.#pass = new TrainPass(device, model.config, size);
    this.#grads = Weights.allocate(device, model.config, "gradients");
    const { beta1, beta2, eps, weightDecay } = config.optimizer;
    this.#optimizer = new AdamW(device, model.config, { beta1, beta2, eps, weightDecay });

    this.#method = methodOf(config.algorithm);
    this.#reference = this.#method.needsReference ? loadReference(device, model.config, config.model.path) : null;

    let initial: Float32Array;
    if (setup.resume === null) {
      initial = packTensors(model.config, (name) => model.tensors.read(name));
    } else {
      const { state, optimizer } = readCheckpoint(setup.resume);
      assertCheckpointFits(state, setup);
      initial = packTensors(model.config, (name) => model.tensors.read(name));
      this.#optimizer.load({ step: state.optimizerStep, ...optimizer });
      this.step = state.step;
      this.trainedGroups = fromRanges(state.trainedGroups);
    }
    const slot = board.beginWrite();
    slot.data.set(initial);
    this.#current = slotWriter(device, model.config, slot);
    const checksum = board.checksum(slot.data);
    board.publish(slot, this.step, checksum);
    this.#checksums.set(this.step, checksum);
    this.#verifier = new Verifier({
      device,
      config: model.config,
      board,
      // Packing differs from training's on purpose, in rows per pass and in sharing no prefix: the law says that
      // packing cannot matter.
      maxRows: Math.max(config.rollout.contextLimit, Math.floor(config.learner.microBatchTokens / 2)),
    });
  }

  /** Computes on `device`, by default the one that the setup names. */
  static async open(setup: Setup, device?: Device): Promise<LearnerState> {
    const model = loadModelFolder(setup.modelFolder);
    const rows = { train: passSize(setup.config).maxRows, decode: 0 };
    device ??= await openDevice(setup.device, setup.config.learner.threads, { config: model.config, rows });
    const board = WeightBoard.open(setup.board);
    return new LearnerState(setup, device, model, board);
  }

  /** One optimizer step on complete groups. */
  async train(groups: Trajectory[][]): Promise<StepMetrics> {
    const started = performance.now();
    const { algorithm, optimizer, verify } = this.#config;
    const trajectories = groups.flat();

    const samples = groups.map((group) =>
      group.map(
        (trajectory): Sample => ({ trajectory, reward: trainedReward(trajectory, algorithm.incompletePenalty) }),
      ),
    );
    const advantages = this.#method.advantages(samples);
    const isSilent = (trajectory: Trajectory) => advantages.get(trajectory)!.every((advantage) => advantage === 0);
    const zeroVarianceGroups = groups.filter((group) => group.every(isSilent)).length;

    const checked = await this.#verifier.check(
      trajectories,
      verify.fraction,
      this.#checksums,
      this.#config.seed + this.step,
    );
    const verified = performance.now();

    const active = this.#method.trainsSilent ? trajectories : trajectories.filter((one) => !isSilent(one));
    const scales = tokenScales(active, algorithm.lossMean);
    this.#device.fill(this.#grads.arena, 0);
    const sums = { loss: 0, clipped: 0, masked: 0, ratio: 0, entropy: 0, kl: 0, tokens: 0 };
    for (const micro of packMicroBatches(active, passSize(this.#config))) {
      const { items } = micro;
      const reference = await this.#referenceLogProbs(micro);
      const { logProbs, entropies } = await this.#pass.forward(this.#current.compute, micro.batch);
      const out = this.#method.loss(
        {
          logProbs,
          entropies,
          behaviour: gatherScored(items, (trajectory, i) => trajectory.logProbs[i]!),
          keptMass: gatherScored(items, (trajectory, i) => trajectory.keptMass[i]!),
          ...(reference && { reference }),
          advantages: gatherScored(items, (trajectory, i) => advantages.get(trajectory)![i]!),
          scales: gatherScored(items, (trajectory) => scales.get(trajectory)!),
          versions: Uint32Array.from(gatherScored(items, (trajectory, i) => trajectory.version[i]!)),
          offsets: scoredOffsets(items),
        },
        this.step,
      );
      await this.#pass.backward(this.#current.compute, out, this.#grads);
      sums.loss += out.loss;
      sums.clipped += out.clipped;
      sums.masked += out.masked;
      sums.ratio += out.ratioSum;
      sums.entropy += out.entropySum;
      sums.kl += out.klSum;
      sums.tokens += logProbs.length;
      // Episodes that arrived meanwhile are taken off the ring between two micro-batches.
      await nextTurn();
    }

    const lr = learningRate(scheduleOf(optimizer, this.#config.steps), this.step + 1);
    const { gradNorm, checksum } = await this.#update(lr);
    const done = performance.now();
    return {
      step: this.step,
      version: this.step,
      ...batchMetrics(trajectories, this.step - 1),
      loss: sums.loss,
      entropy: sums.tokens > 0 ? sums.entropy / sums.tokens : 0,
      ratio: sums.tokens > 0 ? sums.ratio / sums.tokens : 1,
      clipFraction: sums.tokens > 0 ? sums.clipped / sums.tokens : 0,
      maskFraction: sums.tokens > 0 ? sums.masked / sums.tokens : 0,
      kl: this.#reference === null ? null : sums.tokens > 0 ? sums.kl / sums.tokens : 0,
      gradNorm,
      lr,
      trainedTokens: sums.tokens,
      zeroVarianceGroups,
      mismatch: checked.tokens > 0 ? checked.mismatch : null,
      mismatchTokens: checked.tokens,
      checksum,
      timings: { verify: verified - started, train: done - verified, step: done - started },
    };
  }

  /** [n] log-probabilities of the batch's targets under the reference; undefined without one. */
  async #referenceLogProbs({ batch }: MicroBatch): Promise<Float32Array | undefined> {
    if (this.#reference === null) return undefined;
    const { logProbs } = await this.#pass.forward(this.#reference, batch);
    // The pass writes the next result where this one is.
    return logProbs.slice();
  }

  /** AdamW into a free slot of the board, then one atomic publish. */
  async #update(lr: number): Promise<{ gradNorm: number; checksum: string }> {
    const slot = this.#board.beginWrite();
    const { weights } = this.#current;
    const { maxGradNorm } = this.#config.optimizer;
    let gradNorm: number;
    try {
      ({ gradNorm } = await this.#current.advance(slot, (out) =>
        this.#optimizer.step({ weights, out, grads: this.#grads, lr, maxGradNorm }),
      ));
    } catch (error) {
      this.#board.abort(slot);
      throw error;
    }
    const checksum = this.#board.checksum(slot.data);
    this.step++;
    this.#board.publish(slot, this.step, checksum);
    this.#checksums.set(this.step, checksum);
    this.#checksums.prune(this.step - 64);
    return { gradNorm, checksum };
  }

  /** Writes a checkpoint and returns its folder. */
  async save(trainedGroups: [number, number][]): Promise<string> {
    const { step, m, v } = await this.#optimizer.state();
    return writeCheckpoint(
      this.#setup.checkpoints,
      {
        state: {
          format: 1,
          step: this.step,
          seed: this.#config.seed,
          configHash: this.#setup.configHash,
          trainedGroups,
          optimizerStep: step,
          checksum: this.#checksums.get(this.step)!,
        },
        model: this.#model,
        tensors: unpackTensors(this.#model.config, this.#current.data),
        optimizer: { m, v },
      },
      this.#config.checkpoint.keep,
    );
  }
}

/** The model that the run began with, also after a resume. */
function loadReference(device: Device, config: ModelConfig, folder: string): ComputeWeights {
  const { tensors } = loadModelFolder(folder);
  const weights = allocateCompute(device, config, "reference");
  weights.write(packTensors(config, (name) => tensors.read(name)));
  return weights;
}

/** @throws AgentRLError "CHECKPOINT" when the checkpoint was written under another config. */
export function assertCheckpointFits(state: { configHash: string }, setup: Setup): void {
  if (state.configHash === setup.configHash) return;
  throw new AgentRLError("CHECKPOINT", "The checkpoint belongs to another config", {
    where: setup.resume ?? "",
    got: state.configHash,
    expected: setup.configHash,
    hint: "resume with the config that the run began with, or start a new run from the checkpoint's model folder",
  });
}
