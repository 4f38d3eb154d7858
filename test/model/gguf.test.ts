/** GGUF files, against Python's gguf, transformers and tokenizers (scripts/golden/make-gguf.py), and damaged ones. */
import { createHash } from "node:crypto";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AgentRLError } from "../../src/errors.ts";
import { loadModelFolder, loadModelText, saveModelFolder } from "../../src/model/files.ts";
import { modelFingerprint } from "../../src/model/fingerprint.ts";
import { ggufConfig } from "../../src/model/gguf/config.ts";
import type { GgufTensor } from "../../src/model/gguf/header.ts";
import { tensorTypes } from "../../src/model/gguf/tensor-types.ts";
import { ggufTokenizer } from "../../src/model/gguf/tokenizer.ts";
import { Tokenizer } from "../../src/text/tokenizer.ts";

const golden = join(import.meta.dirname, "../golden/gguf");
const tiny = join(golden, "llama.gguf");
const readGolden = (name: string) => JSON.parse(readFileSync(join(golden, name), "utf8"));

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gguf-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function errorOf(action: () => unknown): AgentRLError {
  try {
    action();
  } catch (error) {
    if (error instanceof AgentRLError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("tensor types", () => {
  const types = readGolden("types.json") as Record<string, { raw: string; values: string }>;

  it.each(Object.keys(tensorTypes))("%s is what gguf.quants.dequantize gives, to the bit", (name) => {
    const { raw, values } = types[name]!;
    const bytes = Uint8Array.from(Buffer.from(raw, "base64"));
    const expected = new Float32Array(Uint8Array.from(Buffer.from(values, "base64")).buffer);
    const { block, bytes: size, decode } = tensorTypes[name]!;
    expect((bytes.length / size) * block).toBe(expected.length);
    const got = new Float32Array(expected.length);
    decode(bytes, got);
    expect(got).toEqual(expected);
  });
});

describe("a whole model", () => {
  const families = readGolden("models.json");

  it.each(Object.keys(families))("of %s has the config, tensors and token ids that it was made of", (family) => {
    const { config, tensors, tokenizer, template } = loadModelFolder(join(golden, `${family}.gguf`));
    const expected = families[family];
    const { config: original } = expected;
    expect(config).toEqual({
      family: original.model_type,
      vocabSize: original.vocab_size,
      hiddenSize: original.hidden_size,
      intermediateSize: original.intermediate_size,
      layers: original.num_hidden_layers,
      heads: original.num_attention_heads,
      kvHeads: original.num_key_value_heads,
      headDim: original.head_dim,
      ropeTheta: original.rope_theta,
      rmsNormEps: original.rms_norm_eps,
      tieWordEmbeddings: original.tie_word_embeddings,
      maxPositions: original.max_position_embeddings,
      bosTokenId: original.bos_token_id,
      eosTokenIds: [original.eos_token_id],
    });
    const hashes = tensors.names().map((name) => {
      const { shape, data } = tensors.read(name);
      return [name, { shape, sha256: createHash("sha256").update(new Uint8Array(data.buffer)).digest("hex") }];
    });
    tensors.close();
    expect(Object.fromEntries(hashes)).toEqual(expected.tensors);
    const prompt = "<|im_start|>user\nIt's 42 <tool_call><|im_end|>\n<|im_start|>assistant\n";
    expect([...tokenizer.encodeMarkup(prompt)]).toEqual(expected.prompt);
    const rendered = template.renderPrompt([{ role: "user", content: "It's 42 " }]);
    const [toolCall] = tokenizer.encodeMarkup("<tool_call>");
    expect([...rendered]).toEqual(expected.prompt.filter((id: number) => id !== toolCall));
  });

  it("comes back as it was from a model folder that it is saved to", () => {
    const model = loadModelFolder(tiny);
    const tensors = new Map(model.tensors.names().map((name) => [name, model.tensors.read(name)]));
    model.tensors.close();
    const saved = join(folder, "saved");
    saveModelFolder(saved, { ...model, tensors });
    const again = loadModelFolder(saved);
    expect(again.config).toEqual(model.config);
    for (const [name, tensor] of tensors) expect(again.tensors.read(name)).toEqual(tensor);
    again.tensors.close();
    expect(again.tokenizer.encode("It's 42\n\n  x")).toEqual(model.tokenizer.encode("It's 42\n\n  x"));
    expect(again.template.source).toBe(model.template.source);
  });

  it("may lie in a folder by itself, not with another", () => {
    const place = mkdtempSync(join(folder, "alone-"));
    cpSync(tiny, join(place, "a.gguf"));
    expect(loadModelText(place).config.layers).toBe(2);
    expect(modelFingerprint(place)).toBe(modelFingerprint(join(place, "a.gguf")));
    writeFileSync(join(place, "b.gguf"), "");
    expect(errorOf(() => loadModelText(place)).message).toMatch(/several GGUF files[\s\S]*a\.gguf, b\.gguf/);
  });
});

describe("a damaged file", () => {
  const bytes = readFileSync(tiny);
  const damaged = (change: (copy: Buffer) => Buffer) => {
    const file = join(folder, "damaged.gguf");
    writeFileSync(file, change(Buffer.from(bytes)));
    const error = errorOf(() => loadModelFolder(file));
    expect(error.code).toBe("MODEL_FILE");
    expect(error.detail.where).toContain(file);
    expect(error.detail.hint).toBeTruthy();
    return error;
  };

  it.each([0, 3, 20, 5_000, 12_000, bytes.length - 20_000, bytes.length - 1])("cut to %i bytes", (length) => {
    const error = damaged((copy) => copy.subarray(0, length));
    expect(error.message).toMatch(/truncated|header cannot be read/);
    if (length > 20_000) expect(error.message).toMatch(/is truncated\.[\s\S]*to the end of tensor "/);
  });

  it("that is something else", () => {
    expect(damaged(() => Buffer.from("PK\x03\x04 no model".repeat(9))).message).toMatch(/magic number/);
  });

  it("with a tensor of a type that cannot be read", () => {
    const name = "blk.1.ffn_up.weight";
    // Behind the name: number of dimensions, two dimensions, type. 10 is Q2_K.
    const at = bytes.indexOf(name) + name.length + 4 + 16;
    const error = damaged((copy) => {
      copy.writeUInt32LE(10, at);
      return copy;
    });
    expect(error.message).toMatch(/"blk\.1\.ffn_up\.weight" is of a type[\s\S]*Q2_K[\s\S]*Q4_K/);
  });

  it("with another tensor in place of one that the model needs", () => {
    const error = damaged((copy) =>
      Buffer.from(copy.toString("latin1").replace("blk.1.ffn_up", "blk.1.ffn_xx"), "latin1"),
    );
    expect(error.message).toMatch(/"model\.layers\.1\.mlp\.up_proj\.weight" is missing/);
  });

  it("with tensors that overlap", () => {
    const name = "blk.1.ffn_up.weight";
    const at = bytes.indexOf(name) + name.length + 4 + 16 + 4;
    const error = damaged((copy) => {
      copy.writeBigUInt64LE(0n, at);
      return copy;
    });
    expect(error.message).toMatch(/overlaps another/);
  });

  it("that is not there", () => {
    expect(errorOf(() => loadModelText(join(folder, "none.gguf"))).message).toMatch(/cannot be opened[\s\S]*ENOENT/);
  });
});

describe("config.json from metadata", () => {
  const tensor = (shape: number[]): GgufTensor => ({ type: "F32", shape, offset: 0, bytes: 0 });
  const config = (
    metadata: Record<string, unknown>,
    tensors: Record<string, number[]> = {},
    values = new Float32Array(0),
  ) =>
    ggufConfig({
      header: {
        file: "m.gguf",
        metadata,
        tensors: new Map(
          Object.entries({ "token_embd.weight": [100, 64], ...tensors }).map(([name, shape]) => [name, tensor(shape)]),
        ),
      },
      read: () => ({ shape: [values.length], data: values }),
    });
  const of = (architecture: string, more: Record<string, unknown> = {}) => ({
    "general.architecture": architecture,
    [`${architecture}.context_length`]: 4096,
    [`${architecture}.embedding_length`]: 64,
    [`${architecture}.block_count`]: 2,
    [`${architecture}.feed_forward_length`]: 128,
    [`${architecture}.attention.head_count`]: 4,
    [`${architecture}.attention.head_count_kv`]: 2,
    [`${architecture}.attention.layer_norm_rms_epsilon`]: Math.fround(1e-6),
    [`${architecture}.rope.freq_base`]: 1_000_000,
    "tokenizer.ggml.eos_token_id": 7,
    ...more,
  });

  it("of Qwen2 and Qwen3", () => {
    expect(config(of("qwen2"))).toMatchObject({
      model_type: "qwen2",
      architectures: ["Qwen2ForCausalLM"],
      vocab_size: 100,
      head_dim: 16,
      rms_norm_eps: 1e-6,
      rope_theta: 1_000_000,
      rope_scaling: null,
      tie_word_embeddings: true,
      eos_token_id: 7,
      bos_token_id: null,
    });
    const wide = of("qwen3", { "qwen3.attention.key_length": 32, "qwen3.attention.value_length": 32 });
    expect(config(wide, { "output.weight": [100, 64] })).toMatchObject({
      model_type: "qwen3",
      head_dim: 32,
      attention_bias: false,
      tie_word_embeddings: false,
    });
  });

  it("of Llama, with biases and with several end tokens", () => {
    const metadata = of("llama", { "tokenizer.ggml.eot_token_id": 9, "tokenizer.ggml.eom_token_id": 7 });
    expect(config(metadata, { "blk.0.attn_q.bias": [64] })).toMatchObject({
      attention_bias: true,
      mlp_bias: false,
      eos_token_id: [7, 9],
    });
  });

  it("of Llama 3, whose factors are transformers'", () => {
    const rope = readGolden("rope.json") as { theta: number; factor: number; factors: number[] }[];
    for (const { theta, factor, factors } of rope) {
      const metadata = of("llama", { "llama.rope.freq_base": theta });
      const given = Float32Array.from(factors);
      const tensors = { "rope_freqs.weight": [factors.length] };
      expect(config(metadata, tensors, given).rope_scaling).toEqual({
        rope_type: "llama3",
        factor,
        low_freq_factor: 1,
        high_freq_factor: 4,
        original_max_position_embeddings: 8192,
      });
      given[factors.length - 5]! *= 1.01;
      expect(errorOf(() => config(metadata, tensors, given)).message).toMatch(/scales its positions[\s\S]*rope_freqs/);
    }
  });

  it.each([
    [{ "general.architecture": "gemma" }, /general\.architecture/],
    [{ "llama.expert_count": 8 }, /llama\.expert_count/],
    [{ "llama.attention.sliding_window": 512 }, /llama\.attention\.sliding_window/],
    [{ "llama.attention.head_count_kv": [2, 4] }, /llama\.attention\.head_count_kv/],
    [{ "llama.attention.value_length": 8 }, /llama\.attention\.value_length/],
    [{ "split.count": 3 }, /split\.count[\s\S]*llama-gguf-split --merge/],
  ])("%j is refused by name", (more, message) => {
    const error = errorOf(() => config(of("llama", more)));
    expect(error.code).toBe("MODEL_FILE");
    expect(error.message).toMatch(message);
  });
});

describe("tokenizer.json from metadata", () => {
  const { texts, kinds } = readGolden("tokenizers.json");
  const header = (metadata: Record<string, unknown>) => ({ file: "m.gguf", metadata, tensors: new Map() });

  it.each(Object.keys(kinds))("%s cuts texts as tokenizers does", (kind) => {
    const { metadata, ids } = kinds[kind];
    const { json, config } = ggufTokenizer(header(metadata));
    const tokenizer = new Tokenizer(json, config);
    for (const [i, text] of (texts as string[]).entries()) {
      expect([...tokenizer.encode(text)], JSON.stringify(text)).toEqual(ids[i]);
      expect(tokenizer.decode(ids[i])).toBe(kind === "qwen2" ? text.normalize("NFC") : text);
    }
    expect(tokenizer.namedToken("eos_token")).toBe("<|im_end|>");
    // Control tokens are special, tokens that users define are not.
    const special = (json.added_tokens as { content: string; special: boolean }[]).map((t) => [t.content, t.special]);
    expect(special).toEqual([
      ["<|endoftext|>", true],
      ["<|im_start|>", true],
      ["<|im_end|>", true],
      ["<tool_call>", false],
      ["</tool_call>", false],
    ]);
  });

  it.each([
    [{ "tokenizer.ggml.pre": "deepseek-llm" }, /tokenizer\.ggml\.pre[\s\S]*deepseek-llm[\s\S]*smollm/],
    [{ "tokenizer.ggml.pre": undefined }, /tokenizer\.ggml\.pre[\s\S]*nothing/],
    [{ "tokenizer.ggml.model": "llama" }, /tokenizer\.ggml\.model[\s\S]*byte-level BPE/],
    [{ "tokenizer.ggml.token_type": [1, 2] }, /tokenizer\.ggml\.token_type[\s\S]*a list of 2/],
    [{ "tokenizer.ggml.eos_token_id": 5000 }, /tokenizer\.ggml\.eos_token_id[\s\S]*5000/],
    [{ "tokenizer.ggml.merges": undefined }, /tokenizer\.ggml\.merges/],
  ])("%j is refused by name", (more, message) => {
    const error = errorOf(() => ggufTokenizer(header({ ...kinds.smollm.metadata, ...more })));
    expect(error.code).toBe("TOKENIZER");
    expect(error.message).toMatch(message);
  });

  it("has the templates with names, and the begin token where the model wants one", () => {
    const more = {
      "tokenizer.chat_template": "plain",
      "tokenizer.chat_templates": ["tool_use"],
      "tokenizer.chat_template.tool_use": "with tools",
    };
    const { json, config } = ggufTokenizer(header({ ...kinds["llama-bpe"].metadata, ...more }));
    expect(config.chat_template).toEqual([
      { name: "default", template: "plain" },
      { name: "tool_use", template: "with tools" },
    ]);
    expect(json.post_processor).toMatchObject({ single: [{ SpecialToken: { id: "<|im_start|>" } }, {}] });
  });
});
