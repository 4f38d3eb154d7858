/** The tool-call format: laws of parse and format for any action, any text and any cut, and cases by hand. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Action } from "../../src/env/environment.ts";
import {
  type CallStyle,
  formatAction,
  formatJson,
  type ParserEvent,
  parseAction,
  ToolCallParser,
} from "../../src/text/tool-calls.ts";

const word = fc.constantFrom(
  "<tool_call>",
  "</tool_call>",
  "<tool_call",
  "\n",
  " ",
  "{",
  "}",
  '"name": "f"',
  '{"name": "f", "arguments": {}}',
  '{"name": "g", "arguments": {"x": "</tool_call>"}}',
  "Final Answer: #1",
  "é",
  "<",
);
const turn = fc.array(fc.oneof(word, fc.string({ unit: "binary" })), { maxLength: 12 }).map((parts) => parts.join(""));
const json = fc.jsonValue({ noUnicodeString: false }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);
const args = fc.dictionary(fc.string({ unit: "binary" }), fc.oneof(json, turn)).map((value) => ({ ...value }));
const action: fc.Arbitrary<Action> = fc.record({
  text: turn.map((text) => text.replaceAll("tool_call", "tool")),
  calls: fc
    .array(fc.record({ name: fc.string({ minLength: 1 }), arguments: args }), { maxLength: 4 })
    .map((calls) => calls.map((call, index) => ({ id: String(index), ...call }))),
});
const style = fc.constantFrom<CallStyle>("compact", "lines");

describe("laws", () => {
  test("parse inverts format, for any action and both styles", () => {
    fc.assert(
      fc.property(action, style, (value, how) => {
        const { action: parsed, parseFailure } = parseAction(formatAction(value, how));
        expect(parsed).toEqual(value);
        expect(parseFailure).toBe(value.calls.length === 0 && value.text.trimStart().startsWith("{"));
      }),
      { numRuns: 500 },
    );
  });

  test("no text throws, and a failure executes nothing and keeps the whole turn", () => {
    fc.assert(
      fc.property(turn, (text) => {
        const { action: parsed, parseFailure } = parseAction(text);
        if (parseFailure) expect(parsed).toEqual({ text, calls: [] });
      }),
      { numRuns: 500 },
    );
  });

  test("every way of cutting a turn into pieces gives the same result, and the events add up to it", () => {
    fc.assert(
      fc.property(turn, fc.array(fc.nat(40)), (text, cuts) => {
        const parser = new ToolCallParser();
        const events: ParserEvent[] = [];
        let at = 0;
        for (const cut of cuts) {
          events.push(...parser.push(text.slice(at, at + cut)));
          at += cut;
        }
        events.push(...parser.push(text.slice(at)));
        const parsed = parser.end();
        expect(parsed).toEqual(parseAction(text));
        if (parsed.parseFailure) return;
        const said = events.flatMap((event) => (event.type === "text" ? [event.text] : [])).join("");
        const calls = events.flatMap((event) => (event.type === "call" ? [event.call] : []));
        // What end() adds is what could still have become part of a block.
        expect(parsed.action.text.startsWith(said)).toBe(true);
        expect(parsed.action.calls.slice(0, calls.length)).toEqual(calls);
      }),
      { numRuns: 500 },
    );
  });
});

describe("by hand", () => {
  test.each<[string, Action]>([
    [
      '<tool_call>{"name": "execute_sql", "arguments": {"query": "SELECT 1"}}</tool_call>',
      { text: "", calls: [{ id: "0", name: "execute_sql", arguments: { query: "SELECT 1" } }] },
    ],
    [
      'I look.\n<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>\n<tool_call>\n{"arguments": {"x": [1]}, "name": "b"}\n</tool_call>\n',
      {
        text: "I look.",
        calls: [
          { id: "0", name: "a", arguments: {} },
          { id: "1", name: "b", arguments: { x: [1] } },
        ],
      },
    ],
    [
      'before <tool_call>{"name":"a","arguments":{}}</tool_call> after',
      { text: "before  after", calls: [{ id: "0", name: "a", arguments: {} }] },
    ],
    // The closing tag may be missing where the JSON is complete: the turn ended there.
    ['<tool_call>{"name":"a","arguments":{}}', { text: "", calls: [{ id: "0", name: "a", arguments: {} }] }],
    ["Final Answer: #3", { text: "Final Answer: #3", calls: [] }],
    ["", { text: "", calls: [] }],
  ])("%j", (text, expected) => {
    expect(parseAction(text)).toEqual({ action: expected, parseFailure: false });
  });

  test.each([
    '<tool_call>{"name": "a", "arguments": {}',
    "<tool_call>",
    "<tool_call>execute_sql(1)</tool_call>",
    '<tool_call>{"name": "a"}</tool_call>',
    '<tool_call>{"name": "", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "a", "arguments": "{}"}</tool_call>',
    '<tool_call>{"name": "a", "arguments": []}</tool_call>',
    '<tool_call>{"name": "a", "arguments": {}}</tool_call><tool_call>{</tool_call>',
    '<tool_call>{"name": "a", "arguments": {}}</tool_call></tool_call>',
    '{"name": "a", "arguments": {}}',
    ' {"name": "a"',
    "<tool_call",
  ])("failure: %j", (text) => {
    expect(parseAction(text)).toEqual({ action: { text, calls: [] }, parseFailure: true });
  });

  test("a call is released as soon as it is complete", () => {
    const parser = new ToolCallParser();
    expect(parser.push("Hi <tool")).toEqual([{ type: "text", text: "Hi " }]);
    expect(parser.push('_call>{"name": "a", "arguments": {}}</tool_')).toEqual([]);
    expect(parser.push("call>")).toEqual([{ type: "call", call: { id: "0", name: "a", arguments: {} } }]);
  });

  test("JSON as Python's json.dumps(ensure_ascii=False) writes it", () => {
    // json.dumps({"a": [1, 2.5, None, True], "b": {"ü": "x\n\"/"}, "c": {}, "d": []}, ensure_ascii=False)
    expect(formatJson({ a: [1, 2.5, null, true], b: { ü: 'x\n"/' }, c: {}, d: [] })).toBe(
      '{"a": [1, 2.5, null, true], "b": {"ü": "x\\n\\"/"}, "c": {}, "d": []}',
    );
  });

  test("the two styles", () => {
    const value: Action = { text: "Go", calls: [{ id: "0", name: "a", arguments: { t: "</tool_call>" } }] };
    expect(formatAction(value)).toBe('Go<tool_call>{"name": "a", "arguments": {"t": "<\\/tool_call>"}}</tool_call>');
    expect(formatAction(value, "lines")).toBe(
      'Go\n<tool_call>\n{"name": "a", "arguments": {"t": "<\\/tool_call>"}}\n</tool_call>',
    );
  });
});
