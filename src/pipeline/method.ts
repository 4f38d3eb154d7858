/** The learning method of a config: which advantages, which loss, and both as formulas for --dry-run. */
import { needsCritic, type OwnAdvantage } from "../config/advantages.ts";
import { type AlgorithmConfig, decoupling } from "../config/algorithm.ts";
import type { TrainConfig } from "../config/train.ts";
import { algorithmOf, hasOwnAdvantage } from "../config/train-tasks.ts";
import * as actorCritic from "../rl/advantages/actor-critic.ts";
import * as drGrpo from "../rl/advantages/dr-grpo.ts";
import type { Estimator, Sample } from "../rl/advantages/estimator.ts";
import * as gigpo from "../rl/advantages/gigpo.ts";
import * as grpo from "../rl/advantages/grpo.ts";
import * as reinforcePlusPlus from "../rl/advantages/reinforce-plus-plus.ts";
import * as rloo from "../rl/advantages/rloo.ts";
import * as taskNormalization from "../rl/advantages/task-normalization.ts";
import type { Correction } from "../rl/corrections/correction.ts";
import * as decoupled from "../rl/corrections/decoupled.ts";
import * as geometricMask from "../rl/corrections/geometric-mask.ts";
import * as icepop from "../rl/corrections/icepop.ts";
import * as none from "../rl/corrections/none.ts";
import { interpolated, recomputed } from "../rl/corrections/proximal.ts";
import * as sequenceMask from "../rl/corrections/sequence-mask.ts";
import * as sequenceTis from "../rl/corrections/sequence-tis.ts";
import * as tokenTis from "../rl/corrections/token-tis.ts";
import * as cispo from "../rl/objectives/cispo.ts";
import * as dppo from "../rl/objectives/dppo.ts";
import * as entropy from "../rl/objectives/entropy.ts";
import * as gspo from "../rl/objectives/gspo.ts";
import * as kl from "../rl/objectives/kl.ts";
import type { Objective, Penalty, TokenBatch } from "../rl/objectives/objective.ts";
import * as ppo from "../rl/objectives/ppo.ts";
import * as sapo from "../rl/objectives/sapo.ts";
import type { LossMean } from "../rl/token-scales.ts";
import type { Trajectory } from "../rl/trajectory.ts";

/** The scored tokens of a micro-batch, before a correction. */
export interface ScoredTokens extends Omit<TokenBatch, "proximal" | "weights"> {
  /** [n] weight version that sampled each token; -Infinity for a policy that is none of the run's versions. */
  versions: ArrayLike<number>;
}

export interface LossPart {
  /** This part's share of the loss, penalties included. */
  loss: number;
  /** [n] dLoss/dLogProb. */
  dLogProbs: Float32Array;
  /** [n] dLoss/dEntropy. */
  dEntropies: Float32Array;
  /** Tokens that the objective clipped, and those that the correction left out. */
  clipped: number;
  masked: number;
  /** Σ π/μ, Σ H, Σ (log π − log π_ref), for the metrics. */
  ratioSum: number;
  entropySum: number;
  klSum: number;
}

/** What a batch's samples are trained with: without a critic, advantages alone. */
export type Estimate = Pick<actorCritic.CriticEstimate, "advantages"> & Partial<actorCritic.CriticEstimate>;

/** Values by trajectory, [n] parallel to its tokens. */
export type Values = ReadonlyMap<Trajectory, Float32Array>;

export interface Method {
  /** @param values the critic's, where one is needed. */
  estimate(groups: readonly (readonly Sample[])[], values: Values | null): Estimate;
  /** A critic's values are needed first. */
  needsCritic: boolean;
  /** A reference policy's log-probabilities are needed. */
  needsReference: boolean;
  /** A trajectory whose advantages are all 0 has a gradient nevertheless. */
  trainsSilent: boolean;
  /** @param version the weights that are trained. */
  loss(tokens: ScoredTokens, version: number): LossPart;
}

export function methodOf(algorithm: AlgorithmConfig): Method {
  const { correction, kl: klOptions, entropyBonus } = algorithm;
  const objective = objectiveOf(algorithm).create;
  const weigh = correctionOf(correction).create;
  const decouples = decoupling.includes(correction.method);
  const needsReference = klOptions.coefficient > 0;
  const penalties: Penalty[] = [];
  if (needsReference) penalties.push(kl.kl(klOptions));
  if (entropyBonus > 0) penalties.push(entropy.entropy({ coefficient: entropyBonus }));
  return {
    estimate: advantagesOf(algorithm).create,
    needsCritic: needsCritic(algorithm.advantage),
    needsReference,
    // A critic learns from every episode.
    trainsSilent: penalties.length > 0 || needsCritic(algorithm.advantage),
    loss: (tokens, version) => {
      const { logProbs, behaviour, entropies, reference, versions } = tokens;
      const proximal = !decouples
        ? behaviour
        : correction.proximal === "recomputed"
          ? recomputed(logProbs)
          : interpolated(logProbs, behaviour, versions, version);
      const { weights, masked } = weigh({ ...tokens, proximal });
      const batch: TokenBatch = { ...tokens, proximal, weights };
      const { loss, dLogProbs, clipped } = objective(batch);
      const gradients = { dLogProbs, dEntropies: new Float32Array(logProbs.length) };
      const penalty = penalties.reduce((sum, add) => sum + add(batch, gradients), 0);
      let ratioSum = 0;
      let entropySum = 0;
      let klSum = 0;
      for (let t = 0; t < logProbs.length; t++) {
        ratioSum += Math.exp(logProbs[t]! - behaviour[t]!);
        entropySum += entropies[t]!;
        if (reference !== undefined) klSum += logProbs[t]! - reference[t]!;
      }
      return { loss: loss + penalty, ...gradients, clipped, masked, ratioSum, entropySum, klSum };
    },
  };
}

/** The loss in force, with its constants. */
export function lossFormula(config: TrainConfig): string {
  const { algorithm, rollout, crossPolicy } = config;
  const { correction, kl: klOptions, entropyBonus } = algorithm;
  const cut = rollout.topK > 0 || rollout.topP < 1 || rollout.minP > 0;
  const corrects = correction.method !== "none";
  const decouples = decoupling.includes(correction.method);
  const f = objectiveOf(algorithm).formula;
  return [
    `loss = -Σ_t w_t [ ${cut ? "κ_t " : ""}${corrects ? "c_t " : ""}f_t${
      klOptions.coefficient > 0 ? ` - ${cut ? "κ_t " : ""}${corrects ? "c_t " : ""}${kl.formula(klOptions)}` : ""
    }${entropyBonus > 0 ? ` + ${entropy.formula({ coefficient: entropyBonus })}` : ""} ]`,
    `f_t  = ${f}`,
    decouples ? "ρ_t  = π(t) / π_prox(t)" : "ρ_t  = exp(log π(t) - log μ(t)), μ as recorded while sampling",
    ...behaviourFormula(config),
    ...(corrects ? [`c_t  = ${correctionOf(correction).formula}, constant; μ as recorded while sampling`] : []),
    ...(decouples
      ? [
          correction.proximal === "recomputed"
            ? "π_prox = the weights at the start of the step: ρ_t is exactly 1"
            : "π_prox: log π_prox = log μ / d + (1 - 1/d) log π, d the token's age in versions" +
              (crossPolicy?.pool.some(({ kind, logProbs }) => kind === "checkpoint" || logProbs)
                ? ", ∞ where it is of no version"
                : ""),
        ]
      : []),
    ...weightFormula(config),
    ...(cut ? ["κ_t  = probability mass that the cut (topK, topP, minP) kept when t was drawn"] : []),
    ...(klOptions.coefficient > 0 ? [`${kl.distance}; π_ref: model.path`] : []),
    ...advantagesOf(algorithm).formula,
    ...config.tasks.filter(hasOwnAdvantage).flatMap((task) => {
      const { formula } = advantagesOf(algorithmOf(algorithm, task));
      return formula.map((line) => line.replace(/^A +/, `A of ${task.name} `));
    }),
    ...criticFormula(algorithm),
    ...rewardFormula(config),
  ].join("\n");
}

/** How much a token weighs, and which are left out. */
function weightFormula({ algorithm, tasks, rollout }: TrainConfig): string[] {
  const { lossMean, filters, kl: klOptions, entropyBonus } = algorithm;
  const all =
    filters.zeroVariance === "keep" ||
    klOptions.coefficient > 0 ||
    entropyBonus > 0 ||
    needsCritic(algorithm.advantage);
  const counted = all ? "of the batch" : "that carry gradient";
  const { maxFactor } = filters.dynamicSampling;
  const most = Math.floor(maxFactor * rollout.groupsPerStep + 1e-9);
  return [
    shareFormula(lossMean, rollout.contextLimit, counted, tasks),
    ...(filters.overlong === "mask"
      ? ["       episodes that the length or context limit ended have no part in it, but in their group's mean"]
      : []),
    ...(maxFactor > 1
      ? [
          `       a batch is ${rollout.groupsPerStep} groups of unequal r, unless ${most} groups do not hold as many: then equal ones fill it`,
        ]
      : []),
  ];
}

function shareFormula(mean: LossMean, longest: number, counted: string, tasks: TrainConfig["tasks"]): string {
  if (tasks.some((task) => task.lossWeight !== tasks[0]!.lossWeight)) {
    const weights = tasks.map((task) => `${task.name} ${task.lossWeight}`).join(", ");
    const weight = `c the loss weight of t's task (${weights}), Σ over the`;
    switch (mean) {
      case "trajectory":
        return `w_t  = c / (|o_i| Σ c): ${weight} trajectories ${counted}, |o_i| sampled tokens in t's`;
      case "token":
        return `w_t  = c / Σ c: ${weight} sampled tokens ${counted}`;
      case "constant":
        return `w_t  = c / (${longest} Σ c): ${weight} trajectories ${counted}`;
    }
  }
  switch (mean) {
    case "trajectory":
      return `w_t  = 1 / (M |o_i|): M trajectories ${counted}, |o_i| sampled tokens in t's`;
    case "token":
      return `w_t  = 1 / N: N sampled tokens ${counted}`;
    case "constant":
      return `w_t  = 1 / (M ${longest}): M trajectories ${counted}`;
  }
}

function rewardFormula({ algorithm, tasks }: TrainConfig): string[] {
  const own = tasks.flatMap(({ name, algorithm: { incompletePenalty } }) =>
    incompletePenalty === undefined ? [] : [`${name}: ${incompletePenalty}`],
  );
  const other = own.length === 0 ? "" : ` (${own.join(", ")})`;
  return [`r    = the environment's reward, ${algorithm.incompletePenalty}${other} where the policy did not complete`];
}

/** Whose log-probabilities μ is made of, where there are several policies. */
function behaviourFormula({ crossPolicy }: TrainConfig): string[] {
  if (crossPolicy === undefined) return [];
  const trained = crossPolicy.pool.filter(({ kind, logProbs }) => kind !== "endpoint" || logProbs);
  const names = ["the current one", ...trained.map(({ name }) => name)];
  const context = crossPolicy.pool.filter((member) => !trained.includes(member)).map(({ name }) => name);
  return [
    `μ    = the policy that sampled t: ${names.join(", ")}${context.length > 0 ? `; tokens of ${context.join(", ")} are context` : ""}`,
  ];
}

function criticFormula(algorithm: AlgorithmConfig): string[] {
  if (!needsCritic(algorithm.advantage)) return [];
  const { trunk, coefficient } = algorithm.critic;
  const share = algorithm.lossMean === "token" ? "1 / Σ K_i" : "1 / (M K_i)";
  const asked = algorithm.advantage === "gae-turn" ? "turns" : "sampled tokens";
  return [
    `V_k  = w·h_k + b, trained by ½ Σ_k u_k (V_k - R_k)², R_k = A_k + V_k a constant, u_k = ${share}: K_i ${asked} in k's trajectory`,
    trunk === "shared"
      ? `       its gradient goes on into the policy's layers, times ${coefficient}`
      : "       its gradient ends at the head: the policy's layers do not get it",
  ];
}

interface Chosen<T> {
  create: T;
  formula: string;
}

function objectiveOf(algorithm: AlgorithmConfig): Chosen<Objective> {
  const { tauPos, tauNeg, divergence, ratioCap: cap } = algorithm;
  const clips = given(algorithm, "clipLow", "clipHigh");
  switch (algorithm.objective) {
    case "ppo":
      return chosen(ppo.ppo, ppo.formula, { ...clips, ...given(algorithm, "dualClip") });
    case "gspo":
      return chosen(gspo.gspo, gspo.formula, { ...clips, level: "sequence" });
    case "gspo-token":
      return chosen(gspo.gspo, gspo.formula, { ...clips, level: "token" });
    case "cispo":
      return chosen(cispo.cispo, cispo.formula, clips);
    case "sapo":
      return chosen(sapo.sapo, sapo.formula, { tauPos, tauNeg });
    case "dppo":
      return chosen(dppo.dppo, dppo.formula, { divergence, cap, ...given(algorithm, "thresholdLow", "thresholdHigh") });
  }
}

function correctionOf(correction: AlgorithmConfig["correction"]): Chosen<Correction> {
  const cap = given(correction, "cap");
  const band = given(correction, "low", "high");
  switch (correction.method) {
    case "none":
      return { create: none.none(), formula: none.formula() };
    case "decoupled":
      return chosen(decoupled.decoupled, decoupled.formula, cap);
    case "token-tis":
      return chosen(tokenTis.tokenTis, tokenTis.formula, cap);
    case "sequence-tis":
      return chosen(sequenceTis.sequenceTis, sequenceTis.formula, cap);
    case "icepop":
      return chosen(icepop.icepop, icepop.formula, band);
    case "sequence-mask":
      return chosen(sequenceMask.sequenceMask, sequenceMask.formula, band);
    case "geometric-mask":
      return chosen(geometricMask.geometricMask, geometricMask.formula, band);
  }
}

function advantagesOf(algorithm: AlgorithmConfig): { create: Method["estimate"]; formula: string[] } {
  const { create, formula } = estimatorOf(algorithm);
  if (algorithm.taskNormalization === "off") return { create, formula };
  const options = { paper: algorithm.taskNormalization === "paper" };
  return {
    create: (groups, values) => {
      const estimate = create(groups, values);
      return {
        ...estimate,
        advantages: taskNormalization.taskNormalization(() => estimate.advantages, options)(groups),
      };
    },
    formula: [...formula, taskNormalization.formula(options)],
  };
}

function estimatorOf(algorithm: AlgorithmConfig): { create: Method["estimate"]; formula: string[] } {
  const { advantage, normalizeStd, omega, lossMean } = algorithm;
  if (needsCritic(advantage)) {
    const level = advantage === "gae-turn" ? "turn" : "token";
    const options = { ...given(algorithm, "gamma", "lambda"), whiten: normalizeStd };
    const estimate = actorCritic.actorCritic(level, options);
    return {
      create: (groups, values) => estimate(groups, values!, lossMean),
      formula: actorCritic.formula(level, options),
    };
  }
  const { create, formula } = withoutCritic(advantage, { normalizeStd, omega, ...given(algorithm, "gamma") });
  return { create: (groups) => ({ advantages: create(groups) }), formula: [formula] };
}

function withoutCritic(
  advantage: OwnAdvantage,
  options: { normalizeStd: boolean; omega: number; gamma?: number },
): Chosen<Estimator> {
  switch (advantage) {
    case "grpo":
      return chosen(grpo.grpo, grpo.formula, { normalizeStd: options.normalizeStd });
    case "dr-grpo":
      return { create: drGrpo.drGrpo(), formula: drGrpo.formula() };
    case "rloo":
      return { create: rloo.rloo(), formula: rloo.formula() };
    case "reinforce++":
      return chosen(reinforcePlusPlus.reinforcePlusPlus, reinforcePlusPlus.formula, {});
    case "reinforce++-baseline":
      return chosen(reinforcePlusPlus.reinforcePlusPlus, reinforcePlusPlus.formula, { baseline: "group" });
    case "gigpo":
      return chosen(gigpo.gigpo, gigpo.formula, options);
  }
}

function chosen<Options, T>(
  create: (options: Options) => T,
  formula: (options: Options) => string,
  options: Options,
): Chosen<T> {
  return { create: create(options), formula: formula(options) };
}

/** Those of the options that are set: the others have their default in the method's own file. */
function given<T extends object, K extends keyof T>(from: T, ...keys: K[]): { [P in K]?: Exclude<T[P], undefined> } {
  return Object.fromEntries(keys.filter((key) => from[key] !== undefined).map((key) => [key, from[key]])) as {
    [P in K]?: Exclude<T[P], undefined>;
  };
}
