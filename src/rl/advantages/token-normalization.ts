/**
 * Mean 0 and standard deviation 1 over sampled tokens, the step that REINFORCE++ and task normalisation share:
 *
 *     Ã_t = (A_t − μ) / (σ + ε)        μ, σ: mean and population standard deviation over all sampled tokens.
 *
 * A group whose advantages are all 0 (equal rewards, under a method that compares within groups) says nothing about its
 * samples. Counted in, it would shrink σ and come out at −μ/σ: pushed up or down with no evidence. So it is left out of
 * μ and σ and stays at exactly 0, unless `silentGroups` counts it as the papers do.
 */
import type { Trajectory } from "../trajectory.ts";
import type { Advantages, Sample } from "./estimator.ts";

export interface TokenNormalization {
  /** ε */
  epsilon: number;
  /** Groups whose advantages are all 0: left out and kept at 0, or counted like any other. */
  silentGroups: "keep" | "count";
}

/** The advantages of the groups' trajectories, normalised together. */
export function normalizeTokens(
  groups: readonly (readonly Sample[])[],
  advantages: Advantages,
  { epsilon, silentGroups }: TokenNormalization,
): Advantages {
  const counted = groups.map((group) => silentGroups === "count" || !isSilent(group, advantages));
  const speaking = groups.filter((_, i) => counted[i]).flatMap(trajectoriesOf);
  const { mean, std } = moments(speaking, advantages);
  const out: Advantages = new Map();
  for (const [i, group] of groups.entries()) {
    for (const trajectory of trajectoriesOf(group)) {
      const values = advantages.get(trajectory)!;
      out.set(trajectory, counted[i] ? normalize(trajectory, values, mean, std, epsilon) : values);
    }
  }
  return out;
}

function trajectoriesOf(group: readonly Sample[]): Trajectory[] {
  return group.map((sample) => sample.trajectory);
}

function isSilent(group: readonly Sample[], advantages: Advantages): boolean {
  return group.every(({ trajectory }) => advantages.get(trajectory)!.every((advantage) => advantage === 0));
}

/** Over the sampled tokens; `std` is exactly 0 where they are equal but for their rounding to float32. */
function moments(trajectories: readonly Trajectory[], advantages: Advantages): { mean: number; std: number } {
  let count = 0;
  let sum = 0;
  let least = Infinity;
  let most = -Infinity;
  const visit = (see: (advantage: number) => void) => {
    for (const trajectory of trajectories) {
      const values = advantages.get(trajectory)!;
      for (let t = 0; t < values.length; t++) if (trajectory.sampled[t] === 1) see(values[t]!);
    }
  };
  visit((advantage) => {
    count++;
    sum += advantage;
    least = Math.min(least, advantage);
    most = Math.max(most, advantage);
  });
  const mean = sum / count;
  if (most - least <= 1e-6 * Math.max(Math.abs(least), Math.abs(most))) return { mean, std: 0 };
  let squares = 0;
  visit((advantage) => {
    squares += (advantage - mean) ** 2;
  });
  return { mean, std: Math.sqrt(squares / count) };
}

/** Exactly 0 where there is no spread, instead of a rounding error over ε. */
function normalize(
  trajectory: Trajectory,
  values: Float32Array,
  mean: number,
  std: number,
  epsilon: number,
): Float32Array {
  if (std === 0) return new Float32Array(values.length);
  return values.map((advantage, t) => (trajectory.sampled[t] === 1 ? (advantage - mean) / (std + epsilon) : 0));
}
