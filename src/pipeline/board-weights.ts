/**
 * The weight board as the engine's source: between two decode steps the newest version, or the one that a stale copy stands
 * at, is taken by holding its slot. Its checksum is compared with the learner's before anything is computed with it.
 */
import type { Device } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import type { WeightSource } from "../generate/weight-source.ts";
import { type HeldWeights, WeightBoard } from "../shm/weight-board.ts";
import { type SlotModel, slotReader } from "./slot-weights.ts";
import { staleVersion } from "./stale-versions.ts";
import type { WeightCheck } from "./weight-check.ts";

export async function boardWeights(options: {
  device: Device;
  model: SlotModel;
  board: string;
  /** The version that the run begins with. */
  first: number;
  /** How long to wait for the first version. */
  timeoutMs: number;
  check: WeightCheck;
}): Promise<WeightSource> {
  const { device, model, first, timeoutMs, check } = options;
  const board = WeightBoard.open(options.board);
  if ((await board.waitForVersion(first, timeoutMs)) === undefined) {
    throw new AgentRLError("PIPELINE", "The learner published no weights in time", {
      where: options.board,
      expected: `a version within ${timeoutMs} ms`,
    });
  }
  const reader = slotReader(device, model);
  const hold = () => {
    const held = board.acquire();
    if (held === null)
      throw new AgentRLError("SHARED_MEMORY", "The weight board holds no version", { where: options.board });
    check.check(board, held);
    return held;
  };
  let held = hold();
  return {
    latest: () => {
      if (board.latestVersion() !== held.version) {
        const newer = hold();
        board.release(held);
        held = newer;
      }
      return { version: held.version, weights: reader.weightsOf(held) };
    },
    close: () => {
      reader.destroy();
      board.release(held);
      board.close();
    },
  };
}

/**
 * A copy of the trained weights that is refreshed every `every` updates. Held while it is computed with alone: a copy that
 * seldom takes a turn would else keep an old version from being overwritten. The learner holds the one in force.
 */
export function staleWeights(options: {
  device: Device;
  model: SlotModel;
  /** There must be a version on it. */
  board: string;
  every: number;
  check: WeightCheck;
}): WeightSource {
  const board = WeightBoard.open(options.board);
  const reader = slotReader(options.device, options.model);
  let held: HeldWeights | null = null;
  const release = () => {
    held?.release();
    held = null;
  };
  return {
    latest: () => {
      for (;;) {
        const newest = board.latestVersion();
        const version = staleVersion(newest, options.every);
        if (held?.version !== version) {
          release();
          held = board.acquire(version);
        }
        if (held !== null) {
          options.check.check(board, held);
          return { version, weights: reader.weightsOf(held) };
        }
        // Refreshed, and overwritten, between the two looks at the board.
        if (board.latestVersion() !== newest) continue;
        throw new AgentRLError("SHARED_MEMORY", "The weight board does not hold the version of a stale copy", {
          where: options.board,
          got: board.versions().map((entry) => entry.version),
          expected: `version ${version}, which the learner keeps`,
        });
      }
    },
    rest: release,
    close: () => {
      reader.destroy();
      release();
      board.close();
    },
  };
}
