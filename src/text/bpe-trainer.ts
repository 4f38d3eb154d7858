/**
 * Trains a byte-level BPE vocabulary (Sennrich et al. 2016, arXiv 1508.07909) and writes it as a Hugging Face
 * tokenizer.json. Deterministic: of equally frequent pairs the one with the smaller ids is merged first, which is also
 * what Hugging Face's BpeTrainer does, so both make the same merges from the same corpus.
 */
import { byteAlphabet, toByteLevel } from "./byte-level.ts";
import type { Json } from "./tokenizer.ts";

export interface BpeOptions {
  /** Size of the vocabulary with the control tokens and the 256 bytes. Fewer when the corpus has no more pairs. */
  vocabSize: number;
  /** Get the first ids, in this order. */
  controlTokens: readonly string[];
  /** Pre-token pattern, in the syntax that JavaScript (flags "gu") and Oniguruma share. Merges never cross a match. */
  pattern: string;
  /** Pairs that occur less often are not merged. @default 2 */
  minFrequency?: number;
}

/**
 * The tokenizer.json of a vocabulary learned from `texts`. Texts must not hold control tokens.
 * Ids: control tokens, then the bytes in the order of their alphabet's characters, then merges by frequency.
 */
export function trainBpe(texts: Iterable<string>, options: BpeOptions): Json {
  const { vocabSize, controlTokens, pattern, minFrequency = 2 } = options;
  const tokens = [...controlTokens, ...[...byteAlphabet].sort()];
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const words = [...countPreTokens(texts, pattern)].map(([word, count]): Word => {
    return { ids: Array.from(word, (character) => ids.get(character)!), count };
  });

  const merges: [string, string][] = [];
  const pairs = new PairCounts(words);
  while (tokens.length < vocabSize) {
    const best = pairs.pop();
    if (best === undefined || best.count < minFrequency) break;
    const [left, right] = best.pair;
    const token = tokens[left]! + tokens[right]!;
    // Two merges may make the same string, e.g. a+bc and ab+c; they share its id.
    let id = ids.get(token);
    if (id === undefined) {
      id = tokens.length;
      tokens.push(token);
      ids.set(token, id);
    }
    merges.push([tokens[left]!, tokens[right]!]);
    pairs.merge(left, right, id);
  }
  return tokenizerJson(tokens, merges, controlTokens, pattern);
}

interface Word {
  ids: number[];
  /** How often the pre-token occurs in the corpus. */
  count: number;
}

/** Pre-tokens in byte-level characters, with their counts. */
function countPreTokens(texts: Iterable<string>, pattern: string): Map<string, number> {
  const regex = new RegExp(pattern, "gu");
  const counts = new Map<string, number>();
  const add = (text: string) => {
    if (text !== "") counts.set(text, (counts.get(text) ?? 0) + 1);
  };
  for (const text of texts) {
    let at = 0;
    for (const match of text.matchAll(regex)) {
      // What the pattern leaves out is a pre-token of its own: the behavior "Isolated".
      add(text.slice(at, match.index));
      add(match[0]);
      at = match.index + match[0].length;
    }
    add(text.slice(at));
  }
  const words = new Map<string, number>();
  for (const [text, count] of counts) {
    const word = toByteLevel(text);
    words.set(word, (words.get(word) ?? 0) + count);
  }
  return words;
}

/** Ids are below this, so a pair fits in the 53 bits of a number. */
const radix = 2 ** 26;

interface Candidate {
  pair: readonly [number, number];
  count: number;
}

/**
 * Counts of adjacent pairs, kept up to date under merges, and a heap of candidates. A candidate's count may be stale;
 * it is corrected when it comes to the top. A count grows only for pairs that hold the newest token, and those are
 * pushed anew.
 */
class PairCounts {
  readonly #words: Word[];
  readonly #counts = new Map<number, number>();
  /** Words in which a pair occurred, possibly before a later merge took it away. */
  readonly #places = new Map<number, Set<number>>();
  readonly #heap: Candidate[] = [];

  constructor(words: Word[]) {
    this.#words = words;
    words.forEach((word, index) => {
      for (let i = 0; i + 1 < word.ids.length; i++) this.#add(word.ids[i]!, word.ids[i + 1]!, word.count, index);
    });
    for (const key of this.#counts.keys()) this.#push(key);
  }

  /** The most frequent pair; of equals, the one with the smaller ids. */
  pop(): Candidate | undefined {
    for (;;) {
      const top = this.#popHeap();
      if (top === undefined) return undefined;
      const count = this.#counts.get(top.pair[0] * radix + top.pair[1]) ?? 0;
      if (count === top.count) return top;
      if (count > 0) this.#pushHeap({ pair: top.pair, count });
    }
  }

  /** Replaces each (left, right), from left to right in every word, by `id`. */
  merge(left: number, right: number, id: number): void {
    const key = left * radix + right;
    const grown = new Set<number>();
    for (const index of this.#places.get(key) ?? []) {
      const { ids, count } = this.#words[index]!;
      for (let i = 0; i + 1 < ids.length; i++) {
        if (ids[i] !== left || ids[i + 1] !== right) continue;
        const before = ids[i - 1];
        const after = ids[i + 2];
        if (before !== undefined) {
          this.#add(before, left, -count, index);
          grown.add(this.#add(before, id, count, index));
        }
        if (after !== undefined) {
          this.#add(right, after, -count, index);
          grown.add(this.#add(id, after, count, index));
        }
        ids.splice(i, 2, id);
      }
    }
    this.#counts.delete(key);
    this.#places.delete(key);
    for (const pair of grown) if ((this.#counts.get(pair) ?? 0) > 0) this.#push(pair);
  }

  #add(left: number, right: number, count: number, word: number): number {
    const key = left * radix + right;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + count);
    if (count > 0) {
      const places = this.#places.get(key);
      if (places === undefined) this.#places.set(key, new Set([word]));
      else places.add(word);
    }
    return key;
  }

  #push(key: number): void {
    const left = Math.floor(key / radix);
    this.#pushHeap({ pair: [left, key - left * radix], count: this.#counts.get(key)! });
  }

  #pushHeap(candidate: Candidate): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(candidate);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!precedes(candidate, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = candidate;
  }

  #popHeap(): Candidate | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && precedes(heap[child + 1]!, heap[child]!)) child++;
      if (!precedes(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return top;
  }
}

function precedes(a: Candidate, b: Candidate): boolean {
  if (a.count !== b.count) return a.count > b.count;
  return a.pair[0] !== b.pair[0] ? a.pair[0] < b.pair[0] : a.pair[1] < b.pair[1];
}

function tokenizerJson(
  tokens: readonly string[],
  merges: [string, string][],
  controlTokens: readonly string[],
  pattern: string,
): Json {
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: controlTokens.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges,
    },
  };
}
