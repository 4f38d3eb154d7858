/**
 * The metric `mismatch`: log-probabilities recorded while sampling against those that a full forward pass computes
 * under the same weights, which the board still holds. The invariance rule makes the difference exactly 0; anything
 * else is a bug.
 */
import type { Device } from "../device/device.ts";
import type { ModelConfig } from "../model/config.ts";
import { TrainPass } from "../model/train-pass.ts";
import { gatherScored, packMicroBatches, sampledCount } from "../rl/batch.ts";
import { mix32 } from "../rl/sampler.ts";
import { comparableTokens, contextVersion, type VersionChecksums } from "../rl/staleness.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import type { WeightBoard } from "../shm/weight-board.ts";
import { type SlotReader, slotReader } from "./slot-weights.ts";

export interface Checked {
  /** Largest absolute difference; 0 when nothing was compared, so look at `tokens`. */
  mismatch: number;
  tokens: number;
}

export class Verifier {
  readonly #board: WeightBoard;
  readonly #slots: SlotReader;
  readonly #pass: TrainPass;
  readonly #maxRows: number;

  constructor(options: {
    device: Device;
    config: ModelConfig;
    board: WeightBoard;
    maxRows: number;
  }) {
    this.#board = options.board;
    this.#slots = slotReader(options.device, options.config);
    this.#maxRows = options.maxRows;
    this.#pass = new TrainPass(options.device, options.config, {
      maxRows: options.maxRows,
      maxScored: options.maxRows,
    });
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
    const byVersion = this.#draw(trajectories, fraction * total, versions, seed);
    for (const [version, chosen] of byVersion) {
      const held = this.#board.acquire(version);
      // Evicted since: counted as not compared.
      if (held === null) continue;
      try {
        const limit = (trajectory: Trajectory) => comparableTokens(trajectory, versions);
        for (const { items, batch } of packMicroBatches(chosen, { maxRows: this.#maxRows }, limit)) {
          const { logProbs } = await this.#pass.forward(this.#slots.weightsOf(held), batch);
          const recorded = gatherScored(items, (trajectory, i) => trajectory.logProbs[i]!);
          for (let t = 0; t < recorded.length; t++) {
            // Math.max keeps a NaN, which so cannot pass for agreement.
            checked.mismatch = Math.max(checked.mismatch, Math.abs(recorded[t]! - logProbs[t]!));
          }
          checked.tokens += recorded.length;
        }
      } finally {
        this.#board.release(held);
      }
    }
    return checked;
  }

  #draw(trajectories: readonly Trajectory[], wanted: number, versions: VersionChecksums, seed: number) {
    const shuffled = trajectories
      .map((trajectory) => ({ trajectory, key: mix32(mix32(seed, trajectory.group), trajectory.sample) }))
      .sort((a, b) => a.key - b.key);
    const byVersion = new Map<number, Trajectory[]>();
    let tokens = 0;
    for (const { trajectory } of shuffled) {
      if (tokens >= wanted) break;
      const comparable = comparableTokens(trajectory, versions);
      if (comparable === 0) continue;
      tokens += comparable;
      const version = contextVersion(trajectory);
      byVersion.set(version, [...(byVersion.get(version) ?? []), trajectory]);
    }
    return byVersion;
  }
}
