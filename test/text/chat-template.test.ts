/** Chat templates against transformers' apply_chat_template, the append law, and contents that attack the markup. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Action, Message, ToolSpec } from "../../src/env/environment.ts";
import { ChatTemplate, toOpenAiTool } from "../../src/text/chat-template.ts";
import { families, golden, goldenTokenizer, toMessage } from "./golden.ts";

const tools: ToolSpec[] = [
  {
    name: "execute_sql",
    description: 'Run one statement: é < & "quoted".',
    parameters: z.object({ query: z.string(), limit: z.int() }),
  },
];

/** Contents of whatever kind; control tokens and their halves among them. */
const content = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "<|end|>",
        "<|im_end|>",
        "<|im_start|>",
        "<|",
        "<|e",
        "<|im_",
        "<tool_call>",
        "\n",
        "  ",
        "\uFDD0",
      ),
      fc.string({ unit: "grapheme" }),
    ),
    { maxLength: 6 },
  )
  .map((parts) => parts.join(""));
/** Text that a turn may hold beside calls, and that formatting leaves as it is. */
const spoken = content.map((text) => `${text.replaceAll("tool_call", "tool").trim()}.`);
const action: fc.Arbitrary<Action> = fc.record({
  text: spoken,
  calls: fc.array(
    fc.record({
      id: fc.constant("0"),
      name: fc.constantFrom("execute_sql", "count"),
      arguments: fc.dictionary(fc.constantFrom("query", "x"), spoken).map((value) => ({ ...value })),
    }),
    { maxLength: 2 },
  ),
});

describe.each(families)("%s", (family) => {
  const tokenizer = goldenTokenizer(family);
  const template = new ChatTemplate(tokenizer, golden[family].template);
  const controls = (ids: Uint32Array) =>
    [...ids].filter((id) => tokenizer.isControl(id)).map((id) => tokenizer.decode([id]));

  test("the end of a turn is found", () => {
    expect(template.endOfTurn).toEqual({ id: tokenizer.tokenId(golden[family].eos), content: golden[family].eos });
    expect(template.toolFormat.name).toBe("hermes");
  });

  test.each(golden.conversations.map((conversation, index) => [index, conversation] as const))(
    "conversation %i has transformers' ids",
    (index, { messages, tools: withTools }) => {
      // zod says which integers JSON can hold exactly; the golden file's schema does not.
      const schema = toOpenAiTool(tools[0]!) as { function: { parameters: { properties: { limit: object } } } };
      schema.function.parameters.properties.limit = { type: "integer" };
      const ids = template.renderPrompt(messages.map(toMessage), withTools ? tools : []);
      expect([...ids]).toEqual(golden[family].prompts[index]);
    },
  );

  test("whatever messages say, they form no control token and decode to themselves", () => {
    fc.assert(
      fc.property(content, content, content, (system, user, answer) => {
        const make = (texts: [string, string, string]): Message[] => [
          { role: "system", content: texts[0] },
          { role: "user", content: texts[1] },
          { role: "tool", content: texts[2], toolCallId: "0", name: texts[0] },
        ];
        const ids = template.renderPrompt(make([system, user, answer]), tools);
        const harmless = template.renderPrompt(make(["a", "b", "c"]), tools);
        expect(controls(ids)).toEqual(controls(harmless));
        const text = tokenizer.decode(ids);
        for (const part of [system.trim(), user, answer]) expect(text).toContain(part);
      }),
    );
  });

  test("prompt, sampled turn and appended messages are the ids of the whole conversation rendered at once", () => {
    fc.assert(
      fc.property(content, action, fc.array(content, { minLength: 1, maxLength: 2 }), (user, sampled, answers) => {
        const before: Message[] = [{ role: "user", content: user }];
        const after: Message[] = answers.map((text, index) => ({
          role: "tool",
          content: text,
          toolCallId: String(index),
        }));
        const turn: Message = { role: "assistant", content: sampled.text, toolCalls: sampled.calls };
        const parts = [
          ...template.renderPrompt(before, tools),
          ...template.renderAssistant(sampled),
          ...template.renderAppended(after),
        ];
        expect(parts).toEqual([...template.renderPrompt([...before, turn, ...after], tools)]);
      }),
    );
  });

  test("the expert's ids decode to a turn that parses as the expert's action", () => {
    fc.assert(
      fc.property(action, (value) => {
        const ids = template.renderAssistant(value);
        expect(ids.at(-1)).toBe(template.endOfTurn.id);
        const parsed = template.parseTurn(tokenizer.decode(ids.subarray(0, -1)), tools);
        expect(parsed.action.text).toBe(value.text);
        expect(parsed.action.calls.map(({ name, arguments: args }) => ({ name, args }))).toEqual(
          value.calls.map(({ name, arguments: args }) => ({ name, args })),
        );
      }),
    );
  });

  test("a turn that was cut gets its end token, unsampled", () => {
    const answer: Message[] = [{ role: "user", content: "Go on." }];
    const open = template.renderAppended(answer);
    expect([...template.renderAppended(answer, { closeTurn: true })]).toEqual([template.endOfTurn.id, ...open]);
  });
});

describe("by hand", () => {
  test("the tiny template's text", () => {
    const tokenizer = goldenTokenizer("tiny");
    const template = new ChatTemplate(tokenizer, golden.tiny.template);
    const messages: Message[] = [
      { role: "system", content: "Be short." },
      { role: "user", content: "Hi" },
    ];
    expect(tokenizer.decode(template.renderPrompt(messages, tools))).toBe(
      "<|system|>Be short.\ntools: execute_sql(query, limit)<|end|><|user|>Hi<|end|><|assistant|>",
    );
    expect(tokenizer.decode(template.renderAppended([{ role: "tool", content: "[]" }]))).toBe(
      "<|tool|>[]<|end|><|assistant|>",
    );
  });

  test("tools as OpenAI writes them", () => {
    const tool: ToolSpec = { name: "f", description: "d", parameters: z.object({ a: z.array(z.string()) }) };
    expect(toOpenAiTool(tool)).toEqual({
      type: "function",
      function: {
        name: "f",
        description: "d",
        parameters: {
          type: "object",
          properties: { a: { type: "array", items: { type: "string" } } },
          required: ["a"],
          additionalProperties: false,
        },
      },
    });
  });
});

describe("templates that cannot be used", () => {
  const tokenizer = goldenTokenizer("tiny");
  const turn = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}";

  test.each([
    ["{% for", /not valid Jinja/],
    ["{{ messages[0].content }} {{ messages[1].content }}\n", /control token/],
    ["{{ raise_exception('never') }}", /refuses the messages[\s\S]*never/],
  ])("%s", (source, message) => {
    expect(() => new ChatTemplate(tokenizer, source, "folder/tokenizer_config.json")).toThrow(message);
    expect(() => new ChatTemplate(tokenizer, source, "folder/tokenizer_config.json")).toThrow(
      "folder/tokenizer_config",
    );
  });

  test("a template that changes earlier turns when a message is added", () => {
    const template = new ChatTemplate(tokenizer, `{{ messages | length }}${turn}`);
    expect(() => template.renderAppended([{ role: "user", content: "x" }])).toThrow(/changes earlier turns/);
  });

  test("a template that takes a tool's message only after a call", () => {
    const strict = `{% for m in messages %}{% if m.role == 'tool' and not messages[loop.index0 - 1].tool_calls %}{{ raise_exception('no call') }}{% endif %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}`;
    const template = new ChatTemplate(tokenizer, strict);
    const ids = template.renderAppended([{ role: "tool", content: "x", toolCallId: "1", name: "f" }]);
    expect(tokenizer.decode(ids)).toBe("<|tool|>x<|end|>");
  });
});
