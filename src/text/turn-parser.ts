/**
 * Reads a turn, without its end-of-turn token, whole or as it is sampled: thinking, text and tool calls. One parser serves
 * training, evaluation and serving: a second one would sooner or later score the policy by another format than the one it
 * was trained in. Never throws; every way of cutting a turn into pieces gives the same result.
 */
import type { Action, ToolCall, ToolSpec } from "../env/environment.ts";
import { type Grammar, heldMark, type ToolFormat } from "./formats/format.ts";

export interface ParsedTurn {
  action: Action;
  /**
   * The turn tried to call a tool and is not well formed, or ended inside a thinking block. Then `action` is all of it
   * but the thinking as text, without calls: half of what the policy asked for is not executed.
   */
  parseFailure: boolean;
}

/** What push() releases: thinking and text as they come, a call once it is complete. */
export type ParserEvent =
  | { type: "thinking"; text: string }
  | { type: "text"; text: string }
  | { type: "call"; call: ToolCall };

export const thinkStart = "<think>";
export const thinkEnd = "</think>";
/** Line feeds after a thinking block that belong to it, at most: what Qwen 3's template writes. */
export const thinkGap = 2;

/**
 * Thinking:
 * - A block reaches from `<think>`, anywhere outside a call, to the next `</think>`. What is inside is never a call.
 * - One line feed beside each tag inside belongs to the block, and so do two after it and white space before it at the
 *   turn's start. Several blocks are joined by an empty line.
 * - A block that is not closed is a parse failure: the policy neither said nor did what it was thinking about.
 */
export class TurnParser {
  readonly #calls: CallParser;
  /** Not yet given on. */
  #pending = "";
  #inThinking: boolean;
  /** Line feeds that may still be skipped at the start of `#pending`. */
  #skip = 0;
  #thinking: string | undefined;
  /** Anything but white space was given to `#calls`. */
  #visible = false;

  /** `inThinking`: the chat template has opened a thinking block for the turn. */
  constructor(format: Pick<ToolFormat, "grammar">, tools: readonly ToolSpec[] = [], inThinking = false) {
    this.#calls = new CallParser(format.grammar(tools));
    this.#inThinking = inThinking;
    if (inThinking) this.#thinking = "";
  }

  /** Events that this piece completes. After a failure no calls come: what the turn was is known only at its end. */
  push(piece: string): ParserEvent[] {
    this.#pending += piece;
    const events: ParserEvent[] = [];
    while (this.#advance(events));
    return events;
  }

  end(): ParsedTurn {
    if (this.#inThinking) this.#think(this.#pending, []);
    else this.#calls.push(this.#pending);
    const { text, calls, failed } = this.#calls.end(this.#inThinking);
    const action: Action = { text, calls };
    if (this.#thinking !== undefined) action.thinking = this.#thinking;
    return { action, parseFailure: failed };
  }

  /** Deals with the pending text up to the next tag. Whether there was one. */
  #advance(events: ParserEvent[]): boolean {
    while (this.#skip > 0 && this.#pending !== "") {
      if (this.#pending[0] !== "\n") this.#skip = 0;
      else {
        this.#pending = this.#pending.slice(1);
        this.#skip--;
      }
    }
    const tag = this.#inThinking ? thinkEnd : thinkStart;
    const found = this.#pending.indexOf(tag);
    const until = found >= 0 ? found : this.#pending.length - this.#held(tag);
    const before = this.#pending.slice(0, until);
    if (this.#inThinking) this.#think(found < 0 ? before : before.replace(/\n$/, ""), events);
    else if (found < 0 || this.#visible || before.trim() !== "") {
      this.#visible ||= before.trim() !== "";
      events.push(...this.#calls.push(before));
    }
    this.#pending = this.#pending.slice(until);
    if (found < 0) return false;
    if (!this.#inThinking && this.#calls.inCall) {
      events.push(...this.#calls.push(tag));
      this.#pending = this.#pending.slice(tag.length);
      return true;
    }
    this.#pending = this.#pending.slice(tag.length);
    this.#inThinking = !this.#inThinking;
    this.#skip = this.#inThinking ? 1 : thinkGap;
    if (this.#inThinking) {
      if (this.#thinking === undefined) this.#thinking = "";
      else this.#think("\n\n", events);
    }
    return true;
  }

  /** How much of the pending text's end cannot be given on yet. */
  #held(tag: string): number {
    if (!this.#inThinking && !this.#visible && this.#pending.trim() === "") return this.#pending.length;
    const held = heldMark(this.#pending, tag);
    if (!this.#inThinking) {
      const rest = this.#pending.slice(0, this.#pending.length - held);
      return this.#visible || rest.trim() !== "" ? held : this.#pending.length;
    }
    return this.#pending[this.#pending.length - held - 1] === "\n" ? held + 1 : held;
  }

  #think(text: string, events: ParserEvent[]): void {
    if (text === "") return;
    this.#thinking += text;
    events.push({ type: "thinking", text });
  }
}

/**
 * Text and calls of the part of a turn that is not thinking. The text is what is outside the blocks; line feeds before a
 * block belong to it as its grammar says, and so does white space alone between or after blocks. Calls are numbered: ids
 * "0", "1", ...
 */
class CallParser {
  readonly #grammar: Grammar;
  #turn = "";
  /** Where the part not yet released starts: outside a block its text, inside one the block's content. */
  #at = 0;
  #inBlock = false;
  /** The text since the last block is more than white space. */
  #speaks = false;
  /** Text may not follow any more. */
  #closed = false;
  #text = "";
  readonly #calls: ToolCall[] = [];
  #failed = false;

  constructor(grammar: Grammar) {
    this.#grammar = grammar;
  }

  /** Whether what comes next belongs to a call, or to one that is malformed: no thinking starts there. */
  get inCall(): boolean {
    return this.#inBlock || this.#failed;
  }

  push(piece: string): ParserEvent[] {
    this.#turn += piece;
    const events: ParserEvent[] = [];
    if (this.#inBlock && !this.#grammar.closers.test(piece)) return events;
    while (!this.#failed && (this.#inBlock ? this.#readBlock(false, events) : this.#openBlock(events)));
    if (!this.#failed && !this.#inBlock) this.#releaseText(events);
    return events;
  }

  end(failed: boolean): { text: string; calls: ToolCall[]; failed: boolean } {
    if (!this.#failed && this.#inBlock) this.#readBlock(true, []);
    if (!this.#failed && !this.#inBlock) this.#addText(this.#turn.slice(this.#at), []);
    const text = this.#text;
    if (failed || this.#failed || this.#grammar.attempted(text, this.#calls.length)) {
      return { text: this.#turn, calls: [], failed: true };
    }
    return { text, calls: this.#calls, failed: false };
  }

  #position() {
    return { speaks: this.#speaks, calls: this.#calls.length };
  }

  #openBlock(events: ParserEvent[]): boolean {
    const opening = this.#grammar.open(this.#turn, this.#at, this.#position());
    if (opening === undefined) return false;
    let end = opening.start;
    for (let fed = 0; fed < this.#grammar.lineFeeds && end > this.#at && this.#turn[end - 1] === "\n"; fed++) end--;
    this.#addText(this.#turn.slice(this.#at, end), events);
    this.#at = opening.content;
    this.#inBlock = true;
    return true;
  }

  #readBlock(final: boolean, events: ParserEvent[]): boolean {
    const block = this.#grammar.read(this.#turn, this.#at, final);
    if (block === undefined) return false;
    if (block.calls === undefined) {
      this.#failed = true;
      return false;
    }
    for (const content of block.calls) {
      const call = { id: String(this.#calls.length), ...content };
      this.#calls.push(call);
      events.push({ type: "call", call });
    }
    this.#at = block.end;
    this.#inBlock = false;
    this.#speaks = false;
    this.#closed = block.last ?? false;
    return true;
  }

  #releaseText(events: ParserEvent[]): void {
    const rest = this.#turn.slice(this.#at);
    let safe = rest.length - this.#grammar.held(rest, this.#position());
    for (let fed = 0; fed < this.#grammar.lineFeeds && rest[safe - 1] === "\n"; fed++) safe--;
    const text = rest.slice(0, safe);
    if (this.#isGap(text)) return;
    this.#addText(text, events);
    this.#at += safe;
  }

  /** White space between or after blocks, so far. */
  #isGap(text: string): boolean {
    return this.#calls.length > 0 && !this.#speaks && text.trim() === "";
  }

  #addText(text: string, events: ParserEvent[]): void {
    if (text === "" || this.#isGap(text)) return;
    if (this.#closed) {
      this.#failed = true;
      return;
    }
    this.#speaks ||= text.trim() !== "";
    this.#text += text;
    events.push({ type: "text", text });
  }
}
