/**
 * Generalized advantage estimation (Schulman et al. 2016, arXiv 1506.02438, Eq. 11-16) from given values. One recursion,
 * over two kinds of actions:
 *
 *     δ_k = r_k + γ V_{k+1} − V_k        A_k = δ_k + γ λ A_{k+1}        return_k = A_k + V_k
 *
 * - tokens: an action is a sampled token, its state everything before it. A turn's reward falls on its last sampled token.
 * - turns: an action is a whole turn, its state everything before it; all of its sampled tokens share A_k, and γ and λ
 *   count turns.
 *
 * k + 1 is the next *sampled* token (the next trained turn): whatever stands between is neither discounted nor read, so
 * tool output of any length leaves the estimate as it is. Every ending is terminal, V = 0 after it, also where a limit cut
 * the episode: what that costs is in its trained reward.
 *
 * Defaults: γ = 1; λ = 0.95 for turns and 1 for tokens, as verl has it: with the only reward at the end of hundreds of
 * tokens, λ < 1 would leave nothing of it for the first.
 */
import { AgentRLError } from "../../errors.ts";
import { onSampled, requireFraction, type Sample } from "./estimator.ts";
import { decisions } from "./turn-rewards.ts";

export interface GaeOptions {
  /** γ, discount per action. */
  gamma?: number;
  /** λ */
  lambda?: number;
}

export interface Gae {
  /** [n] parallel to the trajectory's tokens, exactly 0 where not sampled. */
  advantages: Float32Array;
  /** Parallel to the values: what the critic should have said; 0 where no action was taken. */
  returns: Float32Array;
}

export type GaeLevel = "token" | "turn";

const defaults = { token: { gamma: 1, lambda: 1 }, turn: { gamma: 1, lambda: 0.95 } } as const;

/**
 * `values`: [n] parallel to the trajectory's tokens, the critic's value of the state that token t was sampled in (the
 * tokens before it). Values of tokens that were not sampled are not read.
 * @throws AgentRLError "CONFIG" for γ or λ outside [0, 1], "PIPELINE" for a wrong number of values.
 */
export function tokenGae(sample: Sample, values: Float32Array, options: GaeOptions = {}): Gae {
  const { trajectory } = sample;
  const n = trajectory.tokens.length;
  const { gamma, lambda } = check("token", options, values, n);
  const rewards = new Float64Array(n);
  for (const { last, reward } of decisions(sample)) rewards[last] = reward;
  const actions: number[] = [];
  for (let t = 0; t < n; t++) if (trajectory.sampled[t] === 1) actions.push(t);
  return recurse(actions, rewards, values, gamma, lambda);
}

/**
 * `values`: parallel to the trajectory's turns, the critic's value of the state before each turn's first token. Values
 * of turns without a sampled token are not read.
 * @throws AgentRLError "CONFIG" for γ or λ outside [0, 1], "PIPELINE" for a wrong number of values.
 */
export function turnGae(sample: Sample, values: Float32Array, options: GaeOptions = {}): Gae {
  const { trajectory } = sample;
  const { gamma, lambda } = check("turn", options, values, trajectory.turns.length);
  const steps = decisions(sample);
  const rewards = new Float64Array(values.length);
  for (const { turn, reward } of steps) rewards[turn] = reward;
  const turns = steps.map((step) => step.turn);
  const { advantages, returns } = recurse(turns, rewards, values, gamma, lambda);
  const tokens = new Float32Array(trajectory.tokens.length);
  for (const { turn, start, end } of steps) onSampled(trajectory, advantages[turn]!, start, end, tokens);
  return { advantages: tokens, returns };
}

export function formula(level: GaeLevel, options: GaeOptions = {}): string {
  const { gamma, lambda } = { ...defaults[level], ...options };
  return `A_k  = δ_k + ${gamma}·${lambda} A_k+1, δ_k = r_k + ${gamma} V_k+1 - V_k, k over ${level === "token" ? "sampled tokens" : "turns"}`;
}

/** Backwards over `actions`, the indices that took part; all others stay 0. */
function recurse(
  actions: readonly number[],
  rewards: Float64Array,
  values: Float32Array,
  gamma: number,
  lambda: number,
): Gae {
  const advantages = new Float32Array(values.length);
  const returns = new Float32Array(values.length);
  let nextValue = 0;
  let nextAdvantage = 0;
  for (const k of actions.toReversed()) {
    const value = values[k]!;
    nextAdvantage = rewards[k]! + gamma * nextValue - value + gamma * lambda * nextAdvantage;
    nextValue = value;
    advantages[k] = nextAdvantage;
    returns[k] = nextAdvantage + value;
  }
  return { advantages, returns };
}

function check(level: GaeLevel, options: GaeOptions, values: Float32Array, count: number): Required<GaeOptions> {
  const { gamma, lambda } = { ...defaults[level], ...options };
  requireFraction("algorithm.gamma", gamma);
  requireFraction("algorithm.lambda", lambda);
  if (values.length !== count) {
    throw new AgentRLError("PIPELINE", `GAE needs the critic's value of every ${level}`, {
      got: values.length,
      expected: `${count} values`,
    });
  }
  return { gamma, lambda };
}
