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
import fc from "fast-check";
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
function differing(family: string, template: ChatTemplate, hashes: readonly string[]): string[] {
  const found: string[] = [];
  golden.conversations.forEach((conversation, index) => {
    const { messages, tools } = shown(family, conversation);
    const ids = template.renderPrompt(messages, tools);
    const got = shortHash(template.promptText(messages, tools)) + shortHash(new Uint8Array(Uint32Array.from(ids).buffer));
    if (got !== hashes[index]) {
      const text = got.slice(0, 6) === hashes[index]!.slice(0, 6);
      found.push(`${index}: ${text ? "ids" : "text"} ${template.promptText(messages, tools)}`);
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
    expect(differing(name, template, hashes)).toEqual([]);
  });
});

describe.each(names)("the models' own: %s", (name) => {
  const folder = path.join(realFolder ?? "", name);
  const missing = realFolder === undefined || !existsSync(folder);
  test.skipIf(missing)(`1,000 conversations${missing ? " (AGENTRL_FAMILIES names no folder of them)" : ""}`, () => {
    expect(differing(name, ChatTemplate.load(folder, Tokenizer.load(folder)), golden.real[name]!)).toEqual([]);
  }, 120_000);
});
