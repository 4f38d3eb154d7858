/**
 * The tokens that a server says it sampled, against those that this tokenizer makes of the same turn. Only where they are
 * one and the same, token by token, are the server's log-probabilities those of tokens that can be trained.
 */
import type { Tokenizer } from "../text/tokenizer.ts";

/** An entry of `choices[].logprobs.content`. */
export interface EndpointToken {
  token: string;
  logprob: number;
  /** UTF-8; absent where the token is a part of a character, or the server does not say. */
  bytes?: number[] | null | undefined;
}

/**
 * Below it a number stands for "not known": servers write -9999 for tokens that are not among their likeliest. A sampled
 * token of probability e^-100 does not occur.
 */
const least = -100;

/**
 * Log-probabilities of the turn's tokens `ids`, the last of which ends the turn. Servers list that one or not: where not,
 * it has none, and the result is one shorter. Null where the two do not agree.
 */
export function alignLogProbs(
  ids: ArrayLike<number>,
  listed: readonly EndpointToken[],
  tokenizer: Tokenizer,
): number[] | null {
  if (listed.length !== ids.length && listed.length !== ids.length - 1) return null;
  const agree = listed.every((entry, i) => isToken(ids[i]!, entry, tokenizer) && entry.logprob > least);
  // Rounding may leave a certain token above 0.
  return agree ? listed.map(({ logprob }) => Math.min(logprob, 0)) : null;
}

function isToken(id: number, { token, bytes }: EndpointToken, tokenizer: Tokenizer): boolean {
  // As vLLM writes tokens when it is asked for ids.
  const named = /^token_id:(\d+)$/.exec(token);
  if (named !== null) return Number(named[1]) === id;
  const own = tokenizer.tokenBytes(id) ?? new TextEncoder().encode(tokenizer.decode([id]));
  return Buffer.from(own).equals(bytes == null ? Buffer.from(token, "utf8") : Buffer.from(bytes));
}
