/** The tensors of a GGUF file under Hugging Face's names and in Hugging Face's order of rows. */
import type { Tensor } from "../safetensors.ts";
import type { GgufFile } from "./file.ts";
import { ropeFactorsName } from "./rope-factors.ts";

const outside: Readonly<Record<string, string>> = {
  token_embd: "model.embed_tokens",
  output_norm: "model.norm",
  output: "lm_head",
};
const inLayer: Readonly<Record<string, string>> = {
  attn_norm: "input_layernorm",
  attn_q: "self_attn.q_proj",
  attn_k: "self_attn.k_proj",
  attn_v: "self_attn.v_proj",
  attn_output: "self_attn.o_proj",
  attn_q_norm: "self_attn.q_norm",
  attn_k_norm: "self_attn.k_norm",
  ffn_norm: "post_attention_layernorm",
  ffn_gate: "mlp.gate_proj",
  ffn_up: "mlp.up_proj",
  ffn_down: "mlp.down_proj",
};

/** Hugging Face's name; one that is not known stays, so that whoever compares names finds it. */
function huggingFaceName(name: string): string {
  const [, layer, role, kind] = /^(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)$/.exec(name) ?? [];
  if (role === undefined) return name;
  const names = layer === undefined ? outside : inLayer;
  if (!Object.hasOwn(names, role)) return name;
  return `${layer === undefined ? "" : `model.layers.${layer}.`}${names[role]}.${kind}`;
}

export class GgufTensors {
  readonly #gguf: GgufFile;
  /** ggml's name by Hugging Face's. */
  readonly #names: ReadonlyMap<string, string>;
  /** Heads of the tensors whose rows lie in another order. */
  readonly #heads: { q: number; k: number } | undefined;

  constructor(gguf: GgufFile) {
    const { metadata, tensors } = gguf.header;
    this.#gguf = gguf;
    // The factors of the rotary embedding are in the config.
    const names = [...tensors.keys()].filter((name) => name !== ropeFactorsName);
    this.#names = new Map(names.map((name) => [huggingFaceName(name), name]));
    if (metadata["general.architecture"] === "llama") {
      const q = Number(metadata["llama.attention.head_count"]);
      this.#heads = { q, k: Number(metadata["llama.attention.head_count_kv"] ?? q) };
    }
  }

  names(): string[] {
    return [...this.#names.keys()];
  }

  info(name: string): { dtype: string; shape: number[] } | undefined {
    const tensor = this.#gguf.header.tensors.get(this.#names.get(name) ?? "");
    return tensor && { dtype: tensor.type, shape: tensor.shape };
  }

  /** @throws AgentRLError MODEL_FILE */
  read(name: string): Tensor {
    const tensor = this.#gguf.read(this.#names.get(name) ?? name);
    const [, role] = /\.self_attn\.([qk])_proj\./.exec(name) ?? [];
    if (role === undefined || this.#heads === undefined) return tensor;
    const heads = this.#heads[role as "q" | "k"];
    return { shape: tensor.shape, data: splitPairs(tensor.data, tensor.shape[0]!, heads) };
  }

  close(): void {
    this.#gguf.close();
  }
}

/**
 * ggml's kernel for Llama turns neighbouring rows of a head as a pair, Hugging Face's turns row i with row i + headDim / 2: the
 * converter interleaved the two halves of each head, and here they are taken apart.
 */
function splitPairs(data: Float32Array, rows: number, heads: number): Float32Array {
  const width = data.length / rows;
  const headDim = rows / heads;
  const out = new Float32Array(data.length);
  for (let row = 0; row < rows; row++) {
    const inHead = row % headDim;
    const target = row - inHead + (inHead >> 1) + (inHead & 1) * (headDim / 2);
    out.set(data.subarray(row * width, (row + 1) * width), target * width);
  }
  return out;
}
