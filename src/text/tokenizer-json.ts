/** Reading tokenizer.json: what of the format is supported, and the variant without control tokens. */
import { readFileSync } from "node:fs";
import { AgentRLError } from "../errors.ts";

export type Json = Record<string, unknown>;

export interface AddedToken {
  id: number;
  content: string;
  special: boolean;
  singleWord: boolean;
  lstrip: boolean;
  rstrip: boolean;
}

/** A file that is not `required` may be absent: undefined. @throws AgentRLError TOKENIZER */
export function readJson(file: string, required: boolean): Json | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    if (!required && (cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new AgentRLError("TOKENIZER", "A tokenizer file cannot be read.", {
      where: file,
      got: (cause as Error).message,
      expected: "a readable file",
      hint: "Check that the model folder is complete: tokenizer.json, tokenizer_config.json.",
      cause,
    });
  }
  try {
    const json: unknown = JSON.parse(text);
    if (typeof json === "object" && json !== null && !Array.isArray(json)) return json as Json;
    throw new SyntaxError("not an object");
  } catch (cause) {
    throw new AgentRLError("TOKENIZER", "A tokenizer file is not a JSON object.", {
      where: file,
      got: (cause as Error).message,
      expected: "one JSON object",
      hint: "Fetch the file again: it is truncated or was edited by hand.",
      cause,
    });
  }
}

export function readAddedTokens(json: Json, where: string): AddedToken[] {
  const list = json.added_tokens ?? [];
  const valid =
    Array.isArray(list) &&
    list.every((entry: Json) => typeof entry?.content === "string" && entry.content !== "" && isId(entry.id));
  if (!valid) {
    throw new AgentRLError("TOKENIZER", "tokenizer.json has malformed added_tokens.", {
      where,
      got: list,
      expected: "a list of {id, content, special, ...}",
      hint: "Use the tokenizer.json that came with the model.",
    });
  }
  return (list as Json[]).map((entry) => ({
    id: entry.id as number,
    content: entry.content as string,
    special: entry.special === true,
    singleWord: entry.single_word === true,
    lstrip: entry.lstrip === true,
    rstrip: entry.rstrip === true,
  }));
}

function isId(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** @throws AgentRLError TOKENIZER for a kind of tokenizer that is not supported. */
export function requireBpe(json: Json, where: string): void {
  const model = json.model as Json | undefined;
  const hint = "Use a model with a byte-level BPE tokenizer, as those of Llama 3, SmolLM or models/tiny.";
  const vocab = model?.vocab;
  if (model?.type !== "BPE" || typeof vocab !== "object" || vocab === null || !Object.values(vocab).every(isId)) {
    throw new AgentRLError("TOKENIZER", "tokenizer.json holds no BPE model.", {
      where: `${where}: model.type`,
      got: model?.type,
      expected: '"BPE" with a vocab of token to id',
      hint,
    });
  }
  // Text is encoded in stretches between control tokens; this scheme makes a stretch depend on what precedes it.
  if (JSON.stringify(json.pre_tokenizer ?? null).includes('"prepend_scheme":"first"')) {
    throw new AgentRLError("TOKENIZER", "tokenizer.json has a pre-tokenizer that is not supported.", {
      where: `${where}: pre_tokenizer.prepend_scheme`,
      got: "first",
      expected: '"always" or "never"',
      hint,
    });
  }
}

/**
 * tokenizer.json of the same tokenizer without the tokens: not as added tokens, and not as vocabulary entries that
 * merges could reach either.
 */
export function withoutTokens(json: Json, tokens: ReadonlySet<string>): Json {
  const added = ((json.added_tokens ?? []) as Json[]).filter((entry) => !tokens.has(entry.content as string));
  const model = json.model as Json;
  const { vocab, merges, unk_token: unknown } = model as { vocab: Json; merges: unknown; unk_token?: string | null };
  const removed = (token: string) => tokens.has(token);
  return {
    ...json,
    added_tokens: added,
    model: {
      ...model,
      vocab: Object.fromEntries(Object.entries(vocab).filter(([token]) => !removed(token) || token === unknown)),
      merges: ((merges ?? []) as (string | [string, string])[]).filter((merge) => {
        const [left, right] = typeof merge === "string" ? (merge.split(" ", 2) as [string, string]) : merge;
        return !removed(left) && !removed(right) && !removed(left + right);
      }),
    },
  };
}

/** Whether the decoder makes tokens back into bytes and does nothing else. */
export function isByteLevel(decoder: unknown): boolean {
  if (typeof decoder !== "object" || decoder === null) return false;
  const { type, decoders } = decoder as { type?: string; decoders?: unknown[] };
  if (type === "Sequence") return decoders?.length === 1 && isByteLevel(decoders[0]);
  return type === "ByteLevel";
}
