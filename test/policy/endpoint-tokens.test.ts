/** Log-probabilities of a server, laid over this tokenizer's tokens: only where both are the same, token by token. */
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { alignLogProbs } from "../../src/policy/endpoint-tokens.ts";
import { Tokenizer } from "../../src/text/tokenizer.ts";

const tokenizer = Tokenizer.load(fileURLToPath(new URL("../../models/tiny", import.meta.url)));
const end = tokenizer.controlTokens.find(({ content }) => content === "<|end|>")!.id;
const idsOf = (text: string) => [...tokenizer.encode(text), end];
const listed = (ids: readonly number[]) =>
  ids.map((id, i) => ({
    token: tokenizer.decode([id]),
    logprob: (0 - i) / 4,
    bytes: [...tokenizer.tokenBytes(id)!],
  }));

describe("a server's log-probabilities", () => {
  it("are those of the turn's tokens, with or without the one that ends it, for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const ids = idsOf(text);
        expect(alignLogProbs(ids, listed(ids), tokenizer)).toEqual(ids.map((_, i) => (0 - i) / 4));
        const open = ids.slice(0, -1);
        expect(alignLogProbs(ids, listed(open), tokenizer)).toEqual(open.map((_, i) => (0 - i) / 4));
      }),
    );
  });

  it("are read from tokens without bytes, and from ids as vLLM can write them", () => {
    const ids = idsOf("SELECT title FROM books");
    const bare = listed(ids).map(({ token, logprob }) => ({ token, logprob }));
    expect(alignLogProbs(ids, bare, tokenizer)).toHaveLength(ids.length);
    const named = ids.map((id) => ({ token: `token_id:${id}`, logprob: -1, bytes: null }));
    expect(alignLogProbs(ids, named, tokenizer)).toHaveLength(ids.length);
    expect(alignLogProbs(ids, [...named.slice(1), named[0]!], tokenizer)).toBeNull();
  });

  it("are none where the server cuts the same text into other tokens", () => {
    const ids = idsOf("title");
    const letters = [..."title"].map((token) => ({ token, logprob: -1, bytes: [token.charCodeAt(0)] }));
    expect(letters.length).not.toBe(ids.length - 1);
    expect(alignLogProbs(ids, letters, tokenizer)).toBeNull();
    const other = listed(ids);
    other[0]!.bytes = [...other[0]!.bytes, 33];
    expect(alignLogProbs(ids, other, tokenizer)).toBeNull();
  });

  it("are none where one is not known, and at most 0", () => {
    const ids = idsOf("title, year");
    const unknown = listed(ids);
    unknown[1]!.logprob = -9999;
    expect(alignLogProbs(ids, unknown, tokenizer)).toBeNull();
    unknown[1]!.logprob = Number.NaN;
    expect(alignLogProbs(ids, unknown, tokenizer)).toBeNull();
    unknown[1]!.logprob = 1e-7;
    expect(alignLogProbs(ids, unknown, tokenizer)![1]).toBe(0);
  });
});
