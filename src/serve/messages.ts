/**
 * Messages as OpenAI's API writes them, made into what the chat template is given while training: calls numbered within
 * their turn, a tool's answer with the name of its tool. A template that prints either gives the same prompt here and there.
 */
import type { Message, ToolCall } from "../env/environment.ts";
import { refused } from "./api-error.ts";
import type { WireMessage } from "./request-schema.ts";

/** @throws ApiError 400 for an answer to a call that was not made. */
export function toMessages(messages: readonly WireMessage[]): Message[] {
  /** By the client's id, the newest of that id. */
  const calls = new Map<string, ToolCall>();
  return messages.map((message, at): Message => {
    const content = textOf(message.content);
    const named = message.name === undefined ? {} : { name: message.name };
    if (message.role === "tool") {
      const call = calls.get(message.tool_call_id);
      if (call === undefined) {
        throw refused(`messages.${at}.tool_call_id`, "no earlier message calls a tool with this id", "invalid_value");
      }
      return { role: "tool", content, toolCallId: call.id, name: call.name };
    }
    if (message.role !== "assistant") {
      const role = message.role === "developer" ? "system" : message.role;
      return { role, content, ...named };
    }
    const { reasoning_content: thinking, tool_calls } = message;
    const toolCalls = (tool_calls ?? []).map(({ id, function: { name, arguments: written } }, number) => {
      const call: ToolCall = { id: String(number), name, arguments: argumentsOf(written) };
      calls.set(id, call);
      return call;
    });
    return {
      role: "assistant",
      content,
      ...named,
      ...(thinking != null && { thinking }),
      ...(toolCalls.length > 0 && { toolCalls }),
    };
  });
}

function textOf(content: WireMessage["content"]): string {
  if (content == null) return "";
  return typeof content === "string" ? content : content.map(({ text }) => text).join("\n");
}

/** What is no JSON object stays the text it is: it was said so, and answered. */
function argumentsOf(written: string): Record<string, unknown> {
  if (written.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(written);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Not JSON at all.
  }
  return written as unknown as Record<string, unknown>;
}
