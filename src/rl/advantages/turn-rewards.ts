/**
 * A trajectory as the decisions that are trained: its turns with sampled tokens, each with the reward that followed it.
 * A turn of another policy whose tokens are only context belongs to the environment, and what it earned to the decision
 * before it, so that no reward is lost on tokens that carry no gradient.
 */
import type { Sample } from "./estimator.ts";

export interface Decision {
  /** Index in the trajectory's turns. */
  turn: number;
  /** Token offsets [seen, start): what the policy was shown since the turn before; the prompt for the first. */
  seen: number;
  /** Token offsets [start, end) of the turn. */
  start: number;
  end: number;
  /** Index of the turn's last sampled token. */
  last: number;
  reward: number;
}

/**
 * The decisions in order. Where the trained reward is not the episode's own (an incomplete ending is penalised), it
 * replaces the turns' rewards: they are 0 and the last decision gets it whole. Their sum is the trained reward either
 * way, but for what was earned before the first decision.
 */
export function decisions({ trajectory, reward }: Sample): Decision[] {
  const { turns, sampled } = trajectory;
  const own = reward === trajectory.reward;
  const out: Decision[] = [];
  for (const [turn, { start, end, reward: earned }] of turns.entries()) {
    const last = sampled.subarray(start, end).lastIndexOf(1);
    if (last >= 0) {
      out.push({ turn, seen: turns[turn - 1]?.end ?? 0, start, end, last: start + last, reward: own ? earned : 0 });
    } else if (own && out.length > 0) {
      out.at(-1)!.reward += earned;
    }
  }
  if (!own && out.length > 0) out.at(-1)!.reward = reward;
  return out;
}
