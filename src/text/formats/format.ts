/**
 * What a tool-call format is: how calls are written in a turn, and how they are read from it. A format knows nothing of
 * thinking blocks and of control tokens that end a turn; see turn-parser.ts for the whole turn.
 */
import type { Action, ToolCall, ToolSpec } from "../../env/environment.ts";

export const toolFormatNames = ["hermes", "qwen3-coder", "llama3", "json"] as const;
export type ToolFormatName = (typeof toolFormatNames)[number];

export interface ToolFormat {
  readonly name: ToolFormatName;
  /** Tells the policy how to call: for models whose chat template shows no tools. */
  readonly instructions: string;
  /** `tools`: for formats that write values without their type. */
  grammar(tools: readonly ToolSpec[]): Grammar;
  /**
   * The text that the grammar reads as `action`'s text and calls. `markup` pieces are the format's own and may become
   * special tokens; the others are content.
   */
  pieces(action: Action): TextPiece[];
}

export interface TextPiece {
  text: string;
  markup: boolean;
}

/** A call before it has its id. */
export type CallContent = Omit<ToolCall, "id">;

/** Where a parser stands when it looks for a block. */
export interface Position {
  /** Text other than white space since the turn's start, or since the last block. */
  speaks: boolean;
  /** Calls so far. */
  calls: number;
}

/** Where blocks of calls start and end in a turn's text. A parser asks it again as the text grows. */
export interface Grammar {
  /** Line feeds before a block that belong to it, at most. */
  readonly lineFeeds: number;
  /** The next block's opening at or after `from`: where it starts, and where its content does. */
  open(turn: string, from: number, position: Position): { start: number; content: number } | undefined;
  /** How many characters at the end of `text`, which holds no opening, may still become part of one. */
  held(text: string, position: Position): number;
  /** A block cannot be complete before a piece with one of these characters. */
  readonly closers: RegExp;
  /**
   * Reads the block whose content starts at `content`; undefined while it is incomplete. `final`: nothing follows, and
   * what is complete but for its closing mark counts. Without `calls` it is malformed.
   */
  read(turn: string, content: number, final: boolean): Block | undefined;
  /** Whether text outside the blocks shows that the policy tried to call. */
  attempted(text: string, calls: number): boolean;
}

export interface Block {
  calls: CallContent[] | undefined;
  end: number;
  /** Only another block may follow, no text. */
  last?: boolean;
}

/** How many characters at the end of `text` are the beginning of one of the marks, without the whole of it. */
export function heldMark(text: string, ...marks: string[]): number {
  const longest = Math.max(...marks.map((mark) => mark.length - 1));
  for (let length = Math.min(longest, text.length); length > 0; length--) {
    const tail = text.slice(text.length - length);
    if (marks.some((mark) => mark.length > length && mark.startsWith(tail))) return length;
  }
  return 0;
}

/** A turn that starts like a JSON object, without calls, is an attempt in any format. */
export function isJsonLike(text: string): boolean {
  return text.trimStart().startsWith("{");
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
