/** The tokenizer against Python's `tokenizers`, and the law that content never forms a control token. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AgentRLError } from "../../src/errors.ts";
import { type Json, Tokenizer } from "../../src/text/tokenizer.ts";
import { families, golden, goldenTokenizer } from "./golden.ts";

/** Text made of control tokens, their pieces, the guard's own mark, and anything. */
function hostile(tokenizer: Tokenizer): fc.Arbitrary<string> {
  const pieces = tokenizer.controlTokens.flatMap(({ content }) => [content, content.slice(0, 3), content.slice(3)]);
  return fc
    .array(fc.oneof(fc.constantFrom(...pieces, "\uFDD0", " ", "\n"), fc.string({ unit: "grapheme" })), {
      maxLength: 10,
    })
    .map((parts) => parts.join(""));
}

describe.each(families)("%s", (family) => {
  const tokenizer = goldenTokenizer(family);
  const recorded = golden[family];

  test.each(golden.texts.map((text, index) => [text, index] as const))("ids of %j are Python's", (text, index) => {
    expect([...tokenizer.encodeText(text)]).toEqual(recorded.content[index]);
    expect([...tokenizer.encodeMarkup(text)]).toEqual(recorded.markup[index]);
  });

  test("decoding any ids gives Python's text, whole and streamed", () => {
    for (const [ids, text] of recorded.decoded) {
      expect(tokenizer.decode(ids)).toBe(text);
      const stream = tokenizer.decodeStream();
      expect(ids.map((id) => stream.push(id)).join("") + stream.end()).toBe(text);
    }
  });

  test("content decodes to itself and holds no control token, whatever it says", () => {
    fc.assert(
      fc.property(hostile(tokenizer), (text) => {
        const ids = tokenizer.encodeText(text);
        expect([...ids].filter((id) => tokenizer.isControl(id))).toEqual([]);
        expect(tokenizer.decode(ids)).toBe(text);
      }),
      { numRuns: 100 },
    );
  });

  test("guarded content inside markup: only the markup's own control tokens, and all text as it was", () => {
    const end = recorded.eos;
    fc.assert(
      fc.property(fc.array(hostile(tokenizer), { minLength: 1, maxLength: 4 }), (contents) => {
        const guard = tokenizer.guard(contents);
        const markup = contents.map((content) => guard.protect(content) + end).join("");
        const ids = tokenizer.encodeMarkup(markup, guard);
        const expected = contents.flatMap((content) => [...tokenizer.encodeText(content), tokenizer.tokenId(end)!]);
        expect([...ids]).toEqual(expected);
      }),
      { numRuns: 100 },
    );
  });

  test("a stream holds a character back until it is complete", () => {
    const stream = tokenizer.decodeStream();
    const ids = [...tokenizer.encodeText("𓀀")];
    expect(ids.length).toBeGreaterThan(1);
    expect(ids.map((id) => stream.push(id))).toEqual([...ids.slice(1).map(() => ""), "𓀀"]);
    expect(stream.push(ids[0]!) + stream.end()).toBe("\uFFFD");
  });
});

describe("names and ids", () => {
  const tokenizer = goldenTokenizer("tiny");

  test("control tokens have the first ids; unknown names have none", () => {
    expect(tokenizer.tokenId("<|pad|>")).toBe(0);
    expect(tokenizer.tokenId("<|end|>")).toBe(5);
    expect(tokenizer.tokenId("<|nothing|>")).toBeUndefined();
    expect(tokenizer.tokenString(5)).toBe("<|end|>");
    expect(tokenizer.vocabSize).toBe(Object.keys((golden.tiny.tokenizer.model as Json).vocab as Json).length);
  });

  test("dropped ids are left out of the text", () => {
    const end = tokenizer.tokenId("<|end|>")!;
    expect(tokenizer.decode([...tokenizer.encodeText("film"), end], [end])).toBe("film");
  });

  test("an id outside the vocabulary is an error with the vocabulary's size", () => {
    expect(() => tokenizer.decode([tokenizer.vocabSize])).toThrow(/560[\s\S]*below 560/);
  });
});

describe("tokenizer.json that cannot be used", () => {
  const good = golden.tiny.tokenizer;
  const model = good.model as Json;
  const rejects = (json: Json, message: RegExp) => {
    let error: unknown;
    try {
      new Tokenizer(json, {}, "folder/tokenizer.json");
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(AgentRLError);
    expect((error as AgentRLError).code).toBe("TOKENIZER");
    expect((error as AgentRLError).message).toMatch(message);
    expect((error as AgentRLError).message).toContain("folder/tokenizer.json");
  };

  test("another model than BPE", () =>
    rejects({ ...good, model: { ...model, type: "Unigram" } }, /Unigram[\s\S]*"BPE"/));
  test("no model", () => rejects({}, /no BPE model/));
  test("malformed added tokens", () => rejects({ ...good, added_tokens: [{ id: "x" }] }, /malformed added_tokens/));
  test("a part of unknown kind", () => rejects({ ...good, pre_tokenizer: { type: "Nonsense" } }, /Nonsense/));
  test("a pre-tokenizer that depends on what precedes", () => {
    rejects({ ...good, pre_tokenizer: { type: "Metaspace", prepend_scheme: "first" } }, /prepend_scheme[\s\S]*first/);
  });
  test("a folder without it", () => {
    expect(() => Tokenizer.load("/nonexistent-folder")).toThrow(/tokenizer\.json[\s\S]*ENOENT/);
  });
});
