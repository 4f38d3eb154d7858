/**
 * The frozen weights of a run that trains adapters: written once by the learner into a board of one slot, and read there by
 * every process. The native device computes from that memory as it stands, so a model of any number of processes is in
 * memory once; a GPU has memory of its own, to which it is uploaded once a process.
 */
import { type Device, elementBytes, isHalf, type Storage, type Tensor } from "../device/device.ts";
import { NativeDevice } from "../device/native.ts";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "../model/config.ts";
import type { TensorReader } from "../model/files.ts";
import { type ParameterEntry, packTensors, parameterLayout } from "../model/parameters.ts";
import { allocateCompute, type ComputeWeights, weightsByRole } from "../model/weights.ts";
import { type BoardSlot, WeightBoard } from "../shm/weight-board.ts";
import type { ResolvedDevice } from "./open-device.ts";

type Stored = Storage["weights"];

const version = 0;

/** What the board holds matrices as: what the native device computes with; for a GPU f32, which it rounds itself. */
export function frozenStorage(device: ResolvedDevice): Stored {
  return device.kind === "native" ? device.weights : "f32";
}

/** Matrices as they are stored, then norms and biases in f32. */
export function frozenBytes(config: ModelConfig, stored: Stored): number {
  const { length, decayedLength } = parameterLayout(config);
  return decayedLength * elementBytes(stored) + 4 * (length - decayedLength);
}

/** Puts the model on the board, for this process and the others. */
export function publishFrozen(
  device: Device,
  { config, tensors }: { config: ModelConfig; tensors: TensorReader },
  name: string,
): ComputeWeights {
  const board = WeightBoard.open(name);
  const slot = board.beginWrite();
  const read = (tensor: string) => tensors.read(tensor);
  if (device instanceof NativeDevice) {
    // Entry by entry: a model in 16 bits is never in memory in 32.
    for (const entry of parameterLayout(config).entries) {
      const single = { entries: [{ ...entry, offset: 0 }], length: entry.length, decayedLength: 0 };
      device.write(placeOf(device, config, slot, entry), packTensors(single, read));
    }
  } else {
    packTensors(parameterLayout(config), read, slot.data);
  }
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

function computeFrom(device: Device, config: ModelConfig, slot: BoardSlot): ComputeWeights {
  if (device instanceof NativeDevice) {
    return weightsByRole(config, parameterLayout(config), (entry) => placeOf(device, config, slot, entry));
  }
  const weights = allocateCompute(device, config, "frozen weights");
  weights.write(slot.data);
  return weights;
}

/** The memory of one parameter on the board. */
function placeOf(device: NativeDevice, config: ModelConfig, { data }: BoardSlot, entry: ParameterEntry): Tensor {
  const { weights: stored } = device.storage;
  const { buffer, byteOffset } = data;
  const { offset, length, name, decay } = entry;
  const { decayedLength } = parameterLayout(config);
  if (decay && isHalf(stored)) {
    return NativeDevice.wrap(new Uint16Array(buffer, byteOffset + 2 * offset, length), name, stored);
  }
  const start = decay ? 4 * offset : elementBytes(stored) * decayedLength + 4 * (offset - decayedLength);
  return NativeDevice.wrap(new Float32Array(buffer, byteOffset + start, length), name);
}
