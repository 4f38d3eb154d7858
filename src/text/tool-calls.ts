/** A turn as text and back: thinking, what is said, and tool calls in the format of the model. */
import type { Action, ToolSpec } from "../env/environment.ts";
import type { TextPiece, ToolFormat } from "./formats/index.ts";
import { type ParsedTurn, TurnParser, thinkEnd, thinkGap, thinkStart } from "./turn-parser.ts";

export interface TurnReading {
  format: ToolFormat;
  /** For formats that write values without their type. */
  tools?: readonly ToolSpec[];
  /** The chat template has opened a thinking block for the turn. */
  inThinking?: boolean;
}

/** Parses one turn, without its end-of-turn token. The rules: TurnParser's and the format's. Never throws. */
export function parseTurn(turn: string, { format, tools, inThinking }: TurnReading): ParsedTurn {
  const parser = new TurnParser(format, tools, inThinking);
  parser.push(turn);
  return parser.end();
}

/** The turn that `parseTurn` reads as `action`. */
export function formatTurn(action: Action, format: ToolFormat, inThinking = false): string {
  return turnPieces(action, format, inThinking)
    .map(({ text }) => text)
    .join("");
}

/** formatTurn's text in pieces, for an encoder that keeps content from forming special tokens. */
export function turnPieces(action: Action, format: ToolFormat, inThinking = false): TextPiece[] {
  return [...thinkingPieces(action.thinking, inThinking), ...format.pieces(action)].filter(({ text }) => text !== "");
}

function thinkingPieces(thinking: string | undefined, inThinking: boolean): TextPiece[] {
  if (thinking === undefined && !inThinking) return [];
  return [
    { text: inThinking ? "" : thinkStart, markup: true },
    { text: `${inThinking ? "" : "\n"}${thinking ?? ""}\n`, markup: false },
    { text: thinkEnd, markup: true },
    { text: "\n".repeat(thinkGap), markup: false },
  ];
}
