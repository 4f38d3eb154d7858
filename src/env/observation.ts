/** What a user's environment says, before anything else sees it: text, and no more of it than a context could hold. */
import { inspect } from "node:util";
import { AgentRLError } from "../errors.ts";
import type { Message } from "./environment.ts";

/** Characters of one message; the longest contexts of open models hold fewer. */
export const longestObservation = 1_000_000;

/**
 * The text of an observation, its end cut off and said so where it is longer than `longestObservation`.
 * @param where What gave it, as "tool guess".
 * @throws AgentRLError ENVIRONMENT for what is no text.
 */
export function observation(content: unknown, where: string): string {
  if (typeof content !== "string") {
    throw new AgentRLError("ENVIRONMENT", "The environment said something that is no text", {
      where,
      got: inspect(content, { depth: 0 }),
      expected: "a string, or { content: string }",
      hint: "correct what it returns",
    });
  }
  if (content.length <= longestObservation) return content;
  const more = content.length - longestObservation;
  return `${content.slice(0, longestObservation)}\n[${more} more characters are not shown]`;
}

/** The first messages of an episode. @throws AgentRLError ENVIRONMENT for what are none. */
export function firstMessages(messages: unknown, where: string): Message[] {
  const roles = ["system", "user", "assistant", "tool"];
  if (!Array.isArray(messages) || messages.some((message) => !roles.includes(message?.role))) {
    throw new AgentRLError("ENVIRONMENT", "The environment began an episode without messages", {
      where,
      got: inspect(messages, { depth: 1 }),
      expected: "messages: [{ role: user, content: a string }]",
      hint: "correct what `start` returns",
    });
  }
  return messages.map((message: Message) => ({ ...message, content: observation(message.content, where) }));
}
