/**
 * Tool calls as text, in the `hermes` format: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several in a
 * turn, text around them. One parser serves training, evaluation and serving (whole or in pieces): a second one would
 * sooner or later score the policy by another format than the one it was trained in.
 */
import type { Action, ToolCall } from "../env/environment.ts";

export const callStart = "<tool_call>";
export const callEnd = "</tool_call>";

export interface ParsedTurn {
  action: Action;
  /** The turn tried to call a tool and is not well formed. Then `action` is the whole turn as text, without calls. */
  parseFailure: boolean;
}

/** What ToolCallParser.push() releases: text as it comes, a call once it is complete. */
export type ParserEvent = { type: "text"; text: string } | { type: "call"; call: ToolCall };

/**
 * Parses one turn, without its end-of-turn token. Never throws. Rules:
 * - A block reaches from `<tool_call>` to the next `</tool_call>`, or to the end of the turn if its JSON is complete;
 *   it holds {"name": non-empty string, "arguments": object}. Calls are numbered: ids "0", "1", ...
 * - The text is what is outside the blocks: one line feed before a block belongs to the block, and so does white space
 *   alone between or after blocks.
 * - A malformed block, a tag without its partner, or a turn that is bare JSON is a parse failure, and makes the whole
 *   turn text: half of what the policy asked for is not executed.
 */
export function parseAction(turn: string): ParsedTurn {
  const parser = new ToolCallParser();
  parser.push(turn);
  return parser.end();
}

/** The parser, fed in pieces: same result for every way of cutting the turn up. */
export class ToolCallParser {
  #turn = "";
  /** Where the part not yet released starts: outside a block its text, inside one the block's content. */
  #at = 0;
  #inBlock = false;
  /** The text since the last block is more than white space. */
  #speaks = false;
  #text = "";
  readonly #calls: ToolCall[] = [];
  #failed = false;

  /** Events that this piece completes. After a failure none come: what the turn was is known only at its end. */
  push(piece: string): ParserEvent[] {
    this.#turn += piece;
    const events: ParserEvent[] = [];
    while (!this.#failed) {
      const tag = this.#inBlock ? callEnd : callStart;
      const found = this.#turn.indexOf(tag, this.#at);
      if (found < 0) break;
      if (this.#inBlock) this.#closeBlock(this.#turn.slice(this.#at, found), events);
      else this.#addText(this.#turn.slice(this.#at, found).replace(/\n$/, ""), events);
      this.#at = found + tag.length;
      this.#inBlock = !this.#inBlock;
    }
    if (!this.#failed && !this.#inBlock) {
      const safe = this.#turn.length - heldBack(this.#turn.slice(this.#at));
      const text = this.#turn.slice(this.#at, safe);
      if (!this.#isGap(text)) {
        this.#addText(text, events);
        this.#at = safe;
      }
    }
    return events;
  }

  end(): ParsedTurn {
    const rest = this.#turn.slice(this.#at);
    if (this.#inBlock) this.#closeBlock(rest, []);
    else this.#addText(rest, []);
    const text = this.#text;
    const attempted =
      text.includes("<tool_call") || text.includes(callEnd) || (!this.#calls.length && isJsonLike(text));
    if (this.#failed || attempted) return { action: { text: this.#turn, calls: [] }, parseFailure: true };
    return { action: { text, calls: this.#calls }, parseFailure: false };
  }

  /** White space between or after blocks, so far. */
  #isGap(text: string): boolean {
    return this.#calls.length > 0 && !this.#speaks && text.trim() === "";
  }

  #addText(text: string, events: ParserEvent[]): void {
    if (text === "" || this.#isGap(text)) return;
    this.#speaks = true;
    this.#text += text;
    events.push({ type: "text", text });
  }

  #closeBlock(json: string, events: ParserEvent[]): void {
    const call = parseCall(json, String(this.#calls.length));
    if (call === undefined) {
      this.#failed = true;
      return;
    }
    this.#calls.push(call);
    this.#speaks = false;
    events.push({ type: "call", call });
  }
}

/**
 * The turn that `parseAction` reads as `action`. `compact` has nothing around the JSON; `lines` puts tags and JSON on
 * lines of their own, as the templates of Hermes and Qwen do. Markers inside the JSON are escaped, so any arguments
 * are safe; text that itself holds a well-formed block would be read as a call.
 */
export function formatAction(action: Action, style: CallStyle = "compact"): string {
  return formatPieces(action, style)
    .map(({ text }) => text)
    .join("");
}

export type CallStyle = "compact" | "lines";

/** `markup` pieces are the format's own and may become special tokens; the others are content. */
export interface TextPiece {
  text: string;
  markup: boolean;
}

/** formatAction's text in pieces, for an encoder that keeps content from forming special tokens. */
export function formatPieces(action: Action, style: CallStyle = "compact"): TextPiece[] {
  const { text, calls } = action;
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
  return pieces.filter((piece) => piece.text !== "");
}

/** JSON with `, ` and `: ` between items: what Python's json.dumps, and so the chat templates' `tojson`, writes. */
export function formatJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(formatJson).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    const items = Object.entries(value).filter(([, item]) => item !== undefined);
    return `{${items.map(([key, item]) => `${JSON.stringify(key)}: ${formatJson(item)}`).join(", ")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

/** How many characters at the end of `text` may still become part of a tag, with the line feed that goes with it. */
function heldBack(text: string): number {
  let held = 0;
  for (let length = Math.min(callStart.length - 1, text.length); length > 0 && held === 0; length--) {
    if (callStart.startsWith(text.slice(text.length - length))) held = length;
  }
  return text[text.length - held - 1] === "\n" ? held + 1 : held;
}

function isJsonLike(text: string): boolean {
  return text.trimStart().startsWith("{");
}

function parseCall(json: string, id: string): ToolCall | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  if (!isRecord(value)) return undefined;
  const { name, arguments: args } = value;
  if (typeof name !== "string" || name === "" || !isRecord(args)) return undefined;
  return { id, name, arguments: args };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
