/**
 * Where each parameter lies in the one flat f32 arena that a model is: one arena is one slot of the weight board, one
 * checkpoint tensor, one call to AdamW. Matrices come first and norm weights last, so that weight decay applies to a
 * prefix; every entry starts on a cache line. Linear weights lie [in, out], the transpose of Hugging Face's [out, in],
 * so that decoding (a few rows times a matrix) reads them in memory order.
 */
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "./config.ts";

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

export const parameterNames = {
  embedding: "model.embed_tokens.weight",
  head: "lm_head.weight",
  finalNorm: "model.norm.weight",
  layer(layer: number) {
    const prefix = `model.layers.${layer}`;
    return {
      q: `${prefix}.self_attn.q_proj.weight`,
      k: `${prefix}.self_attn.k_proj.weight`,
      v: `${prefix}.self_attn.v_proj.weight`,
      o: `${prefix}.self_attn.o_proj.weight`,
      gate: `${prefix}.mlp.gate_proj.weight`,
      up: `${prefix}.mlp.up_proj.weight`,
      down: `${prefix}.mlp.down_proj.weight`,
      attentionNorm: `${prefix}.input_layernorm.weight`,
      mlpNorm: `${prefix}.post_attention_layernorm.weight`,
    };
  },
} as const;

export function parameterLayout(config: ModelConfig): ParameterLayout {
  const { hiddenSize, intermediateSize, vocabSize, layers } = config;
  const queryWidth = config.heads * config.headDim;
  const kvWidth = config.kvHeads * config.headDim;

  const entries: ParameterEntry[] = [];
  let offset = 0;
  const place = (name: string, shape: number[], transposed: boolean, decay: boolean): void => {
    const length = shape.reduce((a, b) => a * b, 1);
    entries.push({ name, offset, length, shape, transposed, decay });
    offset += Math.ceil(length / ALIGNMENT) * ALIGNMENT;
  };
  const linear = (name: string, out: number, inner: number): void => place(name, [out, inner], true, true);

  place(parameterNames.embedding, [vocabSize, hiddenSize], false, true);
  for (let layer = 0; layer < layers; layer++) {
    const names = parameterNames.layer(layer);
    linear(names.q, queryWidth, hiddenSize);
    linear(names.k, kvWidth, hiddenSize);
    linear(names.v, kvWidth, hiddenSize);
    linear(names.o, hiddenSize, queryWidth);
    linear(names.gate, intermediateSize, hiddenSize);
    linear(names.up, intermediateSize, hiddenSize);
    linear(names.down, hiddenSize, intermediateSize);
  }
  if (!config.tieWordEmbeddings) linear(parameterNames.head, vocabSize, hiddenSize);
  const decayedLength = offset;
  for (let layer = 0; layer < layers; layer++) {
    const names = parameterNames.layer(layer);
    place(names.attentionNorm, [hiddenSize], false, false);
    place(names.mlpNorm, [hiddenSize], false, false);
  }
  place(parameterNames.finalNorm, [hiddenSize], false, false);
  return { entries, length: offset, decayedLength };
}

/** Number of parameters, padding not counted. */
export function parameterCount(config: ModelConfig): number {
  return parameterLayout(config).entries.reduce((sum, entry) => sum + entry.length, 0);
}

/**
 * The arena of a model from Hugging Face tensors; `get` is asked once for every name of the layout.
 * @throws AgentRLError MODEL_FILE when a shape is not the config's.
 */
export function packTensors(config: ModelConfig, get: (name: string) => HostTensor): Float32Array {
  const layout = parameterLayout(config);
  const arena = new Float32Array(layout.length);
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
export function unpackTensors(config: ModelConfig, arena: Float32Array): Map<string, HostTensor> {
  const layout = parameterLayout(config);
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
