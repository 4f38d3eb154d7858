/** The messages of an episode within a number of bytes: the longest texts are cut, then the last messages left out. */
import type { Message } from "../env/environment.ts";

/** Characters that are left of a text at least. */
const leastText = 64;

/** @param maxBytes of the messages as JSON. */
export function fitMessages(messages: readonly Message[], maxBytes: number): Message[] {
  let fitting = [...messages];
  for (let most = maxBytes; sizeOf(fitting) > maxBytes && most >= leastText; most = Math.floor(most / 2)) {
    fitting = messages.map((message) => shorten(message, most));
  }
  while (sizeOf(fitting) > maxBytes) fitting.pop();
  return fitting;
}

function shorten(message: Message, most: number): Message {
  const { content, thinking } = message;
  return { ...message, content: cut(content, most), ...(thinking !== undefined && { thinking: cut(thinking, most) }) };
}

function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most)}… (${text.length - most} characters more)`;
}

function sizeOf(messages: readonly Message[]): number {
  return Buffer.byteLength(JSON.stringify(messages));
}
