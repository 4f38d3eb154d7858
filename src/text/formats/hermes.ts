/**
 * `hermes`: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several in a turn, text around them. What Hermes,
 * Qwen 2.5, Qwen 3 and this project's tiny model write.
 * - A block reaches from `<tool_call>` to the next `</tool_call>`, or to the end of the turn if its JSON is complete.
 * - A tag without its partner, or a turn that is bare JSON, is an attempt that failed.
 */
import type { Action } from "../../env/environment.ts";
import { type Grammar, heldMark, isJsonLike, type TextPiece, type ToolFormat } from "./format.ts";
import { formatJson, toCall, tryJson } from "./json-text.ts";

const callStart = "<tool_call>";
const callEnd = "</tool_call>";

/** `compact` has nothing around the JSON; `lines` puts tags and JSON on lines of their own, as Hermes and Qwen do. */
export type CallStyle = "compact" | "lines";

export const tagGrammar: Pick<Grammar, "open" | "held" | "closers"> = {
  open(turn, from) {
    const start = turn.indexOf(callStart, from);
    return start < 0 ? undefined : { start, content: start + callStart.length };
  },
  held: (text) => heldMark(text, callStart),
  closers: />/,
};

export function hermes(style: CallStyle): ToolFormat {
  return {
    name: "hermes",
    instructions:
      'To call a tool, write a JSON object with its name and arguments between tags: <tool_call>\n{"name": "tool", "arguments": {"argument": "value"}}\n</tool_call>',
    grammar: () => ({
      ...tagGrammar,
      lineFeeds: 1,
      read(turn, content, final) {
        const found = turn.indexOf(callEnd, content);
        if (found < 0 && !final) return undefined;
        const end = found < 0 ? turn.length : found;
        const call = toCall(tryJson(turn.slice(content, end)), "arguments");
        return { calls: call && [call], end: found < 0 ? end : end + callEnd.length };
      },
      attempted: (text, calls) =>
        text.includes("<tool_call") || text.includes(callEnd) || (calls === 0 && isJsonLike(text)),
    }),
    pieces: (action) => hermesPieces(action, style),
  };
}

/**
 * Markers inside the JSON are escaped, so any arguments are safe; text that itself holds a well-formed block would be
 * read as a call.
 */
function hermesPieces({ text, calls }: Action, style: CallStyle): TextPiece[] {
  const pieces: TextPiece[] = [{ text, markup: false }];
  const inner = style === "lines" ? "\n" : "";
  calls.forEach((call, index) => {
    // The parser takes one line feed before a block: text that ends in one gets another to lose.
    const outer = index > 0 ? inner : text.endsWith("\n") ? "\n" : text === "" ? "" : inner;
    const json = `{"name": ${formatJson(call.name)}, "arguments": ${formatJson(call.arguments)}}`;
    pieces.push({ text: outer, markup: false });
    pieces.push({ text: callStart, markup: true });
    // "<\/tool_call>" is the same JSON string.
    pieces.push({ text: inner + json.replaceAll(callEnd, "<\\/tool_call>") + inner, markup: false });
    pieces.push({ text: callEnd, markup: true });
  });
  return pieces;
}
