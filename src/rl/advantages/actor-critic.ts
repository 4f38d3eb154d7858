/**
 * Advantages with a critic: generalized advantage estimation over tokens or turns (gae.ts), and what the critic learns from
 * it. Advantages are brought to mean 0 and spread 1 over the batch's sampled tokens, as PPO's implementations do (Huang et
 * al. 2022, "The 37 implementation details of PPO", 7; verl): their scale is the critic's error, which shrinks as it learns.
 *
 *     L_V = ½ Σ_k u_k (V_k − R_k)²        R_k = A_k + V_k, a constant; k: the tokens, or turns, that the critic is asked at
 *
 * u_k are shares that sum to 1: 1 / Σ K_i where the policy's loss is a mean over tokens, else 1 / (M K_i), for the K_i
 * questions of one of M trajectories. There is no clipping around the values of old: a batch is trained once, so the
 * critic that is trained is the one that was asked.
 */
import type { LossMean } from "../token-scales.ts";
import type { Trajectory } from "../trajectory.ts";
import type { Advantages, Sample } from "./estimator.ts";
import { type GaeLevel, type GaeOptions, formula as gaeFormula, tokenGae, turnGae } from "./gae.ts";
import { normalizeTokens } from "./token-normalization.ts";
import { decisions } from "./turn-rewards.ts";

export interface ActorCriticOptions extends GaeOptions {
  /** Mean 0 and spread 1 over the batch; default yes. */
  whiten?: boolean;
}

/** By trajectory, [n] parallel to its tokens. */
type PerToken = Map<Trajectory, Float32Array>;

export interface CriticEstimate {
  advantages: Advantages;
  /** R_k at the token that the critic is asked at: each sampled token, or the first of each turn; 0 elsewhere. */
  returns: PerToken;
  /** u_k there, 0 elsewhere. */
  valueScales: PerToken;
}

/** `values`: [n] parallel to a trajectory's tokens, V of the state that each sampled token was sampled in. */
export type ActorCritic = (
  groups: readonly (readonly Sample[])[],
  values: ReadonlyMap<Trajectory, Float32Array>,
  mean: LossMean,
) => CriticEstimate;

export function actorCritic(level: GaeLevel, { whiten = true, ...options }: ActorCriticOptions = {}): ActorCritic {
  return (groups, values, mean) => {
    const raw: Advantages = new Map();
    const returns: PerToken = new Map();
    const questions = new Map<Trajectory, number[]>();
    for (const sample of groups.flat()) {
      const { trajectory } = sample;
      const said = values.get(trajectory)!;
      const at = questionsOf(sample, level);
      questions.set(trajectory, at.tokens);
      if (level === "token") {
        const gae = tokenGae(sample, said, options);
        raw.set(trajectory, gae.advantages);
        returns.set(trajectory, gae.returns);
        continue;
      }
      const ofTurns = new Float32Array(trajectory.turns.length);
      for (const [i, turn] of at.turns.entries()) ofTurns[turn] = said[at.tokens[i]!]!;
      const gae = turnGae(sample, ofTurns, options);
      raw.set(trajectory, gae.advantages);
      const spread = new Float32Array(trajectory.tokens.length);
      for (const [i, turn] of at.turns.entries()) spread[at.tokens[i]!] = gae.returns[turn]!;
      returns.set(trajectory, spread);
    }
    const advantages = whiten ? normalizeTokens(groups, raw, { epsilon: 1e-8, silentGroups: "count" }) : raw;
    return { advantages, returns, valueScales: sharesOf(questions, mean) };
  };
}

export function formula(level: GaeLevel, { whiten = true, ...options }: ActorCriticOptions = {}): string[] {
  return [
    gaeFormula(level, options),
    ...(whiten ? ["A    ← (A - mean_batch(A)) / (std_batch(A) + 1e-8), over sampled tokens"] : []),
  ];
}

/** Tokens before which the critic is asked for a value; with the turn of each, where turns are what is asked. */
function questionsOf(sample: Sample, level: GaeLevel): { tokens: number[]; turns: number[] } {
  const { sampled } = sample.trajectory;
  if (level === "token") {
    const tokens: number[] = [];
    for (let t = 0; t < sampled.length; t++) if (sampled[t] === 1) tokens.push(t);
    return { tokens, turns: [] };
  }
  const steps = decisions(sample);
  return { tokens: steps.map(({ start }) => sampled.indexOf(1, start)), turns: steps.map(({ turn }) => turn) };
}

function sharesOf(questions: ReadonlyMap<Trajectory, readonly number[]>, mean: LossMean): PerToken {
  const asked = [...questions.values()].filter((tokens) => tokens.length > 0);
  const all = asked.reduce((sum, tokens) => sum + tokens.length, 0);
  return new Map(
    [...questions].map(([trajectory, tokens]) => {
      const shares = new Float32Array(trajectory.tokens.length);
      for (const t of tokens) shares[t] = mean === "token" ? 1 / all : 1 / (asked.length * tokens.length);
      return [trajectory, shares];
    }),
  );
}
