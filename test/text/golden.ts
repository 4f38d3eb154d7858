/** test/golden/tokenizers.json, written by test/golden/make-tokenizers.py. */
import { readFileSync } from "node:fs";
import path from "node:path";
import type { Message } from "../../src/env/environment.ts";
import { type Json, Tokenizer } from "../../src/text/tokenizer.ts";

interface Recorded {
  tokenizer: Json;
  template: string;
  eos: string;
  content: number[][];
  markup: number[][];
  decoded: [number[], string][];
  prompts: number[][];
}

interface TemplateMessage {
  role: Message["role"];
  content: string;
  tool_calls?: { id: string; function: { name: string; arguments: Record<string, unknown> } }[];
  tool_call_id?: string;
  name?: string;
}

export const golden = JSON.parse(readFileSync(path.join(import.meta.dirname, "../golden/tokenizers.json"), "utf8")) as {
  corpus: string[];
  texts: string[];
  conversations: { tools: boolean; messages: TemplateMessage[] }[];
  tiny: Recorded;
  chatml: Recorded;
};

export type Family = "tiny" | "chatml";
export const families: Family[] = ["tiny", "chatml"];

export function goldenTokenizer(family: Family): Tokenizer {
  return new Tokenizer(golden[family].tokenizer, { eos_token: golden[family].eos });
}

export function toMessage({ role, content, tool_calls, tool_call_id, name }: TemplateMessage): Message {
  return {
    role,
    content,
    ...(tool_calls === undefined ? {} : { toolCalls: tool_calls.map(({ id, function: f }) => ({ id, ...f })) }),
    ...(tool_call_id === undefined ? {} : { toolCallId: tool_call_id }),
    ...(name === undefined ? {} : { name }),
  };
}
