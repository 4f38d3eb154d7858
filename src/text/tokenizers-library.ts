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
const afterUnicode9 =
  /[\u{7fd}\u{897}-\u{89f}\u{8ca}-\u{8d3}\u{9fe}\u{c3c}\u{d3b}-\u{d3c}\u{eba}\u{1715}\u{1abf}-\u{1add}\u{1ae0}-\u{1aeb}\u{1df6}-\u{1dfa}\u{a82c}\u{105c9}\u{105e4}\u{10d24}-\u{10d27}\u{10d69}-\u{10d6d}\u{10eab}-\u{10eac}\u{10efa}-\u{10efb}\u{10efd}-\u{10eff}\u{10f46}-\u{10f50}\u{10f82}-\u{10f85}\u{11070}\u{1133b}\u{11383}\u{11385}\u{1138e}\u{11391}\u{113c5}\u{113c7}-\u{113c8}\u{113ce}-\u{113d0}\u{1145e}\u{11839}-\u{1183a}\u{11938}\u{1193d}-\u{1193e}\u{11943}\u{119e0}\u{11a34}\u{11a47}\u{11a99}\u{11d42}\u{11d44}-\u{11d45}\u{11d97}\u{11f41}-\u{11f42}\u{16121}-\u{16128}\u{1612f}\u{16d68}-\u{16d6a}\u{16ff0}-\u{16ff1}\u{1e08f}\u{1e130}-\u{1e136}\u{1e2ae}\u{1e2ec}-\u{1e2ef}\u{1e4ec}-\u{1e4ef}\u{1e5ee}-\u{1e5ef}\u{1e6e3}\u{1e6e6}\u{1e6ee}-\u{1e6ef}\u{1e6f5}]/u;

/** NFC as the tokenizers have it: such a character is left alone, and keeps its neighbours apart. */
export function normalizeNfc(text: string): string {
  if (!afterUnicode9.test(text)) return text.normalize("NFC");
  return text
    .split(new RegExp(`(${afterUnicode9.source})`, "u"))
    .map((part, index) => (index % 2 === 1 ? part : part.normalize("NFC")))
    .join("");
}
