/**
 * Where each parameter lies in the one flat f32 arena that a model is: one arena is one slot of the weight board, one
 * checkpoint tensor, one call to AdamW. Matrices come first, norm weights and biases last, so that weight decay applies to a
 * prefix; every entry starts on a cache line. Linear weights lie [in, out], the transpose of Hugging Face's [out, in],
 * so that decoding (a few rows times a matrix) reads them in memory order.
 */
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "./config.ts";
import { families } from "./families.ts";

/** Entries start at multiples of 256 bytes, where any GPU can bind them; the padding stays zero. */
const ALIGNMENT = 64;

export interface ParameterEntry {
  /** Hugging Face's name of the tensor. */
  name: string;
  /** First element in the arena. */
  offset: number;
  length: number;
  /** Hugging Face's shape; [out, in] for a linear weight. */
  shape: number[];
  /** The arena holds the transpose of Hugging Face's matrix. */
  transposed: boolean;
  /** Takes weight decay. */
  decay: boolean;
}

export interface ParameterLayout {
  entries: ParameterEntry[];
  /** Elements of the arena, padding included. */
  length: number;
  /** Elements of the prefix that takes weight decay. */
  decayedLength: number;
}

/** A tensor in Hugging Face's layout. */
export interface HostTensor {
  shape: number[];
  data: Float32Array;
}

/** A layer's matrices, by the names that the passes know them by. */
export const linearRoles = ["q", "k", "v", "o", "gate", "up", "down"] as const;
export type LinearRole = (typeof linearRoles)[number];

/** Hugging Face's module of each, within a layer. */
export const linearModules: Readonly<Record<LinearRole, string>> = {
  q: "self_attn.q_proj",
  k: "self_attn.k_proj",
  v: "self_attn.v_proj",
  o: "self_attn.o_proj",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  down: "mlp.down_proj",
};

export function layerName(layer: number): string {
  return `model.layers.${layer}`;
}

/** Numbers that go into each of a layer's matrices for a row, and that come out. */
export function linearShape(config: ModelConfig, role: LinearRole): { inner: number; outer: number } {
  const { hiddenSize, intermediateSize, headDim } = config;
  const queryWidth = config.heads * headDim;
  const kvWidth = config.kvHeads * headDim;
  return {
    q: { inner: hiddenSize, outer: queryWidth },
    k: { inner: hiddenSize, outer: kvWidth },
    v: { inner: hiddenSize, outer: kvWidth },
    o: { inner: queryWidth, outer: hiddenSize },
    gate: { inner: hiddenSize, outer: intermediateSize },
    up: { inner: hiddenSize, outer: intermediateSize },
    down: { inner: intermediateSize, outer: hiddenSize },
  }[role];
}

/** Roles whose projection has a bias. */
export function biasedRoles({ family }: ModelConfig): readonly LinearRole[] {
  return families[family].attentionBias ? ["q", "k", "v"] : [];
}

export const parameterNames = {
  embedding: "model.embed_tokens.weight",
  head: "lm_head.weight",
  finalNorm: "model.norm.weight",
  weight: (layer: number, role: LinearRole) => `${layerName(layer)}.${linearModules[role]}.weight`,
  bias: (layer: number, role: LinearRole) => `${layerName(layer)}.${linearModules[role]}.bias`,
  norms(layer: number) {
    const prefix = layerName(layer);
    return {
      attentionNorm: `${prefix}.input_layernorm.weight`,
      mlpNorm: `${prefix}.post_attention_layernorm.weight`,
      qNorm: `${prefix}.self_attn.q_norm.weight`,
      kNorm: `${prefix}.self_attn.k_norm.weight`,
    };
  },
} as const;

/** Lays entries out one behind the other, each where a GPU can bind it. */
export class LayoutBuilder {
  readonly entries: ParameterEntry[] = [];
  /** Elements so far. */
  length = 0;

  place(name: string, shape: number[], { transposed, decay }: Pick<ParameterEntry, "transposed" | "decay">): void {
    const length = shape.reduce((a, b) => a * b, 1);
    this.entries.push({ name, offset: this.length, length, shape, transposed, decay });
    this.length += Math.ceil(length / ALIGNMENT) * ALIGNMENT;
  }

  /** A matrix that `rows x inner` is multiplied by. */
  linear(name: string, { inner, outer }: { inner: number; outer: number }): void {
    this.place(name, [outer, inner], { transposed: true, decay: true });
  }

  vector(name: string, length: number): void {
    this.place(name, [length], { transposed: false, decay: false });
  }
}

export function parameterLayout(config: ModelConfig): ParameterLayout {
  const { hiddenSize, vocabSize, layers, headDim, family } = config;
  const builder = new LayoutBuilder();
  builder.place(parameterNames.embedding, [vocabSize, hiddenSize], { transposed: false, decay: true });
  for (let layer = 0; layer < layers; layer++) {
    for (const role of linearRoles) builder.linear(parameterNames.weight(layer, role), linearShape(config, role));
  }
  if (!config.tieWordEmbeddings) builder.linear(parameterNames.head, { inner: hiddenSize, outer: vocabSize });
  const decayedLength = builder.length;
  for (let layer = 0; layer < layers; layer++) {
    const norms = parameterNames.norms(layer);
    builder.vector(norms.attentionNorm, hiddenSize);
    builder.vector(norms.mlpNorm, hiddenSize);
    for (const role of biasedRoles(config)) {
      builder.vector(parameterNames.bias(layer, role), linearShape(config, role).outer);
    }
    if (!families[family].qkNorm) continue;
    builder.vector(norms.qNorm, headDim);
    builder.vector(norms.kNorm, headDim);
  }
  builder.vector(parameterNames.finalNorm, hiddenSize);
  const { entries, length } = builder;
  return { entries, length, decayedLength };
}

/** Number of parameters, padding not counted. */
export function parameterCount(config: ModelConfig): number {
  return parameterLayout(config).entries.reduce((sum, entry) => sum + entry.length, 0);
}

/**
 * The arena of a layout from Hugging Face tensors; `get` is asked once for every name of it.
 * @param arena where it is put, of the layout's length; default: a new one.
 * @throws AgentRLError MODEL_FILE when a shape is not the layout's.
 */
export function packTensors(
  layout: ParameterLayout,
  get: (name: string) => HostTensor,
  arena: Float32Array = new Float32Array(layout.length),
): Float32Array {
  for (const entry of layout.entries) {
    const tensor = get(entry.name);
    if (tensor.shape.join() !== entry.shape.join() || tensor.data.length !== entry.length) {
      throw new AgentRLError("MODEL_FILE", "A weight tensor does not have the shape that config.json gives it.", {
        where: entry.name,
        got: { shape: tensor.shape, elements: tensor.data.length },
        expected: `shape [${entry.shape.join(", ")}]`,
        hint: "Use the config.json and the weights of one model.",
      });
    }
    const place = arena.subarray(entry.offset, entry.offset + entry.length);
    if (entry.transposed) transpose(tensor.data, place, entry.shape[0]!, entry.shape[1]!);
    else place.set(tensor.data);
  }
  return arena;
}

/**
 * The inverse of packTensors: copies in Hugging Face's layout, in the layout's order.
 * @throws AgentRLError MODEL_FILE when the arena is not of this model's length.
 */
export function unpackTensors(layout: ParameterLayout, arena: Float32Array): Map<string, HostTensor> {
  if (arena.length !== layout.length) {
    throw new AgentRLError("MODEL_FILE", "The weights do not belong to this model config.", {
      got: `${arena.length} elements`,
      expected: `${layout.length} elements`,
      hint: "Use the config.json that the weights were trained with.",
    });
  }
  const tensors = new Map<string, HostTensor>();
  for (const entry of layout.entries) {
    const place = arena.subarray(entry.offset, entry.offset + entry.length);
    const data = new Float32Array(entry.length);
    if (entry.transposed) transpose(place, data, entry.shape[1]!, entry.shape[0]!);
    else data.set(place);
    tensors.set(entry.name, { shape: [...entry.shape], data });
  }
  return tensors;
}

/** out [columns, rows] = from [rows, columns] transposed, in tiles that stay in the first-level cache. */
function transpose(from: Float32Array, out: Float32Array, rows: number, columns: number): void {
  const tile = 32;
  for (let row0 = 0; row0 < rows; row0 += tile) {
    const row1 = Math.min(row0 + tile, rows);
    for (let column0 = 0; column0 < columns; column0 += tile) {
      const column1 = Math.min(column0 + tile, columns);
      for (let row = row0; row < row1; row++) {
        for (let column = column0; column < column1; column++) {
          out[column * rows + row] = from[row * columns + column]!;
        }
      }
    }
  }
}
