/**
 * What a run trains: all parameters of a model, or adapters on a frozen one. Either is one flat arena, which the weight
 * board, the optimizer and the checkpoints know nothing else of.
 */
import type { Device, Tensor } from "../device/device.ts";
import type { ModelConfig } from "./config.ts";
import { adapterLayout, adaptersOf, type LoraShape, loraScale } from "./lora.ts";
import { linearRoles, type ParameterLayout, parameterLayout } from "./parameters.ts";
import { type Arena, type ComputeWeights, type Gradients, type LayerGradients, Weights } from "./weights.ts";

export interface TrainedShape {
  readonly config: ModelConfig;
  /** Null: every parameter is trained. */
  readonly lora: LoraShape | null;
}

export function trainedLayout({ config, lora }: TrainedShape): ParameterLayout {
  return lora === null ? parameterLayout(config) : adapterLayout(config, lora);
}

/** Gradients in an arena of their own. */
export interface GradientArena extends Arena, Gradients {}

export function allocateGradients(device: Device, shape: TrainedShape, label: string): GradientArena {
  const { config, lora } = shape;
  if (lora === null) return Weights.allocate(device, config, label);
  const layout = trainedLayout(shape);
  const arena = device.alloc(layout.length, "f32", label);
  const layers = adaptersOf(device, config, lora, arena).map((adapters): LayerGradients => {
    return Object.fromEntries(lora.targets.map((role) => [role, { adapter: adapters[role]! }]));
  });
  return { layout, arena, layers };
}

/** The frozen weights with the adapters of an arena, sharing the memory of both. */
export function withAdapters(
  device: Device,
  config: ModelConfig,
  base: ComputeWeights,
  { lora, arena }: { lora: LoraShape; arena: Tensor },
): ComputeWeights {
  const { rank } = lora;
  const scale = loraScale(lora);
  const adapters = adaptersOf(device, config, lora, arena);
  const layers = base.layers.map((layer, i) => {
    const adapted = linearRoles.map((role) => {
      const adapter = adapters[i]![role];
      return [role, adapter === undefined ? layer[role] : { ...layer[role], adapter: { ...adapter, rank, scale } }];
    });
    return { ...layer, ...Object.fromEntries(adapted) };
  });
  return { ...base, layers };
}
