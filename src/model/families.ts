/**
 * The families of decoders that the model here computes: all of them pre-norm RMSNorm, rotary grouped-query attention and
 * SwiGLU; what differs is told by a family's name alone, as in transformers.
 */

export type ModelFamily = "llama" | "qwen2" | "qwen3";

export interface FamilyTraits {
  /** transformers' class. */
  architecture: string;
  /** The projections of queries, keys and values have biases (Qwen2, Yang et al. 2024). */
  attentionBias: boolean;
  /** Queries and keys go through an RMSNorm of their own, head by head, before they are rotated (Qwen3, 2025). */
  qkNorm: boolean;
  /** Fields that can say otherwise, and the only value that is computed. */
  requires: Record<string, { value: unknown; why: string }>;
  /** transformers' defaults for what a config.json may leave out; head_dim's own, where it is not hidden / heads. */
  maxPositions: number;
  headDim?: number;
  /** num_key_value_heads has a default of its own there, which nobody means: it must be given. */
  kvHeads?: true;
}

const silu = { hidden_act: { value: "silu", why: "SwiGLU" } };
const wholeContext = {
  use_sliding_window: { value: false, why: "every layer attends to the whole context" },
};

export const families: Record<ModelFamily, FamilyTraits> = {
  llama: {
    architecture: "LlamaForCausalLM",
    attentionBias: false,
    qkNorm: false,
    requires: {
      ...silu,
      attention_bias: { value: false, why: "layers without biases" },
      mlp_bias: { value: false, why: "layers without biases" },
      pretraining_tp: { value: 1, why: "layers are not split" },
      rope_interleaved: { value: false, why: "rotary pairs lie half a head apart" },
    },
    maxPositions: 2048,
  },
  qwen2: {
    architecture: "Qwen2ForCausalLM",
    attentionBias: true,
    qkNorm: false,
    requires: { ...silu, ...wholeContext },
    maxPositions: 32768,
    kvHeads: true,
  },
  qwen3: {
    architecture: "Qwen3ForCausalLM",
    attentionBias: false,
    qkNorm: true,
    requires: { ...silu, ...wholeContext, attention_bias: { value: false, why: "layers without biases" } },
    maxPositions: 32768,
    headDim: 128,
    kvHeads: true,
  },
};

/** Fields that say what is computed, and are looked at. */
const obeyed = [
  "architectures model_type vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads",
  "num_key_value_heads head_dim hidden_act rope_theta rope_scaling rope_parameters partial_rotary_factor rms_norm_eps",
  "max_position_embeddings tie_word_embeddings bos_token_id eos_token_id attention_bias mlp_bias pretraining_tp",
  "rope_interleaved use_sliding_window layer_types quantization_config",
];

/**
 * Fields that change nothing here: about training elsewhere (dropout is 0 in what is trained here), about files, about other
 * programs, about generation (which the run's own config settles), or without effect while `use_sliding_window` is false.
 */
const ignored = [
  "attention_dropout initializer_range use_cache torch_dtype dtype transformers_version _name_or_path name_or_path",
  "pad_token_id unk_token_id sep_token_id is_llama_config transformers.js_config auto_map sliding_window",
  "max_window_layers _attn_implementation _attn_implementation_autoset attn_implementation unsloth_fixed unsloth_version",
  "id2label label2id problem_type task_specific_params tokenizer_class chunk_size_feed_forward output_attentions",
  "output_hidden_states return_dict max_length min_length do_sample num_beams num_return_sequences temperature top_k top_p",
  "typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size",
];

const known = new Set([...obeyed, ...ignored].join(" ").split(" "));

/** The first field that nobody here knows and that says something: null, false, 0 and empty lists say "off". */
export function unknownField(json: Readonly<Record<string, unknown>>): string | undefined {
  return Object.keys(json).find((field) => !known.has(field) && !isOff(json[field]));
}

function isOff(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length === 0;
  return value === null || value === false || value === 0 || value === "";
}
