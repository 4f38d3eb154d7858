/**
 * The config.json of a GGUF file's model. As with a config.json, what would change the computation in a way that is not
 * understood is an error that names the key.
 */
import { ggufError } from "./errors.ts";
import type { GgufFile } from "./file.ts";
import { llama3Scaling, ropeFactorsName } from "./rope-factors.ts";

/** By ggml's name of the architecture. */
const architectures: Readonly<Record<string, { modelType: string; className: string }>> = {
  llama: { modelType: "llama", className: "LlamaForCausalLM" },
  qwen2: { modelType: "qwen2", className: "Qwen2ForCausalLM" },
  qwen3: { modelType: "qwen3", className: "Qwen3ForCausalLM" },
};

/** Keys below the architecture's that are read here, or say nothing about the computation. */
const knownKeys = new Set([
  "attention.head_count",
  "attention.head_count_kv",
  "attention.key_length",
  "attention.layer_norm_rms_epsilon",
  "attention.value_length",
  "block_count",
  "context_length",
  "embedding_length",
  "feed_forward_length",
  "rope.dimension_count",
  "rope.freq_base",
  "rope.scaling.factor",
  "rope.scaling.finetuned",
  "rope.scaling.original_context_length",
  "rope.scaling.type",
  "tensor_data_layout",
  "vocab_size",
]);

const defaultTheta = 10_000;

type Fail = (key: string, expected: string, hint?: string) => never;

/** transformers' LlamaConfig, Qwen2Config and Qwen3Config in JSON, for parseModelConfig. @throws AgentRLError MODEL_FILE */
export function ggufConfig(gguf: Pick<GgufFile, "header" | "read">): Record<string, unknown> {
  const { file, metadata, tensors } = gguf.header;
  const fail: Fail = (key, expected, hint = "Use a GGUF file that llama.cpp's converter wrote.") => {
    const what = `GGUF metadata "${key}" is missing, malformed or not supported.`;
    throw ggufError(`${file}: ${key}`, what, metadata[key] ?? "nothing", expected, hint);
  };
  const name = metadata["general.architecture"];
  const known = Object.keys(architectures).join(", ");
  if (typeof name !== "string" || !Object.hasOwn(architectures, name)) {
    return fail("general.architecture", `one of ${known}`, "Use a model of one of these families.");
  }
  if (Number(metadata["split.count"] ?? 1) > 1) {
    fail(
      "split.count",
      "1: the whole model in one file",
      "Merge the parts with llama.cpp's `llama-gguf-split --merge`.",
    );
  }
  const { modelType, className } = architectures[name]!;
  for (const key of Object.keys(metadata)) {
    const own = key.startsWith(`${name}.`) ? key.slice(name.length + 1) : undefined;
    // A mixture of experts says so by their number, 0 in some files of models without.
    if (own === undefined || knownKeys.has(own) || (own.startsWith("expert") && metadata[key] === 0)) continue;
    fail(
      key,
      "no such key: the model computes in a way that is not known",
      "Use a model of one of the plain families.",
    );
  }

  const given = (key: string): unknown => metadata[`${name}.${key}`];
  const number = (key: string, fallback?: number): number => {
    const value = given(key) ?? fallback;
    if (typeof value === "number" && Number.isFinite(value) && value > 0) return shortest(value);
    return fail(`${name}.${key}`, "a positive number");
  };
  const embedding = tensors.get("token_embd.weight");
  if (embedding === undefined) return fail("general.architecture", 'a tensor "token_embd.weight"');
  const hiddenSize = number("embedding_length");
  const heads = number("attention.head_count");
  const headDim = number("attention.key_length", hiddenSize / heads);
  if (number("attention.value_length", headDim) !== headDim) {
    fail(`${name}.attention.value_length`, `${headDim}, as attention.key_length`);
  }
  const rotated = number("rope.dimension_count", headDim);
  const token = (key: string) => metadata[`tokenizer.ggml.${key}_token_id`];
  const ends = [...new Set([token("eos"), token("eot"), token("eom")].filter((id) => id !== undefined))];
  return {
    architectures: [className],
    model_type: modelType,
    vocab_size: embedding.shape[0],
    hidden_size: hiddenSize,
    intermediate_size: number("feed_forward_length"),
    num_hidden_layers: number("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: number("attention.head_count_kv", heads),
    head_dim: headDim,
    hidden_act: "silu",
    rms_norm_eps: number("attention.layer_norm_rms_epsilon"),
    rope_theta: number("rope.freq_base", defaultTheta),
    rope_scaling: ropeScaling(gguf, name, fail),
    ...(rotated !== headDim && { partial_rotary_factor: rotated / headDim }),
    max_position_embeddings: number("context_length"),
    tie_word_embeddings: !tensors.has("output.weight"),
    ...(modelType !== "qwen2" && { attention_bias: tensors.has("blk.0.attn_q.bias") }),
    ...(modelType === "llama" && { mlp_bias: tensors.has("blk.0.ffn_gate.bias") }),
    bos_token_id: token("bos") ?? null,
    eos_token_id: ends.length === 0 ? null : ends.length === 1 ? ends[0] : ends,
  };
}

function ropeScaling(
  gguf: Pick<GgufFile, "header" | "read">,
  name: string,
  fail: Fail,
): Record<string, unknown> | null {
  const { metadata, tensors } = gguf.header;
  const type = metadata[`${name}.rope.scaling.type`] ?? "none";
  if (tensors.has(ropeFactorsName)) {
    if (type !== "none") fail(`${name}.rope.scaling.type`, `none beside a tensor "${ropeFactorsName}"`);
    return llama3Scaling(gguf, Number(metadata[`${name}.rope.freq_base`] ?? defaultTheta));
  }
  if (type === "none") return null;
  const factor = metadata[`${name}.rope.scaling.factor`];
  return { rope_type: type, factor: typeof factor === "number" ? shortest(factor) : factor };
}

/** The shortest decimal number that is this float32, as 1e-5 is of 9.999999747378752e-6: what the converter read. */
function shortest(value: number): number {
  if (Number.isInteger(value)) return value;
  for (let digits = 1; digits < 9; digits++) {
    const candidate = Number(value.toPrecision(digits));
    if (Math.fround(candidate) === Math.fround(value)) return candidate;
  }
  return value;
}
