/**
 * Truncated importance sampling, token by token (Ionides 2008; Yao et al. 2025, "Your efficient RL framework secretly
 * brings you off-policy RL training", fengyao.notion.site/off-policy-rl):
 *
 *     c = min(π_prox / μ, cap)
 *
 * Reads the ratio of the proximal policy. Bounded variance for a bias: the weight corrects the token, not the
 * states that its trajectory reached.
 */
import { constant, requireOption } from "../objectives/options.ts";
import { type Correction, perToken, type RatioOf } from "./correction.ts";

export interface TokenTisOptions {
  /** C; default 2. */
  cap?: number;
}

const defaults = { cap: 2 };

export const ratioOf: RatioOf = "proximal";

/** @throws AgentRLError "CONFIG" on an option out of range. */
export function tokenTis(options: TokenTisOptions = {}): Correction {
  const { cap } = { ...defaults, ...options };
  requireOption(cap > 0, "tokenTis.cap", cap, "more than 0");
  return ({ proximal, behaviour }) => perToken(proximal, behaviour, (logRatio) => Math.min(Math.exp(logRatio), cap));
}

export function formula(options: TokenTisOptions = {}): string {
  return `min(π_prox(t) / μ(t), ${constant({ ...defaults, ...options }.cap)})`;
}
