/**
 * Weights between the board's shared memory and a device. The native device computes from a slot's memory as it
 * stands; a GPU has memory of its own, to which a version is uploaded once and from which a new one is read back. The
 * board and the optimizer hold f32 always.
 */
import type { Device, Tensor } from "../device/device.ts";
import { NativeDevice } from "../device/native.ts";
import type { ParameterLayout } from "../model/parameters.ts";
import { type TrainedShape, trainedLayout, withAdapters } from "../model/trained.ts";
import {
  type Arena,
  allocateCompute,
  ComputeCopy,
  type ComputeWeights,
  type LoadableWeights,
  Weights,
} from "../model/weights.ts";
import type { BoardSlot, HeldWeights } from "../shm/weight-board.ts";

/** Versions to compute from. */
export interface SlotReader {
  /** Valid until the next call, and as long as the slot is held. */
  weightsOf(held: HeldWeights): ComputeWeights;
  destroy(): void;
}

/** The weights that are being trained. */
export interface SlotWriter {
  readonly weights: Arena;
  /** What passes compute with. */
  readonly compute: ComputeWeights;
  /** The values of `weights` in shared memory. */
  readonly data: Float32Array;
  /**
   * Has `update` write the next version into the tensor that it is given, and leaves it in the slot too. When it throws
   * before writing, `weights` are as they were.
   */
  advance<T>(slot: BoardSlot, update: (out: Tensor) => Promise<T>): Promise<T>;
  destroy(): void;
}

/** What the versions of a run are versions of. */
export interface SlotModel extends TrainedShape {
  /** Of a run that trains adapters: the frozen weights, on the device. */
  readonly base: ComputeWeights | null;
}

export function slotReader(device: Device, model: SlotModel): SlotReader {
  return isInPlace(device, model) ? new InPlace(device, model) : new Uploaded(device, model);
}

/** `initial` is a slot that holds the values to start from. */
export function slotWriter(device: Device, model: SlotModel, initial: BoardSlot): SlotWriter {
  return isInPlace(device, model)
    ? new InPlaceWriter(device, model, initial)
    : new UploadedWriter(device, model, initial);
}

/** Whether passes can compute with a slot's f32 numbers where they lie. */
function isInPlace(device: Device, { lora }: SlotModel): device is NativeDevice {
  return device instanceof NativeDevice && (lora !== null || device.storage.weights === "f32");
}

/** Weights to compute with whose trained part is `arena`. */
function computeWith(device: Device, { config, lora, base }: SlotModel, arena: Tensor): ComputeWeights {
  return lora === null ? new Weights(device, config, arena) : withAdapters(device, config, base!, { lora, arena });
}

interface InPlaceSlot extends Arena {
  readonly compute: ComputeWeights;
}

/** A slot keeps its place in memory, so its views are made once. */
class InPlace implements SlotReader {
  readonly #device: NativeDevice;
  readonly #model: SlotModel;
  readonly #bySlot = new Map<number, InPlaceSlot>();

  constructor(device: NativeDevice, model: SlotModel) {
    this.#device = device;
    this.#model = model;
  }

  weightsOf(held: BoardSlot): ComputeWeights {
    return this.at(held).compute;
  }

  at({ slot, data }: BoardSlot): InPlaceSlot {
    let found = this.#bySlot.get(slot);
    if (found === undefined) {
      const arena = NativeDevice.wrap(data);
      found = { layout: trainedLayout(this.#model), arena, compute: computeWith(this.#device, this.#model, arena) };
      this.#bySlot.set(slot, found);
    }
    return found;
  }

  destroy(): void {}
}

class InPlaceWriter implements SlotWriter {
  weights: InPlaceSlot;
  data: Float32Array;
  readonly #slots: InPlace;

  constructor(device: NativeDevice, model: SlotModel, initial: BoardSlot) {
    this.#slots = new InPlace(device, model);
    this.weights = this.#slots.at(initial);
    this.data = initial.data;
  }

  get compute(): ComputeWeights {
    return this.weights.compute;
  }

  async advance<T>(slot: BoardSlot, update: (out: Tensor) => Promise<T>): Promise<T> {
    const next = this.#slots.at(slot);
    const result = await update(next.arena);
    this.weights = next;
    this.data = slot.data;
    return result;
  }

  destroy(): void {}
}

class Uploaded implements SlotReader {
  readonly #weights: LoadableWeights;
  #version = -1;

  constructor(device: Device, model: SlotModel) {
    this.#weights =
      model.lora === null
        ? allocateCompute(device, model.config, "weights of the board")
        : new UploadedAdapters(device, model, "adapters of the board");
  }

  weightsOf({ version, data }: HeldWeights): ComputeWeights {
    if (version !== this.#version) this.#weights.write(data);
    this.#version = version;
    return this.#weights;
  }

  destroy(): void {
    this.#weights.free();
  }
}

/** Adapters in the device's own memory, on frozen weights. */
class UploadedAdapters implements LoadableWeights, Arena {
  readonly layout: ParameterLayout;
  readonly arena: Tensor;
  readonly embedding: Tensor;
  readonly layers: ComputeWeights["layers"];
  readonly finalNorm: Tensor;
  readonly head: Tensor;
  readonly #device: Device;

  constructor(device: Device, model: SlotModel, label: string) {
    this.#device = device;
    this.layout = trainedLayout(model);
    this.arena = device.alloc(this.layout.length, "f32", label);
    ({
      embedding: this.embedding,
      layers: this.layers,
      finalNorm: this.finalNorm,
      head: this.head,
    } = computeWith(device, model, this.arena));
  }

  write(arena: Float32Array): void {
    this.#device.write(this.arena, arena);
  }

  free(): void {
    this.#device.free(this.arena);
  }
}

class UploadedWriter implements SlotWriter {
  readonly weights: LoadableWeights & Arena;
  data: Float32Array;
  readonly #device: Device;
  /** Null: `weights` are computed with as they are. */
  readonly #copy: ComputeCopy | null;

  constructor(device: Device, model: SlotModel, initial: BoardSlot) {
    this.#device = device;
    if (model.lora === null) {
      const weights = Weights.allocate(device, model.config, "weights");
      weights.write(initial.data);
      this.weights = weights;
      this.#copy = new ComputeCopy(device, weights);
    } else {
      this.weights = new UploadedAdapters(device, model, "adapters");
      this.weights.write(initial.data);
      this.#copy = null;
    }
    this.data = initial.data;
  }

  get compute(): ComputeWeights {
    return this.#copy?.weights ?? this.weights;
  }

  async advance<T>(slot: BoardSlot, update: (out: Tensor) => Promise<T>): Promise<T> {
    const result = await update(this.weights.arena);
    this.#copy?.update();
    slot.data.set(await this.#device.readF32(this.weights.arena));
    this.data = slot.data;
    return result;
  }

  destroy(): void {
    this.#copy?.free();
    this.weights.free();
  }
}
