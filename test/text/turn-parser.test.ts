/** Laws of every tool-call format: for any action, any text and any cut, with and without thinking. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Action, ToolSpec } from "../../src/env/environment.ts";
import { toolFormat, toolFormatNames } from "../../src/text/formats/index.ts";
import { formatTurn, parseTurn } from "../../src/text/tool-calls.ts";
import { type ParserEvent, TurnParser } from "../../src/text/turn-parser.ts";

/** One tool whose parameters have every type that a schema can ask for. */
export const tools: ToolSpec[] = [
  {
    name: "f",
    description: "",
    parameters: z.object({
      text: z.string(),
      count: z.int(),
      ratio: z.number(),
      flag: z.boolean(),
      list: z.array(z.any()),
      map: z.record(z.string(), z.any()),
      nothing: z.null(),
      kind: z.enum(["a", "b"]),
    }),
  },
];

const marks = [
  ...["<tool_call>", "</tool_call>", "<tool_call", "<function=f>", "</function>", "<parameter=text>", "</parameter>"],
  ...["<|python_tag|>", "<|python", "```json\n", "```", "\n```", ";", "[", "]", "{", "}", "\n", " ", "<"],
  ...[
    "<think>",
    "</think>",
    "<thi",
    '"name": "f"',
    '{"name": "f", "arguments": {}}',
    '{"name": "g", "parameters": {}}',
  ],
  ...['{"name": "g", "arguments": {"x": "</tool_call>;<think>"}}', "Final Answer: #1", "é"],
];
const turn = fc
  .array(fc.oneof(fc.constantFrom(...marks), fc.string({ unit: "binary", maxLength: 4 })), { maxLength: 12 })
  .map((parts) => parts.join(""));
/** Text that no format takes for markup. */
const plain = turn.map((text) => `é${text.replace(/[<`{[]/g, "")}`);
const json = fc.jsonValue({ noUnicodeString: false }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);
const values = {
  text: turn,
  count: fc.integer(),
  ratio: fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
  flag: fc.boolean(),
  list: fc.array(json),
  map: fc.dictionary(fc.string(), json).map((value) => ({ ...value })),
  nothing: fc.constant(null),
  kind: fc.constantFrom("a", "b"),
};
const call = fc.record({ name: fc.constant("f"), arguments: fc.record(values, { requiredKeys: [] }) });
const numbered = (calls: fc.Arbitrary<{ name: string; arguments: Record<string, unknown> }>) =>
  fc.array(calls, { maxLength: 3 }).map((all) => all.map((one, index) => ({ id: String(index), ...one })));
const thinking = fc.option(
  turn.map((text) => text.replaceAll("</think>", "")),
  { nil: undefined },
);
const action: fc.Arbitrary<Action> = fc
  .record({ text: fc.oneof(fc.constant(""), plain), calls: numbered(call), thinking })
  .map(({ thinking: thought, ...said }) => ({ ...said, ...(thought !== undefined && { thinking: thought }) }));

const formats = toolFormatNames.flatMap((name) =>
  name === "hermes" ? [toolFormat(name), toolFormat(name, "<tool_call>{")] : [toolFormat(name)],
);

describe.each(formats.map((format, index) => [format.name, index, format] as const))("%s (%i)", (name, _, format) => {
  test("parse inverts format", () => {
    fc.assert(
      fc.property(action, fc.boolean(), (value, inThinking) => {
        // What a format without escapes cannot hold.
        const unwritable = (text: unknown) => typeof text === "string" && /<\/?(parameter|function)/.test(text);
        fc.pre(name !== "qwen3-coder" || !value.calls.some((one) => Object.values(one.arguments).some(unwritable)));
        const expected = inThinking && value.thinking === undefined ? { ...value, thinking: "" } : value;
        const written = formatTurn(value, format, inThinking);
        expect(parseTurn(written, { format, tools, inThinking })).toEqual({ action: expected, parseFailure: false });
      }),
      { numRuns: 100 },
    );
  });

  test("no text throws, and a failure executes nothing", () => {
    fc.assert(
      fc.property(turn, fc.boolean(), (text, inThinking) => {
        const parsed = parseTurn(text, { format, tools, inThinking });
        if (parsed.parseFailure) expect(parsed.action.calls).toEqual([]);
        if (parsed.parseFailure && parsed.action.thinking === undefined) expect(parsed.action.text).toBe(text);
      }),
      { numRuns: 100 },
    );
  });

  test("every way of cutting a turn into pieces gives the same result, and the events add up to it", () => {
    const written = action.map((value) => formatTurn(value, format));
    fc.assert(
      fc.property(fc.oneof(turn, written), fc.array(fc.nat(20)), fc.boolean(), (text, cuts, inThinking) => {
        const parser = new TurnParser(format, tools, inThinking);
        const events: ParserEvent[] = [];
        let at = 0;
        for (const cut of cuts) {
          events.push(...parser.push(text.slice(at, at + cut)));
          at += cut;
        }
        events.push(...parser.push(text.slice(at)));
        const parsed = parser.end();
        expect(parsed).toEqual(parseTurn(text, { format, tools, inThinking }));
        const said = (type: "text" | "thinking") =>
          events.flatMap((event) => (event.type === type ? [event.text] : [])).join("");
        // What end() adds is what could still have become part of a mark.
        expect((parsed.action.thinking ?? "").startsWith(said("thinking"))).toBe(true);
        if (parsed.parseFailure) return;
        const calls = events.flatMap((event) => (event.type === "call" ? [event.call] : []));
        expect(parsed.action.text.startsWith(said("text"))).toBe(true);
        expect(parsed.action.calls.slice(0, calls.length)).toEqual(calls);
      }),
      { numRuns: 150 },
    );
  });

  test("a call in a thinking block is not a call", () => {
    fc.assert(
      fc.property(numbered(call), plain, (calls, text) => {
        const written = formatTurn({ text: "", calls }, format).replaceAll("</think>", "");
        const parsed = parseTurn(`<think>${written}</think>${text}`, { format, tools });
        expect(parsed.action.calls).toEqual([]);
        expect(parsed).toMatchObject({ action: { text }, parseFailure: false });
      }),
      { numRuns: 50 },
    );
  });
});

describe("thinking by hand", () => {
  const format = toolFormat("hermes");
  const read = (text: string, inThinking = false) => parseTurn(text, { format, tools, inThinking });
  const done = '<tool_call>{"name": "f", "arguments": {}}</tool_call>';
  const calls = [{ id: "0", name: "f", arguments: {} }];

  test.each<[string, Action]>([
    // Qwen 3's layout, with and without thoughts.
    [`<think>\nHm.\n</think>\n\n${done}`, { text: "", calls, thinking: "Hm." }],
    ["<think>\n\n</think>\n\nYes.", { text: "Yes.", calls: [], thinking: "" }],
    ["<think></think>\n\n\nYes.", { text: "\nYes.", calls: [], thinking: "" }],
    ["\n <think>a</think>b", { text: "b", calls: [], thinking: "a" }],
    ["a\n<think>b\n\n</think>c<think>d</think>", { text: "a\nc", calls: [], thinking: "b\n\n\nd" }],
    [
      '<tool_call>{"name": "f", "arguments": {"a": "<think>"}}</tool_call>',
      {
        text: "",
        calls: [{ id: "0", name: "f", arguments: { a: "<think>" } }],
      },
    ],
    ["a </think> b", { text: "a </think> b", calls: [] }],
  ])("%j", (text, expected) => {
    expect(read(text)).toEqual({ action: expected, parseFailure: false });
  });

  test("a template that opens the block", () => {
    expect(read(`Hm.\n</think>\n\n${done}`, true)).toEqual({
      action: { text: "", calls, thinking: "Hm." },
      parseFailure: false,
    });
  });

  test.each<[string, Action]>([
    [`<think>${done}`, { text: "", calls: [], thinking: done }],
    [`${done}<think>Hm`, { text: done, calls: [], thinking: "Hm" }],
    ["<think>", { text: "", calls: [], thinking: "" }],
    ["<think>Hm.</think><tool_call>{", { text: "<tool_call>{", calls: [], thinking: "Hm." }],
  ])("failure: %j", (text, expected) => {
    expect(read(text)).toEqual({ action: expected, parseFailure: true });
  });

  test("thinking and text are released as they come", () => {
    const parser = new TurnParser(format);
    expect(parser.push("<thi")).toEqual([]);
    expect(parser.push("nk>\nWhat")).toEqual([{ type: "thinking", text: "What" }]);
    expect(parser.push(" if?\n</thin")).toEqual([{ type: "thinking", text: " if?" }]);
    expect(parser.push("k>\n\nYes.")).toEqual([{ type: "text", text: "Yes." }]);
  });
});
