/**
 * What an advantage estimator is: a pure function from complete groups, with the rewards they are trained on, to one
 * advantage a token. Tokens that the policy did not sample get exactly 0, so the length of what stands between turns
 * (tool output, templates) cannot matter; neither can weight versions, which are the off-policy correction's business.
 */
import { AgentRLError } from "../../errors.ts";
import type { Trajectory } from "../trajectory.ts";

/** One sample of a group, with the reward it is trained on (src/rl/rewards.ts: penalty of incomplete endings applied). */
export interface Sample {
  trajectory: Trajectory;
  reward: number;
}

/** Advantage of every token by trajectory: [n] parallel to its tokens, exactly 0 where not sampled. */
export type Advantages = Map<Trajectory, Float32Array>;

export type Estimator = (groups: readonly (readonly Sample[])[]) => Advantages;

/** An estimator that gives each sample of a group one advantage, which all of its sampled tokens share. */
export function perSample(advantagesOf: (rewards: readonly number[]) => readonly number[]): Estimator {
  return (groups) => {
    const advantages: Advantages = new Map();
    for (const group of groups) {
      const values = advantagesOf(group.map((sample) => sample.reward));
      for (const [i, { trajectory }] of group.entries()) advantages.set(trajectory, onSampled(trajectory, values[i]!));
    }
    return advantages;
  };
}

/** [n] `value` on the sampled tokens of [start, end), by default of the whole trajectory, 0 elsewhere. */
export function onSampled(
  trajectory: Trajectory,
  value: number,
  start = 0,
  end = trajectory.tokens.length,
  out: Float32Array = new Float32Array(trajectory.tokens.length),
): Float32Array {
  for (let t = start; t < end; t++) if (trajectory.sampled[t] === 1) out[t] = value;
  return out;
}

/** @throws AgentRLError "CONFIG" for a group whose baseline, the other samples, would be missing. */
export function requirePeers(method: string, samples: number): void {
  if (samples !== 1) return;
  throw new AgentRLError("CONFIG", `${method} compares the samples of a group, and this group has one`, {
    where: "rollout.groupSize",
    got: 1,
    expected: "a whole number ≥ 2",
    hint: "set rollout.groupSize to 4 or more",
  });
}

/** @throws AgentRLError "CONFIG" for a discount, or another factor, outside [0, 1]. */
export function requireFraction(where: string, value: number): void {
  if (value >= 0 && value <= 1) return;
  throw new AgentRLError("CONFIG", "Not a factor for an advantage estimator", {
    where,
    got: value,
    expected: "a number from 0 to 1",
  });
}
