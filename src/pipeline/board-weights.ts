/** The weight board as the engine's source: between two decode steps the newest version is taken by holding its slot. */
import type { Device } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import type { WeightSource } from "../generate/weight-source.ts";
import type { ModelConfig } from "../model/config.ts";
import { WeightBoard } from "../shm/weight-board.ts";
import { slotReader } from "./slot-weights.ts";

export async function boardWeights(options: {
  device: Device;
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
  const reader = slotReader(device, config);
  const hold = () => {
    const held = board.acquire();
    if (held === null)
      throw new AgentRLError("SHARED_MEMORY", "The weight board holds no version", { where: options.board });
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
