/**
 * The metric `mismatch`: log-probabilities recorded while sampling against those that a full forward pass computes
 * under the same weights: a version that the board still holds, or a checkpoint of the pool. The invariance rule makes the
 * difference exactly 0; anything else is a bug.
 */
import type { Device } from "../device/device.ts";
import { loadFolder } from "../model/load.ts";
import { TrainPass } from "../model/train-pass.ts";
import type { ComputeWeights } from "../model/weights.ts";
import { gatherScored, packMicroBatches, sampledCount } from "../rl/batch.ts";
import { mix32 } from "../rl/sampler.ts";
import { comparableTokens, type VersionChecksums, type WeightsId } from "../rl/staleness.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import type { WeightBoard } from "../shm/weight-board.ts";
import { type SlotModel, type SlotReader, slotReader } from "./slot-weights.ts";

export interface Checked {
  /** Largest absolute difference; 0 when nothing was compared, so look at `tokens`. */
  mismatch: number;
  tokens: number;
}

export class Verifier {
  readonly #device: Device;
  readonly #board: WeightBoard;
  readonly #slots: SlotReader;
  readonly #pass: TrainPass;
  readonly #maxRows: number;
  /** Folders of the pool's checkpoints, and their weights once they are needed. */
  readonly #checkpoints: ReadonlyMap<string, string>;
  readonly #loaded = new Map<string, ComputeWeights>();

  constructor(options: {
    device: Device;
    model: SlotModel;
    board: WeightBoard;
    maxRows: number;
    /** Model folders by the names of the pool's checkpoints; default none. */
    checkpoints?: ReadonlyMap<string, string>;
  }) {
    this.#device = options.device;
    this.#checkpoints = options.checkpoints ?? new Map();
    this.#board = options.board;
    this.#slots = slotReader(options.device, options.model);
    this.#maxRows = options.maxRows;
    const { device, maxRows, model } = options;
    // Nothing is gone back through, so no layer's activations are needed after it.
    const limits = { maxRows, maxScored: maxRows, loraRank: model.lora?.rank ?? 0, recompute: true };
    this.#pass = new TrainPass(device, model.config, limits);
  }

  /** Compares tokens of `trajectories`, drawn by `seed`, until `fraction` of all sampled tokens are compared. */
  async check(
    trajectories: readonly Trajectory[],
    fraction: number,
    versions: VersionChecksums,
    seed: number,
  ): Promise<Checked> {
    const checked: Checked = { mismatch: 0, tokens: 0 };
    if (fraction === 0) return checked;
    const total = trajectories.reduce((sum, one) => sum + sampledCount(one), 0);
    for (const [id, chosen] of this.#draw(trajectories, fraction * total, versions, seed)) {
      await this.#under(id, async (weights) => {
        for (const { items, batch } of packMicroBatches(chosen, { maxRows: this.#maxRows })) {
          const { logProbs } = await this.#pass.forward(weights, batch);
          const recorded = gatherScored(items, (trajectory, i) => trajectory.logProbs[i]!);
          for (let t = 0; t < recorded.length; t++) {
            // Math.max keeps a NaN, which so cannot pass for agreement.
            checked.mismatch = Math.max(checked.mismatch, Math.abs(recorded[t]! - logProbs[t]!));
          }
          checked.tokens += recorded.length;
        }
      });
    }
    return checked;
  }

  /** Does `check` with the weights; a version that was evicted since counts as not compared. */
  async #under(id: WeightsId, check: (weights: ComputeWeights) => Promise<void>): Promise<void> {
    if (typeof id === "string") {
      const weights = this.#loaded.get(id) ?? loadFolder(this.#device, this.#checkpoints.get(id)!, id);
      this.#loaded.set(id, weights);
      await check(weights);
      return;
    }
    const held = this.#board.acquire(id);
    if (held === null) return;
    try {
      await check(this.#slots.weightsOf(held));
    } finally {
      this.#board.release(held);
    }
  }

  /** By the weights to recompute them under: trajectories that mark as sampled what is to be compared. */
  #draw(trajectories: readonly Trajectory[], wanted: number, versions: VersionChecksums, seed: number) {
    const shuffled = trajectories
      .map((trajectory) => ({ trajectory, key: mix32(mix32(seed, trajectory.group), trajectory.sample) }))
      .sort((a, b) => a.key - b.key);
    const byWeights = new Map<WeightsId, Trajectory[]>();
    let tokens = 0;
    for (const { trajectory } of shuffled) {
      if (tokens >= wanted) break;
      for (const [id, sampled] of comparableTokens(trajectory, versions)) {
        const marked = { ...trajectory, sampled };
        tokens += sampledCount(marked);
        byWeights.set(id, [...(byWeights.get(id) ?? []), marked]);
      }
    }
    return byWeights;
  }
}
