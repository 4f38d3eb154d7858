/**
 * The shape of a decoder, read from and written to Hugging Face's config.json. A field that would change the computation
 * in a way the model here does not implement is an error that names it, and so is one that nobody here knows: a config
 * that is only half obeyed gives a finite loss and a wrong model.
 */
import { readFileSync } from "node:fs";
import { AgentRLError } from "../errors.ts";
import { families, type ModelFamily, unknownField } from "./families.ts";
import { formatRope, parseRope, type RopeScaling } from "./rope-config.ts";

export interface ModelConfig {
  family: ModelFamily;
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
  /** Absent: positions as they are. */
  ropeScaling?: RopeScaling;
  rmsNormEps: number;
  /** The output head is the transposed embedding table. */
  tieWordEmbeddings: boolean;
  maxPositions: number;
  bosTokenId?: number;
  /** Ids that end a turn; config.json holds one id or a list. */
  eosTokenIds: number[];
}

/** What transformers takes for fields that a config.json may leave out, in every family. */
const defaults = { ropeTheta: 10000, rmsNormEps: 1e-6 };

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
      got: field.split(".").reduce<unknown>((value, key) => (isRecord(value) ? value[key] : undefined), json),
      expected,
      hint,
    });
  };
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

  const names = Object.keys(families);
  const useSupported = `Use a model of one of these families: ${names.join(", ")}.`;
  if (typeof json.model_type !== "string" || !Object.hasOwn(families, json.model_type)) {
    fail("model_type", `one of ${names.join(", ")}`, useSupported);
  }
  const family = json.model_type as ModelFamily;
  const { architecture, requires, maxPositions, kvHeads: sharesKeys, headDim: ownHeadDim } = families[family];
  const architectures = given("architectures");
  if (architectures !== undefined && !(Array.isArray(architectures) && architectures.includes(architecture))) {
    fail("architectures", `a list with "${architecture}"`, useSupported);
  }
  for (const [field, { value, why }] of Object.entries(requires)) {
    if (given(field) !== undefined && json[field] !== value)
      fail(field, `${JSON.stringify(value)}: ${why}`, useSupported);
  }
  if (given("quantization_config") !== undefined) {
    fail("quantization_config", "no quantization: F32, F16 or BF16 tensors", "Use the unquantized model.");
  }
  const layerTypes = given("layer_types");
  if (
    layerTypes !== undefined &&
    !(Array.isArray(layerTypes) && layerTypes.every((type) => type === "full_attention"))
  ) {
    fail("layer_types", '"full_attention" for every layer', useSupported);
  }
  const unknown = unknownField(json);
  if (unknown !== undefined) {
    fail(unknown, "only fields that the model here is known to obey, or to be free to ignore", useSupported);
  }
  const rope = parseRope(json, (field, expected) =>
    fail(field, expected, "Use a model whose positions are not rescaled otherwise."),
  );

  const hiddenSize = integer("hidden_size");
  const heads = integer("num_attention_heads");
  const kvHeads = integer("num_key_value_heads", sharesKeys ? undefined : heads);
  if (heads % kvHeads !== 0) {
    fail("num_key_value_heads", `a divisor of num_attention_heads = ${heads}`, "Use the model's own config.json.");
  }
  if (given("head_dim") === undefined && ownHeadDim === undefined && hiddenSize % heads !== 0) {
    fail("hidden_size", `a multiple of num_attention_heads = ${heads}`, 'Add "head_dim" to the config.');
  }
  const headDim = integer("head_dim", ownHeadDim ?? hiddenSize / heads);
  if (headDim % 2 !== 0) fail("head_dim", "an even number: rotary embedding turns pairs", useSupported);

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
    family,
    vocabSize,
    hiddenSize,
    intermediateSize: integer("intermediate_size"),
    layers: integer("num_hidden_layers"),
    heads,
    kvHeads,
    headDim,
    ropeTheta: positive("rope_theta", rope.theta ?? defaults.ropeTheta),
    ...(rope.scaling && { ropeScaling: rope.scaling }),
    rmsNormEps: positive("rms_norm_eps", given("rms_norm_eps") ?? defaults.rmsNormEps),
    tieWordEmbeddings: tie as boolean,
    maxPositions: integer("max_position_embeddings", maxPositions),
    ...(bos === undefined ? {} : { bosTokenId: bos as number }),
    eosTokenIds: eosTokenIds as number[],
  };
}

/** The config.json of `config`, complete enough for transformers; parseModelConfig inverts it. */
export function formatModelConfig(config: ModelConfig): Record<string, unknown> {
  const { eosTokenIds, family } = config;
  const { architecture, requires } = families[family];
  return {
    architectures: [architecture],
    model_type: family,
    vocab_size: config.vocabSize,
    hidden_size: config.hiddenSize,
    intermediate_size: config.intermediateSize,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headDim,
    ...formatRope(config),
    rms_norm_eps: config.rmsNormEps,
    max_position_embeddings: config.maxPositions,
    tie_word_embeddings: config.tieWordEmbeddings,
    ...Object.fromEntries(Object.entries(requires).map(([field, { value }]) => [field, value])),
    attention_dropout: 0,
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
