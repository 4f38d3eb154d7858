/**
 * The shape of a Llama-family decoder, read from and written to Hugging Face's config.json (LlamaForCausalLM). A field
 * that would change the computation in a way the model here does not implement is an error that names it: a config
 * that is only half obeyed gives a finite loss and a wrong model.
 */
import { readFileSync } from "node:fs";
import { AgentRLError } from "../errors.ts";

export interface ModelConfig {
  vocabSize: number;
  hiddenSize: number;
  intermediateSize: number;
  layers: number;
  /** Query heads. */
  heads: number;
  /** Key/value heads; divides `heads` (grouped-query attention). */
  kvHeads: number;
  headDim: number;
  ropeTheta: number;
  rmsNormEps: number;
  /** The output head is the transposed embedding table. */
  tieWordEmbeddings: boolean;
  maxPositions: number;
  bosTokenId?: number;
  /** Ids that end a turn; config.json holds one id or a list. */
  eosTokenIds: number[];
}

/** transformers' LlamaConfig defaults, for fields that a config.json may leave out. */
const llamaDefaults = { ropeTheta: 10000, rmsNormEps: 1e-6, maxPositions: 2048 };

/** @throws AgentRLError MODEL_FILE naming the file and the field. */
export function readModelConfig(file: string): ModelConfig {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    throw new AgentRLError("MODEL_FILE", "The model's config.json cannot be read.", {
      where: file,
      got: (cause as Error).message,
      expected: "a readable Hugging Face config.json",
      hint: "Check that the model folder's path is right and that the download is complete.",
      cause,
    });
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new AgentRLError("MODEL_FILE", "The model's config.json is not valid JSON.", {
      where: file,
      got: (cause as Error).message,
      expected: "one JSON object",
      hint: "Fetch the file again: it is truncated or was edited by hand.",
      cause,
    });
  }
  return parseModelConfig(json, file);
}

/** `where` names the source in error messages. */
export function parseModelConfig(json: unknown, where = "config.json"): ModelConfig {
  if (!isRecord(json)) {
    throw new AgentRLError("MODEL_FILE", "The model's config.json is not a JSON object.", {
      where,
      got: json,
      expected: "an object with the fields of LlamaConfig",
      hint: "Use the config.json that came with the model.",
    });
  }
  const fail = (field: string, expected: string, hint: string): never => {
    throw new AgentRLError("MODEL_FILE", `config.json field "${field}" is missing, malformed or not supported.`, {
      where: `${where}: ${field}`,
      got: json[field],
      expected,
      hint,
    });
  };
  const useLlama = "Use a model of the Llama family (LlamaForCausalLM), for example models/tiny.";

  const given = (field: string): unknown => (json[field] === null ? undefined : json[field]);
  const integer = (field: string, fallback?: number, minimum = 1): number => {
    const value = given(field) ?? fallback;
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < minimum) {
      return fail(field, `an integer of at least ${minimum}`, "Use the config.json that came with the model.");
    }
    return value;
  };
  const positive = (field: string, value: unknown): number => {
    if (typeof value !== "number" || !Number.isFinite(value) || value <= 0) {
      return fail(field, "a positive number", "Use the config.json that came with the model.");
    }
    return value;
  };

  if (json.model_type !== "llama") fail("model_type", '"llama"', useLlama);
  const architectures = given("architectures");
  if (architectures !== undefined && !(Array.isArray(architectures) && architectures.includes("LlamaForCausalLM"))) {
    fail("architectures", 'a list with "LlamaForCausalLM"', useLlama);
  }
  for (const field of ["attention_bias", "mlp_bias"]) {
    if (given(field) !== undefined && json[field] !== false) fail(field, "false: layers without biases", useLlama);
  }
  if ((given("hidden_act") ?? "silu") !== "silu") fail("hidden_act", '"silu" (SwiGLU)', useLlama);
  if ((given("pretraining_tp") ?? 1) !== 1) fail("pretraining_tp", "1", useLlama);
  if (given("quantization_config") !== undefined) {
    fail("quantization_config", "no quantization: F32, F16 or BF16 tensors", "Use the unquantized model.");
  }

  // transformers 4 writes rope_theta and rope_scaling; transformers 5 writes both into rope_parameters.
  let ropeTheta: unknown = given("rope_theta");
  for (const field of ["rope_scaling", "rope_parameters"]) {
    const rope = given(field);
    if (rope === undefined) continue;
    const supported = 'null, or {"rope_type": "default"}: plain rotary embedding over the whole head';
    const hint = "Use a model whose positions are not rescaled.";
    if (!isRecord(rope)) return fail(field, supported, hint);
    const type = rope.rope_type ?? rope.type ?? "default";
    if (type !== "default") fail(field, supported, hint);
    if ((rope.partial_rotary_factor ?? 1) !== 1) fail(field, supported, hint);
    ropeTheta = rope.rope_theta ?? ropeTheta;
  }
  if ((given("partial_rotary_factor") ?? 1) !== 1) fail("partial_rotary_factor", "1", useLlama);

  const hiddenSize = integer("hidden_size");
  const heads = integer("num_attention_heads");
  const kvHeads = integer("num_key_value_heads", heads);
  if (heads % kvHeads !== 0) {
    fail("num_key_value_heads", `a divisor of num_attention_heads = ${heads}`, "Use the model's own config.json.");
  }
  if (given("head_dim") === undefined && hiddenSize % heads !== 0) {
    fail("hidden_size", `a multiple of num_attention_heads = ${heads}`, 'Add "head_dim" to the config.');
  }
  const headDim = integer("head_dim", hiddenSize / heads);
  if (headDim % 2 !== 0) fail("head_dim", "an even number: rotary embedding turns pairs", useLlama);

  const vocabSize = integer("vocab_size");
  const tie = given("tie_word_embeddings") ?? false;
  if (typeof tie !== "boolean") fail("tie_word_embeddings", "true or false", "Use the model's own config.json.");

  const eos = given("eos_token_id");
  const eosTokenIds = eos === undefined ? [] : Array.isArray(eos) ? (eos as unknown[]) : [eos];
  if (!eosTokenIds.every((id) => isTokenId(id, vocabSize))) {
    fail("eos_token_id", `token ids from 0 to ${vocabSize - 1}`, "Use the config.json that came with the model.");
  }
  const bos = given("bos_token_id");
  if (bos !== undefined && !isTokenId(bos, vocabSize)) {
    fail("bos_token_id", `a token id from 0 to ${vocabSize - 1}`, "Use the config.json that came with the model.");
  }

  return {
    vocabSize,
    hiddenSize,
    intermediateSize: integer("intermediate_size"),
    layers: integer("num_hidden_layers"),
    heads,
    kvHeads,
    headDim,
    ropeTheta: positive("rope_theta", ropeTheta ?? llamaDefaults.ropeTheta),
    rmsNormEps: positive("rms_norm_eps", given("rms_norm_eps") ?? llamaDefaults.rmsNormEps),
    tieWordEmbeddings: tie as boolean,
    maxPositions: integer("max_position_embeddings", llamaDefaults.maxPositions),
    ...(bos === undefined ? {} : { bosTokenId: bos as number }),
    eosTokenIds: eosTokenIds as number[],
  };
}

/** The config.json of `config`, complete enough for transformers' LlamaForCausalLM; parseModelConfig inverts it. */
export function formatModelConfig(config: ModelConfig): Record<string, unknown> {
  const { eosTokenIds } = config;
  return {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    vocab_size: config.vocabSize,
    hidden_size: config.hiddenSize,
    intermediate_size: config.intermediateSize,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headDim,
    hidden_act: "silu",
    rope_theta: config.ropeTheta,
    rope_scaling: null,
    rms_norm_eps: config.rmsNormEps,
    max_position_embeddings: config.maxPositions,
    tie_word_embeddings: config.tieWordEmbeddings,
    attention_bias: false,
    attention_dropout: 0,
    mlp_bias: false,
    pretraining_tp: 1,
    initializer_range: 0.02,
    bos_token_id: config.bosTokenId ?? null,
    eos_token_id: eosTokenIds.length === 0 ? null : eosTokenIds.length === 1 ? eosTokenIds[0] : eosTokenIds,
    torch_dtype: "float32",
    use_cache: true,
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isTokenId(value: unknown, vocabSize: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < vocabSize;
}
