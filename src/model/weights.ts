/**
 * A model's arena on a device, with a view per parameter. The same class holds weights, a slot of the weight board, and
 * gradients: they differ only in what is written to them.
 */
import type { Device, Tensor } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "./config.ts";
import { type ParameterLayout, parameterLayout, parameterNames } from "./parameters.ts";

/** Linear weights are [in, out]; norm weights [hiddenSize]. */
export interface LayerWeights {
  readonly attentionNorm: Tensor;
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  readonly o: Tensor;
  readonly mlpNorm: Tensor;
  readonly gate: Tensor;
  readonly up: Tensor;
  readonly down: Tensor;
}

export class Weights {
  readonly config: ModelConfig;
  readonly layout: ParameterLayout;
  /** f32 [layout.length], owned by whoever allocated it. */
  readonly arena: Tensor;
  /** [vocabSize, hiddenSize] */
  readonly embedding: Tensor;
  readonly layers: readonly LayerWeights[];
  readonly finalNorm: Tensor;
  /** The embedding itself when tied, else [hiddenSize, vocabSize]. */
  readonly head: Tensor;

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
    const views = new Map<string, Tensor>();
    for (const entry of layout.entries) views.set(entry.name, device.view(arena, entry.offset, entry.length));
    this.config = config;
    this.layout = layout;
    this.arena = arena;
    this.embedding = views.get(parameterNames.embedding)!;
    this.finalNorm = views.get(parameterNames.finalNorm)!;
    this.head = config.tieWordEmbeddings ? this.embedding : views.get(parameterNames.head)!;
    this.layers = Array.from({ length: config.layers }, (_, layer) => {
      const names = parameterNames.layer(layer);
      return Object.fromEntries(Object.entries(names).map(([role, name]) => [role, views.get(name)!])) as {
        [role in keyof typeof names]: Tensor;
      };
    });
  }

  /** A zero-filled arena of its own, for gradients or for weights yet to be written. Free it through `arena`. */
  static allocate(device: Device, config: ModelConfig, label: string): Weights {
    return new Weights(device, config, device.alloc(parameterLayout(config).length, "f32", label));
  }
}
