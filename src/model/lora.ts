/**
 * Low-rank adapters (LoRA, Hu et al. 2021, equation 3): beside a frozen matrix W [in, out] stand two that are trained,
 *
 *     y = x W + (alpha / rank) (x A) B,        A [in, rank], B [rank, out]
 *
 * B begins at 0, so the adapted model begins as the frozen one. They are kept apart from W and never added into it while
 * training: what a 16-bit W would round away is not lost, and one W serves every version. Names and shapes of files are
 * PEFT's.
 */
import type { Device, Tensor } from "../device/device.ts";
import type { ModelConfig } from "./config.ts";
import { uniformGenerator } from "./init.ts";
import {
  LayoutBuilder,
  type LinearRole,
  layerName,
  linearModules,
  linearShape,
  type ParameterLayout,
} from "./parameters.ts";

export interface LoraShape {
  rank: number;
  alpha: number;
  /** Matrices of every layer that have adapters. */
  targets: readonly LinearRole[];
}

/** One matrix's adapter. */
export interface Adapter {
  /** [in, rank] */
  readonly a: Tensor;
  /** [rank, out] */
  readonly b: Tensor;
}

export type LayerAdapters = { readonly [role in LinearRole]?: Adapter };

/** Names in the layout: those of PEFT's file without their prefix. */
export function adapterNames(layer: number, role: LinearRole): { a: string; b: string } {
  const module = `${layerName(layer)}.${linearModules[role]}`;
  return { a: `${module}.lora_A.weight`, b: `${module}.lora_B.weight` };
}

export function adapterLayout(config: ModelConfig, { rank, targets }: LoraShape): ParameterLayout {
  const builder = new LayoutBuilder();
  for (let layer = 0; layer < config.layers; layer++) {
    for (const role of targets) {
      const names = adapterNames(layer, role);
      const { inner, outer } = linearShape(config, role);
      builder.linear(names.a, { inner, outer: rank });
      builder.linear(names.b, { inner: rank, outer });
    }
  }
  const { entries, length } = builder;
  return { entries, length, decayedLength: length };
}

/** The arena to begin with: A uniform within 1 / sqrt(in), as PEFT's Kaiming initialisation comes to, and B 0. */
export function initAdapters(config: ModelConfig, lora: LoraShape, seed: number): Float32Array {
  const layout = adapterLayout(config, lora);
  const arena = new Float32Array(layout.length);
  const uniform = uniformGenerator(seed);
  for (const { name, offset, length, shape } of layout.entries) {
    if (!name.endsWith("lora_A.weight")) continue;
    const bound = 1 / Math.sqrt(shape[1]!);
    for (let i = offset; i < offset + length; i++) arena[i] = (2 * uniform() - 1) * bound;
  }
  return arena;
}

/** Views of an arena of adapters, layer by layer. */
export function adaptersOf(device: Device, config: ModelConfig, lora: LoraShape, arena: Tensor): LayerAdapters[] {
  const entries = new Map(adapterLayout(config, lora).entries.map((entry) => [entry.name, entry]));
  const view = (name: string) => {
    const { offset, length } = entries.get(name)!;
    return device.view(arena, offset, length);
  };
  return Array.from({ length: config.layers }, (_, layer) => {
    return Object.fromEntries(
      lora.targets.map((role) => {
        const { a, b } = adapterNames(layer, role);
        return [role, { a: view(a), b: view(b) }];
      }),
    );
  });
}

/** What (x A) B is multiplied by. */
export function loraScale({ rank, alpha }: LoraShape): number {
  return alpha / rank;
}
