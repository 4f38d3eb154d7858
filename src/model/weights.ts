/**
 * A model's parameters on a device. `Weights` is an f32 arena with a view per parameter: weights that are trained, a slot
 * of the weight board, gradients; they differ only in what is written to them. `HalfWeights` is what passes compute with
 * where the device keeps weights in 16 bits.
 */
import { type Device, type HalfType, isHalf, type Tensor } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "./config.ts";
import type { Linear, LinearGradient } from "./linear.ts";
import {
  biasedRoles,
  type LinearRole,
  linearRoles,
  type ParameterEntry,
  type ParameterLayout,
  parameterLayout,
  parameterNames,
} from "./parameters.ts";

export type LayerWeights = { readonly [role in LinearRole]: Linear } & {
  /** [hiddenSize] */
  readonly attentionNorm: Tensor;
  readonly mlpNorm: Tensor;
  /** [headDim], of a family that norms queries and keys. */
  readonly qNorm?: Tensor;
  readonly kNorm?: Tensor;
};

/** What a pass computes with. */
export interface ComputeWeights {
  /** [vocabSize, hiddenSize] */
  readonly embedding: Tensor;
  readonly layers: readonly LayerWeights[];
  readonly finalNorm: Tensor;
  /** The embedding itself when tied, else [hiddenSize, vocabSize]. */
  readonly head: Tensor;
}

/** Where a backward pass adds gradients to; what is absent is frozen. */
export interface Gradients {
  readonly embedding?: Tensor;
  readonly layers: readonly LayerGradients[];
  readonly finalNorm?: Tensor;
  readonly head?: Tensor;
}

export type LayerGradients = { readonly [role in LinearRole]?: LinearGradient } & {
  readonly attentionNorm?: Tensor;
  readonly mlpNorm?: Tensor;
  readonly qNorm?: Tensor;
  readonly kNorm?: Tensor;
};

/** A flat run of f32: what is trained, or its gradient. */
export interface Arena {
  readonly layout: ParameterLayout;
  /** f32 [layout.length] */
  readonly arena: Tensor;
}

/** Weights whose values come from the host. */
export interface LoadableWeights extends ComputeWeights {
  /** Takes the values of an arena. */
  write(arena: Float32Array): void;
  free(): void;
}

/** Weights to compute with on this device, in 16 bits where it keeps them so. */
export function allocateCompute(device: Device, config: ModelConfig, label: string): LoadableWeights {
  const { weights } = device.storage;
  return isHalf(weights) ? new HalfWeights(device, config, weights, label) : Weights.allocate(device, config, label);
}

export class Weights implements LoadableWeights, Arena {
  readonly config: ModelConfig;
  readonly layout: ParameterLayout;
  /** f32 [layout.length], owned by whoever allocated it. */
  readonly arena: Tensor;
  readonly embedding: Tensor;
  readonly layers: readonly LayerWeights[];
  readonly finalNorm: Tensor;
  readonly head: Tensor;
  readonly #device: Device;

  /** @throws AgentRLError DEVICE when the arena is not f32 of the layout's length. */
  constructor(device: Device, config: ModelConfig, arena: Tensor) {
    const layout = parameterLayout(config);
    if (arena.dtype !== "f32" || arena.length !== layout.length) {
      throw new AgentRLError("DEVICE", "A weight arena does not fit its model.", {
        where: arena.label,
        got: `${arena.dtype} [${arena.length}]`,
        expected: `f32 [${layout.length}]`,
        hint: "Allocate parameterLayout(config).length floats.",
      });
    }
    const tensors = weightsByRole(config, layout, ({ offset, length }) => device.view(arena, offset, length));
    this.#device = device;
    this.config = config;
    this.layout = layout;
    this.arena = arena;
    this.embedding = tensors.embedding;
    this.finalNorm = tensors.finalNorm;
    this.head = tensors.head;
    this.layers = tensors.layers;
  }

  /** A zero-filled arena of its own, for gradients or for weights yet to be written. */
  static allocate(device: Device, config: ModelConfig, label: string): Weights {
    return new Weights(device, config, device.alloc(parameterLayout(config).length, "f32", label));
  }

  write(arena: Float32Array): void {
    this.#device.write(this.arena, arena);
  }

  free(): void {
    this.#device.free(this.arena);
  }
}

/**
 * Matrices in 16 bits, rounded as `Device.roundHalf` does; norm weights, a thousandth of the memory, stay f32. A matrix is an
 * allocation of its own: in the arena's layout half of them would start where such a tensor cannot be bound.
 */
export class HalfWeights implements LoadableWeights {
  readonly embedding: Tensor;
  readonly layers: readonly LayerWeights[];
  readonly finalNorm: Tensor;
  readonly head: Tensor;
  readonly #device: Device;
  readonly #layout: ParameterLayout;
  readonly #matrices: { entry: ParameterEntry; tensor: Tensor }[] = [];
  /** What lies behind the matrices in the arena. */
  readonly #norms: Tensor;

  constructor(device: Device, config: ModelConfig, dtype: HalfType, label: string) {
    const layout = parameterLayout(config);
    const { length, decayedLength } = layout;
    this.#device = device;
    this.#layout = layout;
    this.#norms = device.alloc(length - decayedLength, "f32", label);
    const tensors = weightsByRole(config, layout, (entry) => {
      if (!entry.decay) return device.view(this.#norms, entry.offset - decayedLength, entry.length);
      const tensor = device.alloc(entry.length, dtype, label);
      this.#matrices.push({ entry, tensor });
      return tensor;
    });
    this.embedding = tensors.embedding;
    this.finalNorm = tensors.finalNorm;
    this.head = tensors.head;
    this.layers = tensors.layers;
  }

  write(arena: Float32Array): void {
    for (const { entry, tensor } of this.#matrices) {
      this.#device.write(tensor, arena.subarray(entry.offset, entry.offset + entry.length));
    }
    this.#device.write(this.#norms, arena.subarray(this.#layout.decayedLength));
  }

  /** Takes the values of weights on the same device: what `write` makes of them. */
  round({ arena }: Weights): void {
    const device = this.#device;
    for (const { entry, tensor } of this.#matrices) {
      const { offset, length } = entry;
      device.roundHalf({ x: device.view(arena, offset, length), out: tensor, length });
    }
    const { decayedLength } = this.#layout;
    const norms = this.#norms.length;
    device.copy(device.view(arena, decayedLength, norms), this.#norms, norms);
  }

  free(): void {
    for (const { tensor } of this.#matrices) this.#device.free(tensor);
    this.#device.free(this.#norms);
  }
}

/** What passes compute with while `trained` is trained: itself, or a copy of it in 16 bits. */
export class ComputeCopy {
  readonly weights: ComputeWeights;
  readonly #trained: Weights;
  readonly #half: HalfWeights | undefined;

  constructor(device: Device, trained: Weights) {
    this.#trained = trained;
    const { weights } = device.storage;
    if (isHalf(weights)) this.#half = new HalfWeights(device, trained.config, weights, `weights in ${weights}`);
    this.weights = this.#half ?? trained;
    this.update();
  }

  /** Call after each change of `trained`. */
  update(): void {
    this.#half?.round(this.#trained);
  }

  free(): void {
    this.#half?.free();
  }
}

/** Tensors under the names that the passes know them by. */
export function weightsByRole(
  config: ModelConfig,
  layout: ParameterLayout,
  tensorOf: (entry: ParameterEntry) => Tensor,
): ComputeWeights {
  const tensors = new Map(layout.entries.map((entry) => [entry.name, tensorOf(entry)]));
  const embedding = tensors.get(parameterNames.embedding)!;
  const biased = new Set(biasedRoles(config));
  const linearOf = (layer: number, role: LinearRole): Linear => ({
    weight: tensors.get(parameterNames.weight(layer, role))!,
    ...(biased.has(role) && { bias: tensors.get(parameterNames.bias(layer, role))! }),
  });
  return {
    embedding,
    finalNorm: tensors.get(parameterNames.finalNorm)!,
    head: config.tieWordEmbeddings ? embedding : tensors.get(parameterNames.head)!,
    layers: Array.from({ length: config.layers }, (_, layer): LayerWeights => {
      const linears = Object.fromEntries(linearRoles.map((role) => [role, linearOf(layer, role)]));
      const norms = Object.entries(parameterNames.norms(layer)).filter(([, name]) => tensors.has(name));
      const normTensors = Object.fromEntries(norms.map(([role, name]) => [role, tensors.get(name)!]));
      return { ...linears, ...normTensors } as LayerWeights;
    }),
  };
}
