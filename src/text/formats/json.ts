/**
 * `json`: an object `{"name": ..., "arguments": {...}}` or a list of them, as the whole turn or in a fenced block
 * (three backticks and `json` on a line) with text around it. For models that were taught no format of their own.
 * - `parameters` is read as `arguments`.
 * - After a call outside a fence only white space may follow.
 * - Any other JSON that is a whole turn, or stands in such a fence, is an attempt that failed.
 */
import type { Action } from "../../env/environment.ts";
import { type Grammar, heldMark, type TextPiece, type ToolFormat } from "./format.ts";
import { formatJson, jsonEnd, toCalls, tryJson } from "./json-text.ts";

const fence = "```json\n";
const fenceEnd = "\n```";
const keys = ["arguments", "parameters"];

const grammar: Grammar = {
  lineFeeds: 1,
  open(turn, from, { speaks, calls }) {
    if (!speaks && calls === 0) {
      const first = turn.slice(from).search(/\S/);
      if (first >= 0 && "{[".includes(turn[from + first]!)) return { start: from, content: from + first };
    }
    for (let at = turn.indexOf(fence, from); at >= 0; at = turn.indexOf(fence, at + 1)) {
      if (at === 0 || turn[at - 1] === "\n") return { start: at, content: at + fence.length };
    }
    return undefined;
  },
  held: (text, { speaks, calls }) =>
    !speaks && calls === 0 && text.trim() === "" ? text.length : heldMark(text, fence),
  closers: /[}\]`]/,
  read(turn, content, final) {
    if (turn.startsWith(fence, content - fence.length)) {
      // The line feed that ends the opening line may be the one before the closing fence.
      const found = turn.indexOf(fenceEnd, content - 1);
      if (found < 0 && !final) return undefined;
      const json = turn.slice(content, found < 0 ? turn.length : found);
      return { calls: toCalls(tryJson(json), ...keys), end: found < 0 ? turn.length : found + fenceEnd.length };
    }
    const end = jsonEnd(turn, content);
    if (end < 0) return final ? { calls: undefined, end: turn.length } : undefined;
    return { calls: toCalls(tryJson(turn.slice(content, end)), ...keys), end, last: true };
  },
  attempted: (text) => /```json/.test(text) || /\{\s*"name"\s*:/.test(text),
};

export const json: ToolFormat = {
  name: "json",
  instructions:
    'To call a tool, answer with nothing but a JSON object of its name and arguments: {"name": "tool", "arguments": {"argument": "value"}}, or with a list of such objects.',
  grammar: () => grammar,
  pieces({ text, calls }: Action): TextPiece[] {
    if (calls.length === 0) return [{ text, markup: false }];
    const objects = calls.map((call) => ({ name: call.name, arguments: call.arguments }));
    const written = formatJson(objects.length === 1 ? objects[0] : objects);
    // The parser takes one line feed before the fence.
    return [{ text: text === "" ? written : `${text}\n${fence}${written}${fenceEnd}`, markup: false }];
  },
};
