/**
 * The learner's weights and optimizer, and one training step: verify a sample of the batch under the weights that
 * sampled it, accumulate the gradient over micro-batches, apply AdamW from the current board slot into a free one,
 * publish.
 */
import { loraOf } from "../config/lora.ts";
import type { TrainConfig } from "../config/train.ts";
import type { Device } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import { openAdapterFolder, saveAdapterFolder } from "../model/adapter-files.ts";
import { loadModelFolder, type ModelFolder, type ModelText, saveModelFolder } from "../model/files.ts";
import { initAdapters } from "../model/lora.ts";
import { AdamW } from "../model/optimizer.ts";
import { packTensors, parameterLayout, unpackTensors } from "../model/parameters.ts";
import { learningRate } from "../model/schedule.ts";
import { trainedLayout } from "../model/trained.ts";
import type { ValueHeadState } from "../model/value-head.ts";
import type { Advantages } from "../rl/advantages/estimator.ts";
import { VersionChecksums } from "../rl/staleness.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { WeightBoard } from "../shm/weight-board.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import { BatchGradient } from "./batch-gradient.ts";
import { batchMetrics } from "./batch-metrics.ts";
import { readCheckpoint, readStaleWeights, writeCheckpoint } from "./checkpoint.ts";
import { publishFrozen } from "./frozen-weights.ts";
import type { Trainer } from "./learner-loop.ts";
import type { GroupBooks, Setup } from "./messages.ts";
import { openDevice } from "./open-device.ts";
import { maxLagOf } from "./plan.ts";
import { checkpointsOf } from "./pool-models.ts";
import { type SlotModel, type SlotWriter, slotWriter } from "./slot-weights.ts";
import { refreshIntervals, StaleHolds } from "./stale-versions.ts";
import type { StepMetrics } from "./step-metrics.ts";
import { passSize, scheduleOf } from "./training-options.ts";
import { Verifier } from "./verifier.ts";

export class LearnerState implements Trainer<Trajectory> {
  step = 0;
  /** What the run that is resumed had used up. */
  books: GroupBooks = { trainedGroups: [] };
  /** Told of each step's groups once it is done. */
  onTrained: ((step: number, groups: Trajectory[][], advantages: Advantages) => void) | null = null;
  readonly #setup: Setup;
  readonly #config: TrainConfig;
  readonly #device: Device;
  readonly #model: ModelText;
  readonly #trained: SlotModel;
  readonly #board: WeightBoard;
  readonly #gradient: BatchGradient;
  readonly #optimizer: AdamW;
  readonly #checksums = new VersionChecksums();
  readonly #verifier: Verifier;
  readonly #current: SlotWriter;
  readonly #stale: StaleHolds;

  private constructor(setup: Setup, device: Device, model: ModelFolder, board: WeightBoard) {
    const { config } = setup;
    this.#setup = setup;
    this.#config = config;
    this.#device = device;
    this.#model = model;
    this.#board = board;
    const lora = loraOf(config);
    const base = lora === null ? null : publishFrozen(device, model, setup.frozen!);
    const trained = { config: model.config, lora, base };
    this.#trained = trained;
    this.#gradient = new BatchGradient(device, trained, config, setup.taskNames);
    const { beta1, beta2, eps, weightDecay } = config.optimizer;
    this.#optimizer = new AdamW(device, trainedLayout(trained), { beta1, beta2, eps, weightDecay });

    this.#stale = new StaleHolds(board, refreshIntervals(config), maxLagOf(config));
    if (setup.resume !== null) {
      const { state, optimizer, critic } = readCheckpoint(setup.resume);
      assertCheckpointFits(state, setup);
      this.#optimizer.load({ step: state.optimizerStep, ...optimizer });
      loadCritic(this.#gradient, critic, setup.resume);
      this.step = state.step;
      for (const version of state.staleVersions ?? []) this.#restore(version, readStaleWeights(setup.resume, version));
      const { trainedGroups, sampling } = state;
      this.books = { trainedGroups, ...(sampling && { sampling }) };
    }
    const slot = board.beginWrite();
    slot.data.set(initialOf(setup, trained, model));
    this.#current = slotWriter(device, trained, slot);
    const checksum = board.checksum(slot.data);
    board.publish(slot, this.step, checksum);
    this.#checksums.set(this.step, checksum);
    this.#stale.advance(this.step);
    this.#verifier = new Verifier({
      device,
      model: trained,
      board,
      // Packing differs from training's on purpose, in rows per pass and in sharing no prefix: the law says that
      // packing cannot matter.
      maxRows: Math.max(config.rollout.contextLimit, Math.floor(config.learner.microBatchTokens / 2)),
      checkpoints: checkpointsOf(config),
    });
  }

  /** Computes on `device`, by default the one that the setup names. */
  static async open(setup: Setup, device?: Device): Promise<LearnerState> {
    const { config } = setup;
    const model = loadModelFolder(loraOf(config) === null ? setup.modelFolder : config.model.path, config.model);
    const rows = { train: passSize(setup.config).maxRows, decode: 0 };
    device ??= await openDevice(setup.device, setup.config.learner.threads, { config: model.config, rows });
    const board = WeightBoard.open(setup.board);
    return new LearnerState(setup, device, model, board);
  }

  get tokenizer(): Tokenizer {
    return this.#model.tokenizer;
  }

  /** What a sample is trained on. */
  rewardOf(trajectory: Trajectory): number {
    return this.#gradient.tasks.rewardOf(trajectory);
  }

  /** One optimizer step on complete groups. `spares` are those that dynamic sampling uses up beside them. */
  async train(groups: Trajectory[][], spares: Trajectory[][] = []): Promise<StepMetrics> {
    const started = performance.now();
    const { optimizer, verify } = this.#config;
    const trajectories = groups.flat();
    const checked = await this.#verifier.check(
      trajectories,
      verify.fraction,
      this.#checksums,
      this.#config.seed + this.step,
    );
    const verified = performance.now();
    const computed = await this.#gradient.compute(this.#current.compute, groups, this.step);
    const { gradientShares, ...gradient } = computed.metrics;
    const lr = learningRate(scheduleOf(optimizer, this.#config.steps), this.step + 1);
    const { gradNorm, checksum } = await this.#update(lr);
    const done = performance.now();
    this.onTrained?.(this.step, groups, computed.advantages);
    return {
      step: this.step,
      version: this.step,
      ...batchMetrics([...trajectories, ...spares.flat()], this.step - 1, gradientShares),
      ...gradient,
      spareGroups: spares.length,
      gradNorm,
      lr,
      mismatch: checked.tokens > 0 ? checked.mismatch : null,
      mismatchTokens: checked.tokens,
      checksum,
      timings: { verify: verified - started, train: done - verified, step: done - started },
    };
  }

  /** AdamW into a free slot of the board, then one atomic publish. */
  async #update(lr: number): Promise<{ gradNorm: number; checksum: string }> {
    const slot = this.#board.beginWrite();
    const { weights } = this.#current;
    const { maxGradNorm, beta1, beta2, eps } = this.#config.optimizer;
    const { critic } = this.#gradient;
    let gradNorm: number;
    let norm: number;
    try {
      norm = (await critic?.gradientNorm()) ?? 0;
      ({ gradNorm } = await this.#current.advance(slot, (out) =>
        this.#optimizer.step({ weights, out, grads: this.#gradient.grads, lr, maxGradNorm }),
      ));
    } catch (error) {
      this.#board.abort(slot);
      throw error;
    }
    if (critic !== null) {
      const { lr } = this.#config.algorithm.critic;
      critic.step({ lr, beta1, beta2, eps, norm, maxGradNorm, step: this.step + 1 });
    }
    const checksum = this.#board.checksum(slot.data);
    this.step++;
    this.#board.publish(slot, this.step, checksum);
    this.#checksums.set(this.step, checksum);
    this.#stale.advance(this.step);
    this.#checksums.prune(this.step - 64);
    return { gradNorm, checksum };
  }

  /** Puts what a stale copy stood at back on the board, before the newest version. */
  #restore(version: number, weights: Float32Array): void {
    const slot = this.#board.beginWrite();
    slot.data.set(weights);
    this.#checksums.set(version, this.#board.publish(slot, version));
    this.#stale.hold(version);
  }

  /** Writes a checkpoint and returns its folder. */
  async save(books: GroupBooks): Promise<string> {
    const { step, m, v } = await this.#optimizer.state();
    const critic = await this.#gradient.critic?.state();
    const stale = this.#stale.copies(this.step);
    return writeCheckpoint(
      this.#setup.checkpoints,
      {
        state: {
          format: 1,
          step: this.step,
          seed: this.#config.seed,
          configHash: this.#setup.configHash,
          ...books,
          optimizerStep: step,
          ...(stale.size > 0 && { staleVersions: [...stale.keys()] }),
          checksum: this.#checksums.get(this.step)!,
        },
        saveModel: (folder) => this.#saveModel(folder),
        optimizer: { m, v },
        ...(critic && { critic }),
        ...(stale.size > 0 && { stale }),
      },
      this.#config.checkpoint.keep,
    );
  }

  #saveModel(folder: string): void {
    const { config, lora } = this.#trained;
    const { data } = this.#current;
    if (lora === null) {
      saveModelFolder(folder, { ...this.#model, tensors: unpackTensors(parameterLayout(config), data) });
    } else {
      saveAdapterFolder(folder, { base: this.#config.model.path, config, lora, arena: data });
    }
  }
}

/** What training begins or goes on from, in the layout of what is trained. */
function initialOf({ config, modelFolder, resume }: Setup, { lora }: SlotModel, model: ModelFolder): Float32Array {
  if (lora === null) return packTensors(parameterLayout(model.config), (name) => model.tensors.read(name));
  return resume === null
    ? initAdapters(model.config, lora, config.seed)
    : openAdapterFolder(modelFolder).read(model.config);
}

/** @throws AgentRLError "CHECKPOINT" when the method has a critic and the checkpoint has none. */
export function loadCritic(gradient: BatchGradient, critic: ValueHeadState | undefined, checkpoint: string): void {
  if (gradient.critic === null) return;
  if (critic === undefined) {
    throw new AgentRLError("CHECKPOINT", "The checkpoint has no critic", {
      where: checkpoint,
      expected: "critic.safetensors, which a run with algorithm.advantage gae-turn or gae-token writes",
      hint: "start a new run from the checkpoint's model folder",
    });
  }
  gradient.critic.load(critic);
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
