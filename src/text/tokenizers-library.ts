/**
 * Where @huggingface/tokenizers differs from the Python package of the same vocabulary, which the models were trained
 * with. tokenizer.json is put so that both read it alike.
 */
import type { Json } from "./tokenizer-json.ts";

/** GPT-2's pre-tokens: what ByteLevel splits by. As a pattern of its own the library reads `\s` as Unicode has it. */
const gpt2Pattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** The same pre-tokenizer by parts that the library gets right. */
export function withExactSplits(json: Json): Json {
  return json.pre_tokenizer == null ? json : { ...json, pre_tokenizer: exact(json.pre_tokenizer as Json) };
}

function exact(part: Json): Json {
  const split = (pattern: string) => ({
    type: "Split",
    pattern: { Regex: pattern },
    behavior: "Isolated",
    invert: false,
  });
  if (part.type === "Sequence") return { ...part, pretokenizers: (part.pretokenizers as Json[]).map(exact) };
  // Rust's char::is_numeric: fractions and Roman numerals as well, where the library has `\d`.
  if (part.type === "Digits") return split(part.individual_digits === true ? "\\p{N}" : "\\p{N}+");
  if (part.type === "ByteLevel" && part.use_regex !== false && part.add_prefix_space === false) {
    return { type: "Sequence", pretokenizers: [split(gpt2Pattern), { ...part, use_regex: false }] };
  }
  return part;
}

/** Whether the normalizer is NFC and nothing else. */
export function isNfc(normalizer: unknown): boolean {
  if (typeof normalizer !== "object" || normalizer === null) return false;
  const { type, normalizers } = normalizer as { type?: string; normalizers?: unknown[] };
  if (type === "Sequence") return normalizers?.length === 1 && isNfc(normalizers[0]);
  return type === "NFC";
}

/**
 * Characters whose place among combining marks, or composition, the tokenizers' NFC does not know: its tables are those of
 * Unicode 9. Found by comparing each code point with Node's NFC (Unicode 17).
 */
const afterUnicode9 = new RegExp(
  `([${(
    "7fd 897-89f 8ca-8d3 9fe c3c d3b-d3c eba 1715 1abf-1add 1ae0-1aeb 1df6-1dfa a82c 105c9 105e4 10d24-10d27 " +
    "10d69-10d6d 10eab-10eac 10efa-10efb 10efd-10eff 10f46-10f50 10f82-10f85 11070 1133b 11383 11385 1138e 11391 " +
    "113c5 113c7-113c8 113ce-113d0 1145e 11839-1183a 11938 1193d-1193e 11943 119e0 11a34 11a47 11a99 11d42 " +
    "11d44-11d45 11d97 11f41-11f42 16121-16128 1612f 16d68-16d6a 16ff0-16ff1 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef " +
    "1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5"
  )
    .replace(/[0-9a-f]+/g, "\\u{$&}")
    .replaceAll(" ", "")}])`,
  "u",
);

/** NFC as the tokenizers have it: such a character is left alone, and keeps its neighbours apart. */
export function normalizeNfc(text: string): string {
  if (!afterUnicode9.test(text)) return text.normalize("NFC");
  return text
    .split(afterUnicode9)
    .map((part, index) => (index % 2 === 1 ? part : part.normalize("NFC")))
    .join("");
}
