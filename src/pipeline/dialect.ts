/** The policy's text side: how messages become tokens, and the tokens of a turn an action. */
import type { ToolSpec } from "../env/environment.ts";
import type { ChatTemplate } from "../text/chat-template.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import type { ParsedTurn } from "../text/turn-parser.ts";

export interface Dialect {
  tokenizer: Tokenizer;
  template: ChatTemplate;
  /** Tokens that end a turn. */
  stopTokens: readonly number[];
}

/** What the policy did with these tokens, `tokens` without the one that ended the turn. */
export function readTurn(dialect: Dialect, tools: readonly ToolSpec[], tokens: ArrayLike<number>): ParsedTurn {
  // Formats are read with their special tokens: nothing is left out of the text.
  return dialect.template.parseTurn(dialect.tokenizer.decode(tokens), tools);
}
