/** Each tool-call format by hand, and how it is told from a chat template. */
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Action, ToolSpec } from "../../src/env/environment.ts";
import { detectToolFormat, formatJson, type ToolFormatName, toolFormat } from "../../src/text/formats/index.ts";
import { formatTurn, parseTurn } from "../../src/text/tool-calls.ts";
import { TurnParser } from "../../src/text/turn-parser.ts";

const tools: ToolSpec[] = [
  {
    name: "search",
    description: "",
    parameters: z.object({
      query: z.string(),
      limit: z.int().optional(),
      exact: z.boolean().nullable(),
      fields: z.array(z.string()),
      where: z.object({ year: z.number() }),
    }),
  },
];

function call(name: string, args: Record<string, unknown> = {}, id = 0) {
  return { id: String(id), name, arguments: args };
}

/** Turns that are well formed, with what they say; turns that are not. */
const cases: Record<ToolFormatName, { read: [string, Action][]; failures: string[] }> = {
  hermes: {
    read: [
      [
        '<tool_call>{"name": "execute_sql", "arguments": {"query": "SELECT 1"}}</tool_call>',
        { text: "", calls: [call("execute_sql", { query: "SELECT 1" })] },
      ],
      [
        'I look.\n<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>\n<tool_call>\n{"arguments": {"x": [1]}, "name": "b"}\n</tool_call>\n',
        { text: "I look.", calls: [call("a"), call("b", { x: [1] }, 1)] },
      ],
      [
        'before <tool_call>{"name":"a","arguments":{}}</tool_call> after',
        { text: "before  after", calls: [call("a")] },
      ],
      // The closing tag may be missing where the JSON is complete: the turn ended there.
      ['<tool_call>{"name":"a","arguments":{}}', { text: "", calls: [call("a")] }],
      ["Final Answer: #3", { text: "Final Answer: #3", calls: [] }],
      ["", { text: "", calls: [] }],
    ],
    failures: [
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
    ],
  },
  "qwen3-coder": {
    read: [
      [
        "I look.\n\n<tool_call>\n<function=search>\n<parameter=query>\nSELECT 1;\n\n-- </function>\n</parameter>\n<parameter=limit>\n3\n</parameter>\n</function>\n</tool_call>",
        { text: "I look.", calls: [call("search", { query: "SELECT 1;\n\n-- </function>", limit: 3 })] },
      ],
      // Types come from the tool's schema; strings stay as they are, and so does what does not fit.
      [
        '<tool_call><function=search><parameter=query>12</parameter><parameter=exact>True</parameter><parameter=fields>["a"]</parameter><parameter=where>{"year": 1.5}</parameter></function></tool_call>',
        { text: "", calls: [call("search", { query: "12", exact: true, fields: ["a"], where: { year: 1.5 } })] },
      ],
      [
        "<tool_call>\n<function=search>\n<parameter=limit>\nmany\n</parameter>\n<parameter=exact>\nNone\n</parameter>\n<parameter=fields>\n7\n</parameter>\n</function>",
        { text: "", calls: [call("search", { limit: "many", exact: null, fields: "7" })] },
      ],
      [
        "<tool_call>\n<function=unknown>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=search>\n</function>\n</tool_call>",
        { text: "", calls: [call("unknown", { x: "1" }), call("search", {}, 1)] },
      ],
    ],
    failures: [
      "<tool_call>\n<function=search>\n<parameter=query>\n1\n</parameter>\n</tool_call>",
      "<tool_call>\n<function=search>\n<parameter=query>\n1\n</function>\n</tool_call>",
      "<tool_call>\n<function=search>\n1\n</function>\n</tool_call>",
      "<tool_call>\n<function=search>\n<parameter=query>\n1\n</parameter>\n<parameter=query>\n2\n</parameter>\n</function>\n</tool_call>",
      '<tool_call>{"name": "search", "arguments": {}}</tool_call>',
      "<function=search>\n</function>",
      '{"name": "search", "arguments": {}}',
    ],
  },
  llama3: {
    read: [
      ['{"name": "a", "parameters": {"x": "}; {"}}', { text: "", calls: [call("a", { x: "}; {" })] }],
      [
        ' {"name": "a", "parameters": {}}; {"type": "function", "name": "b", "arguments": {"x": null}}\n',
        { text: "", calls: [call("a"), call("b", { x: null }, 1)] },
      ],
      [
        '<|python_tag|>{"name": "a", "parameters": {}};{"name":"b","parameters":{}}',
        { text: "", calls: [call("a"), call("b", {}, 1)] },
      ],
      ['I look.\n<|python_tag|>{"name": "a", "parameters": {}}', { text: "I look.", calls: [call("a")] }],
      ["It is {not} [a] call; <b>.", { text: "It is {not} [a] call; <b>.", calls: [] }],
    ],
    failures: [
      '{"name": "a", "parameters": {}',
      '{"name": "a", "parameters": {}} and so on',
      '{"name": "a", "parameters": {}}; ',
      '{"name": "a", "parameters": {}} {"name": "b", "parameters": {}}',
      '{"name": "a"}',
      '{"answer": 3}',
      '<|python_tag|>search.call(query="x")',
      "<|python_tag|>",
      'Sure: {"name": "a", "parameters": {}}',
    ],
  },
  json: {
    read: [
      ['\n{"name": "a", "arguments": {"x": "```"}}\n', { text: "", calls: [call("a", { x: "```" })] }],
      [
        '[{"name": "a", "arguments": {}}, {"name": "b", "parameters": {}}]',
        { text: "", calls: [call("a"), call("b", {}, 1)] },
      ],
      [
        'I look.\n```json\n{"name": "a",\n "arguments": {}}\n```\nThen wait.',
        { text: "I look.\nThen wait.", calls: [call("a")] },
      ],
      ['```json\n[{"name": "a", "arguments": {}}]', { text: "", calls: [call("a")] }],
      ["Use ```js\n{}\n```", { text: "Use ```js\n{}\n```", calls: [] }],
    ],
    failures: [
      '{"name": "a", "arguments": {}',
      '{"name": "a", "arguments": {}} {"name": "b", "arguments": {}}',
      "[]",
      '[{"name": "a", "arguments": {}}, 1]',
      '{"answer": 3}',
      "```json\n{}\n```",
      "```json\n",
      'Sure: {"name": "a", "arguments": {}}',
    ],
  },
};

describe.each(Object.entries(cases))("%s", (name, { read, failures }) => {
  const format = toolFormat(name as ToolFormatName);

  test.each(read)("%j", (text, expected) => {
    expect(parseTurn(text, { format, tools })).toEqual({ action: expected, parseFailure: false });
  });

  test.each(failures)("failure: %j", (text) => {
    expect(parseTurn(text, { format, tools })).toEqual({ action: { text, calls: [] }, parseFailure: true });
  });
});

test("a call is released as soon as it is complete", () => {
  const parser = new TurnParser(toolFormat("hermes"));
  expect(parser.push("Hi <tool")).toEqual([{ type: "text", text: "Hi " }]);
  expect(parser.push('_call>{"name": "a", "arguments": {}}</tool_')).toEqual([]);
  expect(parser.push("call>")).toEqual([{ type: "call", call: call("a") }]);
  const llama = new TurnParser(toolFormat("llama3"));
  expect(llama.push('{"name": "a", "parameters": {"x": 1}')).toEqual([]);
  expect(llama.push("}")).toEqual([{ type: "call", call: call("a", { x: 1 }) }]);
});

test("JSON as Python's json.dumps(ensure_ascii=False) writes it", () => {
  // json.dumps({"a": [1, 2.5, None, True, 1e-05, -2.5e-07, 0.0001], "b": {"ü": "x\n\"/"}, "c": {}, "d": []}, ensure_ascii=False)
  expect(formatJson({ a: [1, 2.5, null, true, 0.00001, -2.5e-7, 0.0001], b: { ü: 'x\n"/' }, c: {}, d: [] })).toBe(
    '{"a": [1, 2.5, null, true, 1e-05, -2.5e-07, 0.0001], "b": {"ü": "x\\n\\"/"}, "c": {}, "d": []}',
  );
});

test.each<[ToolFormatName, string, string]>([
  ["hermes", "<tool_call>{", 'Go<tool_call>{"name": "a", "arguments": {"t": "</tool_call>", "n": 1}}</tool_call>'],
  ["hermes", "", 'Go\n<tool_call>\n{"name": "a", "arguments": {"t": "</tool_call>", "n": 1}}\n</tool_call>'],
  [
    "qwen3-coder",
    "",
    "Go\n\n<tool_call>\n<function=a>\n<parameter=t>\n</tool_call>\n</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>",
  ],
  ["llama3", "", 'Go<|python_tag|>{"name": "a", "parameters": {"t": "</tool_call>", "n": 1}}'],
  ["json", "", 'Go\n```json\n{"name": "a", "arguments": {"t": "</tool_call>", "n": 1}}\n```'],
])("%s with a template that says %j", (name, template, expected) => {
  const action: Action = { text: "Go", calls: [call("a", { t: "</tool_call>", n: 1 })] };
  // Hermes escapes its closing tag in JSON.
  const written = formatTurn(action, toolFormat(name, template)).replace("<\\/", "</");
  expect(written).toBe(expected);
});

describe("a chat template's format", () => {
  test.each([
    ["{%- for call in message.tool_calls %}<tool_call>\\n{{ call }}\\n</tool_call>", "hermes"],
    ["<tool_call>\\n<function=' + name + '>", "qwen3-coder"],
    [`{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson`, "llama3"],
    ["{% for m in messages %}{{ m.content }}{% endfor %}", "hermes"],
  ])("%s", (template, name) => {
    expect(detectToolFormat(template)).toBe(name);
  });

  test("one that is not known is refused with the setting that helps", () => {
    expect(() => detectToolFormat("[TOOL_CALLS]{{ m.tool_calls | tojson }}", "f/chat_template.jinja")).toThrow(
      /format that is not known[\s\S]*f\/chat_template.jinja[\s\S]*model.toolFormat/,
    );
  });
});
