/** config.json: what transformers writes is read, what is written is read back, and what is unsupported is named. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentRLError } from "../../src/errors.ts";
import { formatModelConfig, type ModelConfig, parseModelConfig, readModelConfig } from "../../src/model/config.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "config-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** Written by transformers 4.46's LlamaConfig (defaults left in). */
const transformers4 = {
  architectures: ["LlamaForCausalLM"],
  attention_bias: false,
  attention_dropout: 0.0,
  bos_token_id: 1,
  eos_token_id: 2,
  head_dim: 64,
  hidden_act: "silu",
  hidden_size: 576,
  initializer_range: 0.02,
  intermediate_size: 1536,
  max_position_embeddings: 8192,
  mlp_bias: false,
  model_type: "llama",
  num_attention_heads: 9,
  num_hidden_layers: 30,
  num_key_value_heads: 3,
  pretraining_tp: 1,
  rms_norm_eps: 1e-5,
  rope_scaling: null,
  rope_theta: 100000,
  tie_word_embeddings: true,
  torch_dtype: "bfloat16",
  use_cache: true,
  vocab_size: 49152,
};

const expected: ModelConfig = {
  vocabSize: 49152,
  hiddenSize: 576,
  intermediateSize: 1536,
  layers: 30,
  heads: 9,
  kvHeads: 3,
  headDim: 64,
  family: "llama" as const,
  ropeTheta: 100000,
  rmsNormEps: 1e-5,
  tieWordEmbeddings: true,
  maxPositions: 8192,
  bosTokenId: 1,
  eosTokenIds: [2],
};

test("reads what transformers 4 writes", () => {
  expect(parseModelConfig(transformers4)).toEqual(expected);
});

test("reads what transformers 5 writes: rope_parameters, dtype, a list of end tokens", () => {
  const { rope_theta, rope_scaling, torch_dtype, ...rest } = transformers4;
  const json = {
    ...rest,
    dtype: "bfloat16",
    eos_token_id: [2, 0],
    bos_token_id: null,
    rope_parameters: { rope_type: "default", rope_theta },
  };
  const { bosTokenId, ...others } = expected;
  expect(parseModelConfig(json)).toEqual({ ...others, eosTokenIds: [2, 0] });
});

test("reads the families: what differs between them is in the name, and in rope_scaling", () => {
  const { architectures, attention_bias, mlp_bias, pretraining_tp, head_dim, ...rest } = transformers4;
  const qwen2 = { ...rest, architectures: ["Qwen2ForCausalLM"], model_type: "qwen2", use_sliding_window: false };
  expect(parseModelConfig({ ...qwen2, sliding_window: 32768, max_window_layers: 28 })).toEqual({
    ...expected,
    family: "qwen2",
  });
  // Qwen3Config's head_dim does not follow from the width.
  expect(parseModelConfig({ ...rest, model_type: "qwen3" })).toEqual({ ...expected, family: "qwen3", headDim: 128 });
  // From the config.json of Llama 3.2 1B.
  const rope_scaling = {
    factor: 32.0,
    high_freq_factor: 4.0,
    low_freq_factor: 1.0,
    original_max_position_embeddings: 8192,
    rope_type: "llama3",
  };
  const ropeScaling = { factor: 32, highFreqFactor: 4, lowFreqFactor: 1, originalMaxPositions: 8192 };
  expect(parseModelConfig({ ...transformers4, rope_scaling })).toEqual({ ...expected, ropeScaling });
});

test("a family whose defaults nobody means must say how many key heads it has", () => {
  const { num_key_value_heads, architectures, attention_bias, ...rest } = transformers4;
  expect(() => parseModelConfig({ ...rest, model_type: "qwen2" })).toThrow(/"num_key_value_heads"/);
});

test("fields that a config may leave out take LlamaConfig's defaults", () => {
  const json = {
    model_type: "llama",
    vocab_size: 100,
    hidden_size: 32,
    intermediate_size: 64,
    num_hidden_layers: 1,
    num_attention_heads: 4,
  };
  expect(parseModelConfig(json)).toEqual({
    vocabSize: 100,
    hiddenSize: 32,
    intermediateSize: 64,
    layers: 1,
    heads: 4,
    kvHeads: 4,
    headDim: 8,
    family: "llama" as const,
    ropeTheta: 10000,
    rmsNormEps: 1e-6,
    tieWordEmbeddings: false,
    maxPositions: 2048,
    eosTokenIds: [],
  });
});

test("parse inverts format, for any config", () => {
  const size = fc.integer({ min: 1, max: 1 << 20 });
  const config = fc
    .record({
      vocabSize: size,
      hiddenSize: size,
      intermediateSize: size,
      layers: size,
      kvHeads: fc.integer({ min: 1, max: 64 }),
      group: fc.integer({ min: 1, max: 16 }),
      halfHead: fc.integer({ min: 1, max: 128 }),
      ropeTheta: fc.double({ min: 1, max: 1e7, noNaN: true }),
      rmsNormEps: fc.double({ min: 1e-8, max: 1e-3, noNaN: true }),
      tieWordEmbeddings: fc.boolean(),
      maxPositions: size,
      family: fc.constantFrom("llama" as const, "qwen2" as const, "qwen3" as const),
      bos: fc.option(fc.nat(), { nil: undefined }),
      eos: fc.array(fc.nat(), { maxLength: 3 }),
    })
    .map(
      ({ group, halfHead, bos, eos, ...rest }): ModelConfig => ({
        ...rest,
        heads: rest.kvHeads * group,
        headDim: 2 * halfHead,
        eosTokenIds: eos.map((id) => id % rest.vocabSize),
        ...(bos === undefined ? {} : { bosTokenId: bos % rest.vocabSize }),
      }),
    );
  fc.assert(
    fc.property(config, (value) => {
      expect(parseModelConfig(JSON.parse(JSON.stringify(formatModelConfig(value))))).toEqual(value);
    }),
  );
});

test.each([
  ["model_type", "mistral", /"model_type"[\s\S]*mistral[\s\S]*llama, qwen2, qwen3/],
  ["logit_scale", 0.5, /"logit_scale"[\s\S]*0.5/],
  ["architectures", ["LlamaForSequenceClassification"], /"architectures"[\s\S]*LlamaForCausalLM/],
  ["attention_bias", true, /"attention_bias"[\s\S]*true[\s\S]*without biases/],
  ["mlp_bias", true, /"mlp_bias"/],
  ["rope_scaling", { rope_type: "llama3", factor: 8 }, /"rope_scaling.low_freq_factor"[\s\S]*positive/],
  ["rope_scaling", { rope_type: "yarn", factor: 8 }, /"rope_scaling"[\s\S]*yarn[\s\S]*llama3/],
  ["rope_scaling", { type: "linear", factor: 2 }, /"rope_scaling"[\s\S]*linear/],
  ["rope_parameters", { rope_type: "yarn", rope_theta: 1 }, /"rope_parameters"[\s\S]*yarn/],
  ["hidden_act", "gelu", /"hidden_act"[\s\S]*gelu[\s\S]*silu/],
  ["quantization_config", { bits: 4 }, /"quantization_config"/],
  ["num_key_value_heads", 4, /"num_key_value_heads"[\s\S]*4[\s\S]*divisor of num_attention_heads = 9/],
  ["head_dim", 63, /"head_dim"[\s\S]*even/],
  ["hidden_size", 2.5, /"hidden_size"[\s\S]*2\.5[\s\S]*integer/],
  ["vocab_size", undefined, /"vocab_size"[\s\S]*integer of at least 1/],
  ["eos_token_id", 49152, /"eos_token_id"[\s\S]*0 to 49151/],
  ["bos_token_id", -1, /"bos_token_id"/],
  ["rope_theta", 0, /"rope_theta"[\s\S]*positive/],
  ["tie_word_embeddings", "yes", /"tie_word_embeddings"/],
])("%s = %j is an error that names the field and what is supported", (field, value, message) => {
  let error: unknown;
  try {
    parseModelConfig({ ...transformers4, [field]: value }, "some/config.json");
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(AgentRLError);
  expect((error as AgentRLError).code).toBe("MODEL_FILE");
  expect((error as AgentRLError).message).toMatch(message);
  expect((error as AgentRLError).message).toContain("some/config.json");
});

test("a missing file and a file that is not JSON name the file", async () => {
  const file = path.join(folder, "config.json");
  expect(() => readModelConfig(file)).toThrow(/config\.json[\s\S]*ENOENT/);
  await writeFile(file, '{"model_type": "lla');
  expect(() => readModelConfig(file)).toThrow(/not valid JSON/);
});
