/**
 * 1,000 conversations of whatever scripts, tools, thinking and white space, rendered and encoded as transformers does it
 * with the tokenizers and chat templates of four model families: test/golden/conversations.json.gz, written by
 * make-conversations.py, which says what is left out. Where AGENTRL_FAMILIES names a folder of the models' own
 * tokenizers and templates (fetch-families.py makes it), with those as well.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Message, ToolCall, ToolSpec } from "../../src/env/environment.ts";
import { ChatTemplate } from "../../src/text/chat-template.ts";
import { type Json, Tokenizer } from "../../src/text/tokenizer.ts";

interface Conversation {
  tools: { function: { name: string; description: string; parameters: Json } }[];
  messages: Message[];
}
interface Family {
  tokenizer: Json;
  config: Json;
  hashes: string[];
  whole: { text: string; ids: number[] }[];
}

const file = path.join(import.meta.dirname, "../golden/conversations.json.gz");
const golden = JSON.parse(gunzipSync(readFileSync(file)).toString()) as {
  conversations: Conversation[];
  families: Record<string, Family>;
  real: Record<string, string[]>;
};
const names = Object.keys(golden.families);
const realFolder = process.env.AGENTRL_FAMILIES;

/** What of a conversation the family's template can show. */
function shown(family: string, { tools, messages }: Conversation): { messages: Message[]; tools: ToolSpec[] } {
  // SmolLM2's shows no tools and no calls; Llama 3's takes one call a turn.
  const calls = (all: ToolCall[]) => (family === "smollm2" ? [] : family === "llama3" ? all.slice(0, 1) : all);
  return {
    messages: messages.map(({ toolCalls, ...message }) =>
      toolCalls === undefined ? message : { ...message, toolCalls: calls(toolCalls) },
    ),
    tools:
      family === "smollm2"
        ? []
        : tools.map(({ function: { name, description, parameters } }) => ({
            name,
            description,
            parameters: z.object({}),
            jsonSchema: parameters,
          })),
  };
}

function shortHash(data: Uint8Array | string): string {
  return createHash("sha256").update(data).digest("hex").slice(0, 6);
}

/** Conversations of which text or ids differ, by their number. */
function differing(family: string, tokenizer: Tokenizer, template: ChatTemplate, hashes: readonly string[]): string[] {
  const found: string[] = [];
  golden.conversations.forEach((conversation, index) => {
    const { messages, tools } = shown(family, conversation);
    const ids = template.renderPrompt(messages, tools);
    // Where text is not normalised, ids say it exactly.
    const text = tokenizer.json.normalizer ? template.promptText(messages, tools) : tokenizer.decode(ids);
    const got = shortHash(text) + shortHash(new Uint8Array(Uint32Array.from(ids).buffer));
    if (got !== hashes[index]) {
      const what = got.slice(0, 6) === hashes[index]!.slice(0, 6) ? "ids" : "text";
      found.push(`${index}: ${what} of ${template.promptText(messages, tools)}`);
    }
  });
  return found;
}

describe.each(names)("%s", (name) => {
  const { tokenizer: json, config, hashes, whole } = golden.families[name]!;
  const tokenizer = new Tokenizer(json, config);
  const template = new ChatTemplate(tokenizer, config.chat_template as string);

  test("the first conversations in full", () => {
    for (const [index, { text, ids }] of whole.entries()) {
      const { messages, tools } = shown(name, golden.conversations[index]!);
      const got = template.renderPrompt(messages, tools);
      expect(template.promptText(messages, tools)).toBe(text);
      expect([...got]).toEqual(ids);
    }
  });

  test("1,000 conversations have transformers' text and ids", () => {
    expect(differing(name, tokenizer, template, hashes)).toEqual([]);
  });
});

/** str.strip() */
function pythonTrim(text: string): string {
  const space = "(?:[^\\S\\ufeff]|[\\x1c-\\x1f\\x85])+";
  return text.replace(new RegExp(`^${space}|${space}$`, "g"), "");
}

/** An assistant's turn of a conversation, what came before it, and the messages that answer it. */
interface Step {
  before: Message[];
  turn: Message;
  after: Message[];
  tools: ToolSpec[];
}

/** Without thinking, which Qwen 3's template leaves out of old turns; contents as the template keeps them. */
function* steps(family: string): Generator<Step> {
  for (const conversation of golden.conversations.slice(0, 200)) {
    const { messages, tools } = shown(family, conversation);
    const plain = messages.map(({ thinking: _, ...message }) => message);
    for (const [index, turn] of plain.entries()) {
      if (turn.role !== "assistant") continue;
      const next = plain.findIndex((message, at) => at > index && message.role === "assistant");
      const after = plain.slice(index + 1, next < 0 ? undefined : next);
      if (after.length > 0) yield { before: plain.slice(0, index), turn, after, tools };
    }
  }
}

describe.each(names)("appending to %s", (name) => {
  const { tokenizer: json, config } = golden.families[name]!;
  const tokenizer = new Tokenizer(json, config);
  const template = new ChatTemplate(tokenizer, config.chat_template as string);
  const cut = (ids: Uint32Array[]) => ids.flatMap((part) => [...part]);

  test("prompt, turn and answer are what the template gives for all of it", () => {
    let compared = 0;
    for (const { before, turn, after, tools } of steps(name)) {
      // Llama 3's template trims what was said, and leaves it out where there is a call.
      const calls = turn.toolCalls ?? [];
      const text = name !== "llama3" ? turn.content : calls.length > 0 ? "" : pythonTrim(turn.content);
      const ids = cut([
        template.renderPrompt(before, tools),
        template.renderAssistant({ text, calls }),
        template.renderAppended(after),
      ]);
      const whole = [...template.renderPrompt([...before, turn, ...after], tools)];
      expect(tokenizer.decode(ids)).toBe(tokenizer.decode(whole));
      // What starts with white space could share a token with what opens the turn.
      if (/^\S/.test(text)) {
        expect(ids).toEqual(whole);
        compared++;
      }
    }
    expect(compared).toBeGreaterThan(80);
  });
});

describe("thinking", () => {
  const { tokenizer: json, config } = golden.families.qwen3!;
  const tokenizer = new Tokenizer(json, config);
  const source = config.chat_template as string;
  const template = new ChatTemplate(tokenizer, source);
  const question: Message = { role: "user", content: "How many?" };
  const calls = [{ id: "0", name: "count", arguments: { what: "é" } }];
  const turn: Message = { role: "assistant", content: "Wait.", thinking: "Let me\n\ncount.", toolCalls: calls };
  const answer: Message = { role: "tool", content: "3", toolCallId: "0", name: "count" };
  const action = { text: "Wait.", thinking: "Let me\n\ncount.", calls };

  test("a turn with thinking is what the template writes for it", () => {
    const ids = [...template.renderPrompt([question]), ...template.renderAssistant(action)];
    const all = [...ids, ...template.renderAppended([answer])];
    expect(tokenizer.decode(all)).toBe(template.promptText([question, turn, answer]));
    expect(template.parseTurn(tokenizer.decode(template.renderAssistant(action).subarray(0, -1)), [])).toEqual({
      action,
      parseFailure: false,
    });
  });

  test("the record keeps the thinking of old turns, which the template leaves out", () => {
    const next: Message = { role: "user", content: "Sure?" };
    const all = [
      ...template.renderPrompt([question]),
      ...template.renderAssistant({ text: "3", thinking: "Hm.", calls: [] }),
      ...template.renderAppended([next]),
    ];
    const written = template.promptText([question, { role: "assistant", content: "3", thinking: "Hm." }, next]);
    expect(written).not.toContain("Hm.");
    expect(tokenizer.decode(all).replace("<think>\nHm.\n</think>\n\n", "")).toBe(written);
  });

  test("template variables: thinking switched off", () => {
    const off = new ChatTemplate(tokenizer, source, "t", { templateVariables: { enable_thinking: false } });
    expect(off.promptText([question])).toBe(`${template.promptText([question])}<think>\n\n</think>\n\n`);
    const wrong = { templateVariables: { enable_thinkin: true } };
    expect(() => new ChatTemplate(tokenizer, source, "t", wrong)).toThrow(/enable_thinkin has no effect/);
    expect(() => new ChatTemplate(tokenizer, source, "t", { templateVariables: { tools: true } })).toThrow(
      /tools cannot be set/,
    );
  });

  test("a template that opens the thinking block itself", () => {
    const opens = source.replace(
      "{{- '<|im_start|>assistant\\n' }}\n    {%- if enable",
      "{{- '<|im_start|>assistant\\n<think>\\n' }}\n    {%- if enable",
    );
    expect(opens).not.toBe(source);
    const opening = new ChatTemplate(tokenizer, opens);
    expect(opening.parseTurn("Hm.\n</think>\n\n3", [])).toEqual({
      action: { text: "3", calls: [], thinking: "Hm." },
      parseFailure: false,
    });
    const all = [...opening.renderPrompt([question]), ...opening.renderAssistant(action)];
    expect(tokenizer.decode(all)).toBe(
      tokenizer.decode([...template.renderPrompt([question]), ...template.renderAssistant(action)]),
    );
  });
});

describe("dates and tools", () => {
  const family = (name: string, settings = {}) => {
    const { tokenizer, config } = golden.families[name]!;
    return new ChatTemplate(new Tokenizer(tokenizer, config), config.chat_template as string, "t", settings);
  };
  const question: Message = { role: "user", content: "Hi" };
  const tool: ToolSpec = { name: "count", description: "Counts.", parameters: z.object({ what: z.string() }) };

  test("a prompt has the same date on every day, or the one that is set", () => {
    expect(family("llama3").promptText([question])).toContain("Today Date: 26 Jul 2024");
    const set = family("llama3", { templateVariables: { date_string: "1 Jan 2027" } });
    expect(set.promptText([question])).toContain("Today Date: 1 Jan 2027");
  });

  test("formats are told from the templates", () => {
    expect(names.map((name) => family(name).toolFormat.name)).toEqual(["hermes", "hermes", "hermes", "llama3"]);
    expect(family("llama3", { toolFormat: "json" }).toolFormat.name).toBe("json");
  });

  test("a template that shows no tools gets them in the system message, and calls as text", () => {
    const template = family("smollm2");
    const text = template.promptText([{ role: "system", content: "Be short." }, question], [tool]);
    expect(text).toContain('Be short.\n\nYou have these tools:\n{"type": "function", "function": {"name": "count"');
    expect(text).toContain("<tool_call>");
    const call = { id: "0", name: "count", arguments: {} };
    expect(template.promptText([question, { role: "assistant", content: "", toolCalls: [call] }])).toContain(
      'assistant\n<tool_call>\n{"name": "count", "arguments": {}}\n</tool_call><|im_end|>',
    );
  });

  test("marks that are control tokens are read, and are no part of the text", () => {
    const { tokenizer: json, config } = golden.families.llama3!;
    const tokenizer = new Tokenizer(json, config);
    const template = family("llama3");
    const action = { text: "I look.", calls: [{ id: "0", name: "count", arguments: { what: "<|python_tag|>" } }] };
    const ids = template.renderAssistant(action);
    const tag = tokenizer.tokenId("<|python_tag|>")!;
    expect([...ids].filter((id) => id === tag)).toHaveLength(1);
    expect(template.parseTurn(tokenizer.decode(ids.subarray(0, -1)), [tool])).toEqual({ action, parseFailure: false });
  });
});

describe.each(names)("the models' own: %s", (name) => {
  const folder = path.join(realFolder ?? "", name);
  const missing = realFolder === undefined || !existsSync(folder);
  test.skipIf(missing)(
    `1,000 conversations${missing ? " (AGENTRL_FAMILIES names no folder of them)" : ""}`,
    () => {
      const tokenizer = Tokenizer.load(folder);
      expect(differing(name, tokenizer, ChatTemplate.load(folder, tokenizer), golden.real[name]!)).toEqual([]);
    },
    120_000,
  );
});
