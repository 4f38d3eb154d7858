/**
 * `llama3`: `{"name": ..., "parameters": {...}}`, the whole turn or what follows `<|python_tag|>`; several calls are
 * separated by `;`. What Llama 3.1, 3.2 and 3.3 write.
 * - Without the tag the turn must start with the call: JSON later in a text is an attempt that failed.
 * - Only white space and further calls may follow a call.
 * - `arguments` is read as `parameters`: smaller models mix them up.
 */
import type { Action } from "../../env/environment.ts";
import { type Grammar, heldMark, type TextPiece, type ToolFormat } from "./format.ts";
import { formatJson, jsonEnd, toCall, tryJson } from "./json-text.ts";

const pythonTag = "<|python_tag|>";
/** Between two calls. */
const separator = /\s*;/y;
const bareCall = /\{\s*"name"\s*:/;

const grammar: Grammar = {
  lineFeeds: 1,
  open(turn, from, { speaks, calls }) {
    const tag = turn.indexOf(pythonTag, from);
    const tagged = tag < 0 ? undefined : { start: tag, content: tag + pythonTag.length };
    if (calls > 0) {
      separator.lastIndex = from;
      if (separator.test(turn)) return { start: from, content: separator.lastIndex };
      return tagged;
    }
    const first = turn.slice(from).search(/\S/);
    if (!speaks && first >= 0 && turn[from + first] === "{") return { start: from, content: from + first };
    return tagged;
  },
  held: (text, { speaks, calls }) =>
    !speaks && calls === 0 && text.trim() === "" ? text.length : heldMark(text, pythonTag),
  closers: /\}/,
  read(turn, content, final) {
    const start = content + turn.slice(content).search(/\S|$/);
    const end = turn[start] === "{" ? jsonEnd(turn, start) : -1;
    // Anything but an object is known to be malformed at once.
    if (end < 0)
      return final || (start < turn.length && turn[start] !== "{") ? { calls: undefined, end: turn.length } : undefined;
    const call = toCall(tryJson(turn.slice(start, end)), "parameters", "arguments");
    return { calls: call && [call], end, last: true };
  },
  attempted: (text) => bareCall.test(text) || text.includes("<|python_tag"),
};

export const llama3: ToolFormat = {
  name: "llama3",
  instructions:
    'To call a tool, answer with nothing but a JSON object of its name and parameters: {"name": "tool", "parameters": {"parameter": "value"}}',
  grammar: () => grammar,
  pieces({ text, calls }: Action): TextPiece[] {
    const pieces: TextPiece[] = [{ text, markup: false }];
    calls.forEach((call, index) => {
      if (index > 0) pieces.push({ text: "; ", markup: false });
      else if (text !== "") {
        // The parser takes one line feed before the tag.
        if (text.endsWith("\n")) pieces.push({ text: "\n", markup: false });
        pieces.push({ text: pythonTag, markup: true });
      }
      const json = `{"name": ${formatJson(call.name)}, "parameters": ${formatJson(call.arguments)}}`;
      pieces.push({ text: json, markup: false });
    });
    return pieces;
  },
};
