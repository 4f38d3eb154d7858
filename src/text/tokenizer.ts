/**
 * A Hugging Face tokenizer.json, with one thing that the format leaves to its user: text and markup are encoded by
 * different calls. `encodeText` never yields a control token, whatever the text says, so neither an environment nor a
 * table row can end a turn or speak in another role; only `encodeMarkup` reads `<|end|>` as a token.
 */
import path from "node:path";
import { Tokenizer as HfTokenizer } from "@huggingface/tokenizers";
import { AgentRLError } from "../errors.ts";
import { fromByteLevel } from "./byte-level.ts";
import {
  type AddedToken,
  isByteLevel,
  type Json,
  readAddedTokens,
  readJson,
  requireBpe,
  withoutTokens,
} from "./tokenizer-json.ts";
import { isNfc, normalizeNfc, withExactSplits } from "./tokenizers-library.ts";

export type { Json };

/** Keeps content inside markup from forming control tokens. See Tokenizer.guard. */
export interface Guard {
  readonly mark: string;
  /** `content` with the guard's mark inside whatever could be read as a control token. */
  protect(content: string): string;
  /** The text without marks. */
  strip(text: string): string;
}

export class Tokenizer {
  /** tokenizer.json and tokenizer_config.json as they were read, to be saved again with the model. */
  readonly json: Json;
  readonly config: Json;
  /** One more than the largest id. */
  readonly vocabSize: number;
  /** The tokenizer without its control tokens. */
  readonly #content: HfTokenizer;
  /** Text is put into NFC before it is encoded. */
  readonly #nfc: boolean;
  /** The whole tokenizer: only to decode, and only where tokens are not bytes. */
  readonly #whole: HfTokenizer | undefined;
  readonly #ids: Map<string, number>;
  readonly #tokens: (string | undefined)[];
  /** Longest first. */
  readonly #control: AddedToken[];
  readonly #controlContents: Set<string>;
  readonly #readMarkup: RegExp;
  /** Matches, with no width, wherever a control token starts. */
  readonly #opens: RegExp;
  /** UTF-8 bytes of each token; undefined where the decoder is not byte-level. */
  readonly #bytes: (Uint8Array | undefined)[] | undefined;

  /** @throws AgentRLError TOKENIZER when tokenizer.json is malformed or of an unknown kind. `where` names the source. */
  constructor(json: Json, config: Json = {}, where = "tokenizer.json") {
    this.json = json;
    this.config = config;
    requireBpe(json, where);
    this.#nfc = isNfc(json.normalizer);
    const added = readAddedTokens(json, where);
    // Added tokens that are white space alone (some vocabularies have runs of spaces) are text; all others are control.
    this.#control = added
      .filter((token) => token.special || token.content.trim() !== "")
      .sort((a, b) => b.content.length - a.content.length);
    this.#controlContents = new Set(this.#control.map((token) => token.content));
    this.#readMarkup = markupPattern(this.#control);
    this.#opens = new RegExp(
      `(?=${this.#control.map(({ content }) => escapeRegExp(content)).join("|") || "(?!)"})`,
      "gu",
    );

    this.#ids = new Map(Object.entries((json.model as Json).vocab as Record<string, number>));
    for (const { content, id } of added) this.#ids.set(content, id);
    this.#tokens = [];
    for (const [token, id] of this.#ids) this.#tokens[id] = token;
    this.vocabSize = this.#tokens.length;

    try {
      const read = withExactSplits(this.#nfc ? { ...json, normalizer: null } : json);
      this.#content = new HfTokenizer(withoutTokens(read, this.#controlContents), config);
      this.#whole = isByteLevel(json.decoder) ? undefined : new HfTokenizer(json, config);
    } catch (cause) {
      throw new AgentRLError("TOKENIZER", "tokenizer.json cannot be used.", {
        where,
        got: (cause as Error).message,
        expected: "a tokenizer.json of Hugging Face tokenizers",
        hint: "Use the tokenizer.json that came with the model.",
        cause,
      });
    }
    this.#bytes = this.#whole === undefined ? this.#byteTable() : undefined;
  }

  /** Reads tokenizer.json and, where present, tokenizer_config.json. @throws AgentRLError TOKENIZER */
  static load(folder: string): Tokenizer {
    const file = path.join(folder, "tokenizer.json");
    const json = readJson(file, true)!;
    return new Tokenizer(json, readJson(path.join(folder, "tokenizer_config.json"), false) ?? {}, file);
  }

  /** Ids of `text` as plain text: no control token, and none added before or after. */
  encodeText(text: string): Uint32Array {
    if (text === "") return new Uint32Array(0);
    const ids = this.#content.encode(this.#nfc ? normalizeNfc(text) : text, { add_special_tokens: false }).ids as (
      | number
      | undefined
    )[];
    if (ids.includes(undefined)) {
      throw new AgentRLError("TOKENIZER", "The tokenizer has no token for part of a text.", {
        got: text,
        expected: "a vocabulary that covers all bytes",
        hint: "Use a byte-level tokenizer, or one with byte fallback.",
      });
    }
    return Uint32Array.from(ids as number[]);
  }

  /** Alias of encodeText: text is content unless its caller says that it is markup. */
  encode(text: string): Uint32Array {
    return this.encodeText(text);
  }

  /**
   * Ids of markup, in which control tokens are read as such (leftmost, longest). Content inside it must have been
   * passed through `guard.protect`; the stretches between control tokens are encoded whole, with the guard's marks
   * removed, so clean content gets the very ids that Hugging Face's apply_chat_template gives.
   */
  encodeMarkup(markup: string, guard?: Guard): Uint32Array {
    const plain = (text: string) => this.encodeText(guard === undefined ? text : guard.strip(text));
    const parts: ArrayLike<number>[] = [];
    let at = 0;
    for (const match of markup.matchAll(this.#readMarkup)) {
      const end = match.index + match[0].length;
      // Only a token of one character can be followed by the mark that breaks it.
      if (guard !== undefined && markup.startsWith(guard.mark, end)) continue;
      parts.push(plain(markup.slice(at, match.index)));
      parts.push([this.#ids.get(match.slice(1).find((group) => group !== undefined)!)!]);
      at = end;
    }
    parts.push(plain(markup.slice(at)));
    return concatenate(parts);
  }

  /**
   * A guard for these contents. Its mark is a run of U+FDD0, a code point that Unicode reserves for use inside
   * programs, longer than any run in the contents: it cannot be forged, and removing it restores the text exactly.
   */
  guard(contents: Iterable<string>): Guard {
    let longest = 0;
    for (const content of contents) {
      for (const [run] of content.matchAll(/\uFDD0+/g)) longest = Math.max(longest, run.length);
    }
    const mark = "\uFDD0".repeat(longest + 1);
    return {
      mark,
      protect: (content) => this.#breakControl(content, mark),
      strip: (text) => text.replaceAll(mark, ""),
    };
  }

  /**
   * The text of ids; control tokens appear by their content unless their id is in `drop`. Bytes that are not UTF-8
   * become U+FFFD, as in Python's decode.
   */
  decode(ids: ArrayLike<number>, drop: readonly number[] = []): string {
    const kept = Array.from(ids).filter((id) => !drop.includes(id));
    if (kept.length === 0) return "";
    for (const id of kept) this.#check(id);
    if (this.#bytes === undefined) {
      return this.#whole!.decode(kept, { skip_special_tokens: false, clean_up_tokenization_spaces: false });
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(concatenateBytes(kept.map((id) => this.#bytes![id]!)));
  }

  /** A decoder for ids that come one by one. */
  decodeStream(): StreamDecoder {
    return new StreamDecoder(this);
  }

  /** UTF-8 bytes of one token, or undefined where tokens are not bytes. */
  tokenBytes(id: number): Uint8Array | undefined {
    this.#check(id);
    return this.#bytes?.[id];
  }

  /** Id of a token by its string in the vocabulary, or undefined. */
  tokenId(token: string): number | undefined {
    return this.#ids.get(token);
  }

  tokenString(id: number): string | undefined {
    return this.#tokens[id];
  }

  isControl(id: number): boolean {
    const token = this.#tokens[id];
    return token !== undefined && this.#controlContents.has(token);
  }

  /** Ids and contents of the control tokens. */
  get controlTokens(): readonly { id: number; content: string }[] {
    return this.#control;
  }

  /** Content of a named token of tokenizer_config.json, e.g. "eos_token"; the entry is a string or {content}. */
  namedToken(name: string): string | undefined {
    const entry = this.config[name];
    const content = typeof entry === "object" && entry !== null ? (entry as Json).content : entry;
    return typeof content === "string" ? content : undefined;
  }

  #check(id: number): void {
    if (this.#tokens[id] === undefined) {
      throw new AgentRLError("TOKENIZER", "A token id is not in the vocabulary.", {
        got: id,
        expected: `an id below ${this.vocabSize}`,
        hint: "Check that the model folder's tokenizer.json belongs to its weights.",
      });
    }
  }

  #byteTable(): (Uint8Array | undefined)[] {
    const encoder = new TextEncoder();
    return this.#tokens.map((token) => {
      if (token === undefined) return undefined;
      return (this.#controlContents.has(token) ? undefined : fromByteLevel(token)) ?? encoder.encode(token);
    });
  }

  /** Puts the mark after the first character of each control token, and of each beginning of one at the end. */
  #breakControl(content: string, mark: string): string {
    const opens = new Set(Array.from(content.matchAll(this.#opens), (match) => match.index));
    const longest = this.#control[0]?.content.length ?? 0;
    for (let i = Math.max(0, content.length - longest + 1); i < content.length; i++) {
      if (this.#control.some((token) => token.content.startsWith(content.slice(i)))) opens.add(i);
    }
    if (opens.size === 0) return content;
    let out = "";
    let at = 0;
    for (const open of [...opens].sort((a, b) => a - b)) {
      const end = open + String.fromCodePoint(content.codePointAt(open)!).length;
      out += content.slice(at, end) + mark;
      at = end;
    }
    return out + content.slice(at);
  }
}

/** Turns ids into text as they come, holding back the bytes of a character that is not complete yet. */
export class StreamDecoder {
  readonly #tokenizer: Tokenizer;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** Without byte-level tokens: all ids so far, and how much of their text is out. */
  readonly #ids: number[] = [];
  #released = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  push(id: number): string {
    const bytes = this.#tokenizer.tokenBytes(id);
    if (bytes !== undefined) return this.#decoder.decode(bytes, { stream: true });
    this.#ids.push(id);
    const text = this.#tokenizer.decode(this.#ids);
    return this.#release(text.replace(/\uFFFD+$/, ""));
  }

  /** What was held back; an incomplete character becomes U+FFFD. */
  end(): string {
    if (this.#ids.length > 0) return this.#release(this.#tokenizer.decode(this.#ids));
    return this.#decoder.decode();
  }

  #release(text: string): string {
    const news = text.slice(this.#released);
    this.#released = Math.max(this.#released, text.length);
    return news;
  }
}

/** One group a token; longest first makes the alternation leftmost-longest, as in Hugging Face tokenizers. */
function markupPattern(tokens: readonly AddedToken[]): RegExp {
  const sources = tokens.map(({ content, singleWord, lstrip, rstrip }) => {
    const group = `(${escapeRegExp(content)})`;
    const word = singleWord ? `(?<!\\w)${group}(?!\\w)` : group;
    return `${lstrip ? "\\s*" : ""}${word}${rstrip ? "\\s*" : ""}`;
  });
  return new RegExp(sources.join("|") || "(?!)", "gu");
}

function escapeRegExp(literal: string): string {
  return literal.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

function concatenate(parts: readonly ArrayLike<number>[]): Uint32Array {
  const out = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function concatenateBytes(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
