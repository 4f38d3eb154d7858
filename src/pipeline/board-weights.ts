/**
 * The weight board as the engine's source: between two decode steps the newest version is taken by holding its slot,
 * and computed from in place. Nothing is copied.
 */
import { NativeDevice } from "../device/native.ts";
import { AgentRLError } from "../errors.ts";
import type { WeightSource } from "../generate/weight-source.ts";
import type { ModelConfig } from "../model/config.ts";
import { Weights } from "../model/weights.ts";
import { WeightBoard } from "../shm/weight-board.ts";

export async function boardWeights(options: {
  device: NativeDevice;
  config: ModelConfig;
  board: string;
  /** How long to wait for the first version. */
  timeoutMs: number;
}): Promise<WeightSource> {
  const { device, config, timeoutMs } = options;
  const board = WeightBoard.open(options.board);
  if ((await board.waitForVersion(0, timeoutMs)) === undefined) {
    throw new AgentRLError("PIPELINE", "The learner published no weights in time", {
      where: options.board,
      expected: `a version within ${timeoutMs} ms`,
    });
  }
  // A slot keeps its place in memory, so its views are made once.
  const bySlot = new Map<number, Weights>();
  const hold = () => {
    const held = board.acquire();
    if (held === null)
      throw new AgentRLError("SHARED_MEMORY", "The weight board holds no version", { where: options.board });
    return held;
  };
  let held = hold();
  const current = () => {
    let weights = bySlot.get(held.slot);
    if (weights === undefined) {
      weights = new Weights(device, config, NativeDevice.wrap(held.data));
      bySlot.set(held.slot, weights);
    }
    return { version: held.version, weights };
  };
  return {
    latest: () => {
      if (board.latestVersion() !== held.version) {
        const newer = hold();
        board.release(held);
        held = newer;
      }
      return current();
    },
    close: () => {
      board.release(held);
      board.close();
    },
  };
}
