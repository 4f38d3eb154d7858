/**
 * The frozen weights of a run that trains adapters: written once by the learner into a board of one slot, and read there by
 * every process. The native device computes from that memory as it stands, so a model of any number of processes is in
 * memory once; a GPU has memory of its own, to which it is uploaded once a process.
 */
import type { Device } from "../device/device.ts";
import { NativeDevice } from "../device/native.ts";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "../model/config.ts";
import type { TensorReader } from "../model/files.ts";
import { packTensors, parameterLayout } from "../model/parameters.ts";
import { allocateCompute, type ComputeWeights, Weights } from "../model/weights.ts";
import { type BoardSlot, WeightBoard } from "../shm/weight-board.ts";

const version = 0;

export function frozenBytes(config: ModelConfig): number {
  return 4 * parameterLayout(config).length;
}

/** Puts the model on the board, for this process and the others. */
export function publishFrozen(
  device: Device,
  { config, tensors }: { config: ModelConfig; tensors: TensorReader },
  name: string,
): ComputeWeights {
  const board = WeightBoard.open(name);
  const slot = board.beginWrite();
  packTensors(parameterLayout(config), (tensor) => tensors.read(tensor), slot.data);
  board.publish(slot, version);
  return computeFrom(device, config, slot);
}

/** Waits for the learner to have put the model on the board. */
export async function frozenWeights(options: {
  device: Device;
  config: ModelConfig;
  board: string;
  timeoutMs: number;
}): Promise<ComputeWeights> {
  const { device, config, timeoutMs } = options;
  const board = WeightBoard.open(options.board);
  const held = (await board.waitForVersion(version, timeoutMs)) === undefined ? null : board.acquire(version);
  if (held === null) {
    throw new AgentRLError("PIPELINE", "The learner put no frozen weights into shared memory in time", {
      where: options.board,
      expected: `them within ${timeoutMs} ms`,
    });
  }
  // Held until this process ends: there will be no other version.
  return computeFrom(device, config, held);
}

function computeFrom(device: Device, config: ModelConfig, { data }: BoardSlot): ComputeWeights {
  if (device instanceof NativeDevice) return new Weights(device, config, NativeDevice.wrap(data));
  const weights = allocateCompute(device, config, "frozen weights");
  weights.write(data);
  return weights;
}
