/**
 * The tokenizer.json and tokenizer_config.json of a GGUF file's tokenizer. The file names its pre-tokenizer (`pre`) and leaves to its reader
 * what that is; another one gives other tokens without any error, so a name that is not known is refused.
 */
import { AgentRLError } from "../../errors.ts";
import type { Json } from "../../text/tokenizer.ts";
import type { GgufHeader } from "./header.ts";

/** What the name of a pre-tokenizer stands for: fields of tokenizer.json, as the models' own have them. */
interface PreTokenizer {
  normalizer: Json | null;
  preTokenizer: Json;
  /** A word that is a token as a whole is one, whatever the merges say. */
  ignoreMerges?: boolean;
  addsBos?: boolean;
}

const byteLevel = (useRegex: boolean): Json => ({
  type: "ByteLevel",
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: useRegex,
});

const splitBy = (pattern: string): Json => ({
  type: "Sequence",
  pretokenizers: [
    { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false },
    byteLevel(false),
  ],
});

const words = (digits: string) =>
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" +
  `${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

const llama3: PreTokenizer = {
  normalizer: null,
  preTokenizer: splitBy(words("\\p{N}{1,3}")),
  ignoreMerges: true,
  addsBos: true,
};

const preTokenizers: Readonly<Record<string, PreTokenizer>> = {
  "gpt-2": { normalizer: null, preTokenizer: byteLevel(true) },
  "llama-bpe": llama3,
  llama3,
  "llama-v3": llama3,
  qwen2: { normalizer: { type: "NFC" }, preTokenizer: splitBy(words("\\p{N}")) },
  smollm: {
    normalizer: null,
    preTokenizer: {
      type: "Sequence",
      pretokenizers: [{ type: "Digits", individual_digits: true }, byteLevel(true)],
    },
  },
};

/** ggml's kinds of tokens (gguf.TokenType); all others are plain. */
const control = 3;
const userDefined = 4;
const unused = 5;

/** @throws AgentRLError TOKENIZER for a kind of tokenizer, or a pre-tokenizer, that is not known. */
export function ggufTokenizer({ file, metadata }: GgufHeader): { json: Json; config: Json } {
  const fail = (key: string, expected: string, hint = "Use a GGUF file that llama.cpp's converter wrote."): never => {
    const got = metadata[key];
    throw new AgentRLError("TOKENIZER", `GGUF metadata "${key}" is missing, malformed or not supported.`, {
      where: `${file}: ${key}`,
      got: Array.isArray(got) ? `a list of ${got.length}` : (got ?? "nothing"),
      expected,
      hint,
    });
  };
  const list = <T>(key: string, valid: (item: unknown) => boolean, expected: string): T[] => {
    const value = metadata[key];
    return Array.isArray(value) && value.every(valid) ? (value as T[]) : fail(key, expected);
  };
  const isText = (item: unknown) => typeof item === "string";

  if (metadata["tokenizer.ggml.model"] !== "gpt2") {
    fail(
      "tokenizer.ggml.model",
      '"gpt2": byte-level BPE',
      "Use a model with a byte-level BPE, as Llama 3, Qwen or SmolLM.",
    );
  }
  const pre = metadata["tokenizer.ggml.pre"];
  if (typeof pre !== "string" || !Object.hasOwn(preTokenizers, pre)) {
    const expected = `one of ${Object.keys(preTokenizers).join(", ")}`;
    return fail(
      "tokenizer.ggml.pre",
      expected,
      "Use a model whose text is cut in one of these ways, or its safetensors.",
    );
  }
  const { normalizer, preTokenizer, ignoreMerges = false, addsBos = false } = preTokenizers[pre]!;
  const tokens = list<string>("tokenizer.ggml.tokens", isText, "a list of tokens");
  const merges = list<string>("tokenizer.ggml.merges", isText, "a list of merges");
  const types = list<number>("tokenizer.ggml.token_type", Number.isInteger, "a list of numbers, one a token");
  if (types.length !== tokens.length) fail("tokenizer.ggml.token_type", `${tokens.length} numbers, one a token`);

  const ids = tokens.map((_, id) => id);
  const named: Record<string, string> = {};
  for (const [name, role] of [
    ["bos_token", "bos"],
    ["eos_token", "eos"],
    ["pad_token", "padding"],
    ["unk_token", "unknown"],
  ] as const) {
    const key = `tokenizer.ggml.${role}_token_id`;
    const id = metadata[key];
    if (id !== undefined) named[name] = tokens[id as number] ?? fail(key, `an id below ${tokens.length}`);
  }
  const bos = named.bos_token;
  const adds = (metadata["tokenizer.ggml.add_bos_token"] ?? addsBos) === true && bos !== undefined;
  const json: Json = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: ids
      .filter((id) => types[id] === control || types[id] === userDefined)
      .map((id) => addedToken(id, tokens[id]!, types[id] === control)),
    normalizer,
    pre_tokenizer: preTokenizer,
    post_processor: adds ? addBos(bos, tokens.indexOf(bos)) : byteLevel(true),
    decoder: byteLevel(true),
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: ignoreMerges,
      vocab: Object.fromEntries(ids.filter((id) => types[id] !== unused).map((id) => [tokens[id]!, id])),
      merges,
    },
  };
  const config: Json = {
    tokenizer_class: "PreTrainedTokenizerFast",
    clean_up_tokenization_spaces: false,
    ...named,
    ...chatTemplate(metadata),
  };
  return { json, config };
}

function addedToken(id: number, content: string, special: boolean): Json {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special };
}

function addBos(token: string, id: number): Json {
  const bos = { SpecialToken: { id: token, type_id: 0 } };
  const sequence = (name: string, type: number) => ({ Sequence: { id: name, type_id: type } });
  return {
    type: "TemplateProcessing",
    single: [bos, sequence("A", 0)],
    pair: [bos, sequence("A", 0), bos, sequence("B", 1)],
    special_tokens: { [token]: { id: token, ids: [id], tokens: [token] } },
  };
}

/** One template, or several with names, of which `default` is the one without. */
function chatTemplate(metadata: GgufHeader["metadata"]): Json {
  const key = "tokenizer.chat_template";
  const template = metadata[key];
  const names = metadata[`${key}s`];
  if (!Array.isArray(names)) return typeof template === "string" ? { chat_template: template } : {};
  const named = names.map((name) => ({ name, template: metadata[`${key}.${name}`] }));
  return { chat_template: [...(template === undefined ? [] : [{ name: "default", template }]), ...named] };
}
