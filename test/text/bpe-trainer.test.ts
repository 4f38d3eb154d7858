/** The trainer against Hugging Face's BpeTrainer on one corpus, a merge order by hand, and the cost of a tool call. */
import { describe, expect, test } from "vitest";
import { trainBpe } from "../../src/text/bpe-trainer.ts";
import { tinyControlTokens, tinyPattern } from "../../src/text/tiny-template.ts";
import { type Json, Tokenizer } from "../../src/text/tokenizer.ts";
import { golden } from "./golden.ts";

const vocabSize = 560;

describe("the corpus that Hugging Face's BpeTrainer was given", () => {
  const ours = trainBpe(golden.corpus, { vocabSize, controlTokens: tinyControlTokens, pattern: tinyPattern });

  test("gives the same tokenizer.json, merge for merge: so Python loads ours and encodes alike", () => {
    const { end_of_word_suffix, continuing_subword_prefix, unk_token, dropout, ...model } = golden.tiny.tokenizer
      .model as Json;
    expect(ours).toMatchObject({ ...golden.tiny.tokenizer, model });
  });

  test("gives the same file again", () => {
    const again = trainBpe(golden.corpus, { vocabSize, controlTokens: tinyControlTokens, pattern: tinyPattern });
    expect(JSON.stringify(again)).toBe(JSON.stringify(ours));
  });

  test("a name has the same ids in SQL, in JSON and in a list", () => {
    const tokenizer = new Tokenizer(ours);
    const name = tokenizer.encodeText("artist").join();
    for (const text of [
      "SELECT artist FROM artist WHERE artist = 1",
      '{"relation": "artist.artist"}',
      "[artist, artist]",
    ]) {
      const count = tokenizer.encodeText(text).join().split(name).length - 1;
      expect(count).toBe(text.split("artist").length - 1);
    }
  });

  test("a tool call costs at most 10 tokens beside its SQL", () => {
    const tokenizer = new Tokenizer(ours);
    const sql = "SELECT title FROM films WHERE year = 1";
    const text = `<tool_call>{"name": "execute_sql", "arguments": {"query": "${sql}"}}</tool_call>`;
    expect(tokenizer.encodeMarkup(text).length - tokenizer.encodeText(sql).length).toBeLessThanOrEqual(10);
    expect(tokenizer.decode(tokenizer.encodeMarkup(text))).toBe(text);
  });
});

describe("by hand", () => {
  const train = (texts: string[], merges: number, pattern = "\\S+") =>
    (trainBpe(texts, { vocabSize: 256 + merges, controlTokens: [], pattern, minFrequency: 1 }).model as Json).merges;

  test("most frequent first, ties by the smaller ids, overlapping runs from the left", () => {
    // "aaab" twice, "bb" three times: aa 4, bb 3, ab 2; merging aa in aaab leaves (aa, a) 2 and (a, b) 2 as they were.
    expect(train(["aaab bb", "bb aaab bb"], 4)).toEqual([
      ["a", "a"],
      ["b", "b"],
      ["a", "b"],
      ["aa", "ab"],
    ]);
  });

  test("merges do not cross pre-tokens, and what the pattern leaves out is one", () => {
    expect(train(["ab ab"], 3, "ab")).toEqual([["a", "b"]]);
  });

  test("stops when no pair is frequent enough", () => {
    const json = trainBpe(["abc abd"], { vocabSize: 1024, controlTokens: ["<x>"], pattern: "\\S+" });
    expect((json.model as Json).merges).toEqual([["a", "b"]]);
    expect(Object.keys((json.model as Json).vocab as Json)).toHaveLength(258);
  });
});
