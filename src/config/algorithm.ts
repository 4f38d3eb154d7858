/** The section `algorithm`: how advantages, objective and off-policy correction are chosen, and which option belongs to which. */
import { z } from "zod";
import { advantages, needsPeers } from "./advantages.ts";
import { type crossPolicySchema, trainsOffPolicy } from "./cross-policy.ts";
import { filtersSchema } from "./filters.ts";
import type { Conflict, NoEffectRule } from "./rules.ts";
import type { TrainMode } from "./staleness.ts";

const positive = () => z.number().gt(0);

const correctionSchema = z
  .strictObject({
    method: z
      .enum(["none", "decoupled", "token-tis", "sequence-tis", "icepop", "sequence-mask", "geometric-mask"])
      .default("none")
      .describe(
        "What is done about tokens of older weights beyond the objective's own ratio. decoupled: clip around a proximal policy, weigh by proximal/behaviour (AReaL). token-tis, sequence-tis: that weight truncated, by token or trajectory. icepop: tokens outside a band are left out. sequence-mask, geometric-mask: trajectories outside a band are left out, by product or geometric mean of their ratios.",
      ),
    proximal: z
      .enum(["recomputed", "interpolated"])
      .default("recomputed")
      .describe(
        "The proximal policy. recomputed: the weights at the start of the step. interpolated: between behaviour and current by age (A-3PO, arXiv 2512.06547).",
      ),
    cap: positive()
      .optional()
      .describe("Largest weight: of decoupled (beyond it a token is left out), token-tis, sequence-tis (2)."),
    low: z
      .number()
      .min(0)
      .optional()
      .describe("Lower end of the band: icepop 0.5, sequence-mask 0.5; geometric-mask must be given."),
    high: positive()
      .optional()
      .describe("Upper end of the band: icepop 5, sequence-mask 2; geometric-mask must be given."),
  })
  .describe("Correction for off-policy data.");

const klSchema = z
  .strictObject({
    coefficient: z
      .number()
      .min(0)
      .default(0)
      .describe("Weight of the KL divergence to the model the run began with; 0 = none."),
    estimator: z
      .enum(["k1", "k2", "k3"])
      .default("k2")
      .describe(
        "Schulman's estimator (2020). As a loss only k2 has KL's gradient; k3 is GRPO's. The metric `kl` is the mean of k1 with each of them.",
      ),
  })
  .describe("Penalty for leaving the reference: `model.path`.");

const criticSchema = z
  .strictObject({
    lr: z.number().gt(0).max(1).default(1e-3).describe("Learning rate of the critic's head, constant."),
    trunk: z
      .enum(["detached", "shared"])
      .default("detached")
      .describe(
        "detached: the head reads the policy's hidden states as they are. shared: the value loss also shapes the policy's layers, which lets them carry what the critic needs and adds a gradient that is not the policy's.",
      ),
    coefficient: positive().default(0.1).describe("Weight of the value loss in the policy's layers (trunk shared)."),
  })
  .describe("The critic of gae-turn and gae-token: a linear head on the policy's last hidden state.");

export const algorithmSchema = z
  .strictObject({
    advantage: z
      .enum(advantages)
      .default("grpo")
      .describe(
        "grpo: reward less the group's mean, over its spread (arXiv 2402.03300). dr-grpo: without the spread (2503.20783). rloo: less the mean of the others (2402.14740). reinforce++: over the batch's mean and spread; -baseline: less the group's mean first (2501.03262). gigpo: turns that answered the same state are compared as well (2505.10978). gae-turn, gae-token: against a critic's values, over turns or tokens (1506.02438).",
      ),
    normalizeStd: z
      .boolean()
      .default(true)
      .describe(
        "Divide advantages by their standard deviation (grpo, gigpo); bring those of a batch to mean 0 and spread 1 (gae).",
      ),
    gamma: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe("Discount per turn (gigpo 0.95, gae-turn 1) or per token (gae-token 1)."),
    lambda: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe("How far an advantage looks beyond the critic's next value (gae-turn 0.95, gae-token 1)."),
    critic: criticSchema.prefault({}),
    omega: z.number().min(0).default(1).describe("Weight of the step level beside the episode's (gigpo)."),
    taskNormalization: z
      .enum(["off", "on", "paper"])
      .default("off")
      .describe(
        "Task advantage normalisation (AgentRL, arXiv 2510.04206, Eq. 1): mean 0 and spread 1 over the sampled tokens of a task. on: groups without signal are left out and stay at 0. paper: they are counted, and get -mean/spread.",
      ),
    lossMean: z
      .enum(["trajectory", "token", "constant"])
      .default("trajectory")
      .describe(
        "trajectory: every episode weighs the same (GRPO). token: every sampled token does, long episodes weigh more (DAPO). constant: the sum over an episode's tokens, over rollout.contextLimit (Dr.GRPO).",
      ),
    objective: z
      .enum(["ppo", "gspo", "gspo-token", "cispo", "sapo", "dppo"])
      .default("ppo")
      .describe(
        "ppo: clipped ratio of each token (arXiv 1707.06347). gspo: of the trajectory (2507.18071). cispo: clipped weight, gradient kept (2506.13585). sapo: soft gate (2511.20347). dppo: bound on the divergence (2602.04879).",
      ),
    clipLow: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe("The ratio counts down to 1 - clipLow: ppo 0.2, gspo 0.0003, cispo 1."),
    clipHigh: z
      .number()
      .min(0)
      .optional()
      .describe("The ratio counts up to 1 + clipHigh: ppo 0.28, gspo 0.0004, cispo 4."),
    dualClip: z.number().gt(1).optional().describe("Bound of the ratio where the advantage is negative (ppo; none)."),
    tauPos: positive().default(1).describe("Sharpness of the gate where the advantage is positive (sapo)."),
    tauNeg: positive().default(1.05).describe("Sharpness of the gate where it is negative (sapo)."),
    divergence: z.enum(["tv", "kl"]).default("tv").describe("What is bounded (dppo): total variation or KL."),
    thresholdLow: z.number().min(0).optional().describe("Bound downwards (dppo): tv 0.15, kl 0.05."),
    thresholdHigh: z.number().min(0).optional().describe("Bound upwards (dppo): tv 0.15, kl 0.05."),
    ratioCap: positive().default(20).describe("Largest importance weight (dppo)."),
    correction: correctionSchema.prefault({}),
    kl: klSchema.prefault({}),
    filters: filtersSchema,
    entropyBonus: z.number().min(0).default(0).describe("Weight of the mean token entropy in the objective."),
    incompletePenalty: z
      .number()
      .min(-1000)
      .max(0)
      .default(-0.2)
      .describe(
        "Trained reward of an episode that the policy did not complete: turn, length or context limit, invalid action.",
      ),
  })
  .describe("The objective.");

export type AlgorithmConfig = z.output<typeof algorithmSchema>;
type Correction = AlgorithmConfig["correction"]["method"];
interface Config {
  mode: TrainMode;
  crossPolicy?: z.output<typeof crossPolicySchema> | undefined;
  algorithm: AlgorithmConfig;
  rollout: { groupSize: number; groupsPerStep: number };
}

/** Corrections that weigh proximal against behaviour, and so move the objective's ratio to the proximal policy. */
export const decoupling: readonly Correction[] = ["decoupled", "token-tis", "sequence-tis", "icepop"];
const capped: readonly Correction[] = ["decoupled", "token-tis", "sequence-tis"];
const banded: readonly Correction[] = ["icepop", "sequence-mask", "geometric-mask"];

type Field = keyof AlgorithmConfig;
/** Options of the objective's trust region, by objective. */
const trustRegion: Partial<Record<Field, readonly AlgorithmConfig["objective"][]>> = {
  clipLow: ["ppo", "gspo", "gspo-token", "cispo"],
  clipHigh: ["ppo", "gspo", "gspo-token", "cispo"],
  dualClip: ["ppo"],
  tauPos: ["sapo"],
  tauNeg: ["sapo"],
  divergence: ["dppo"],
  thresholdLow: ["dppo"],
  thresholdHigh: ["dppo"],
  ratioCap: ["dppo"],
};
/** Options that an advantage reads, by option. */
export const ofAdvantage: Partial<Record<Field, readonly AlgorithmConfig["advantage"][]>> = {
  normalizeStd: ["grpo", "gigpo", "gae-turn", "gae-token"],
  gamma: ["gigpo", "gae-turn", "gae-token"],
  lambda: ["gae-turn", "gae-token"],
  critic: ["gae-turn", "gae-token"],
  omega: ["gigpo"],
};
const ofCorrection: Record<string, readonly Correction[]> = {
  proximal: decoupling,
  cap: capped,
  low: banded,
  high: banded,
};

const onPolicy = "every token is trained by the weights that sampled it, so the ratio is exactly 1";

/** Options that do nothing under the rest of the config. */
export const algorithmNoEffect: readonly NoEffectRule<Config>[] = [
  ...Object.entries(trustRegion).flatMap(([field, objectives]): NoEffectRule<Config>[] => [
    {
      path: `algorithm.${field}`,
      when: ({ algorithm }) => !objectives.includes(algorithm.objective),
      why: `it belongs to algorithm.objective ${objectives.join(", ")}`,
    },
    {
      path: `algorithm.${field}`,
      when: (config) => !trainsOffPolicy(config),
      why: `mode is sync: ${onPolicy}`,
    },
    {
      path: `algorithm.${field}`,
      when: ({ algorithm: { correction } }) =>
        decoupling.includes(correction.method) && correction.proximal === "recomputed",
      why: "the proximal policy is the one that is trained (algorithm.correction.proximal recomputed), so the objective's ratio is exactly 1",
    },
  ]),
  ...Object.entries(ofAdvantage).map(([field, methods]) => ({
    path: `algorithm.${field}`,
    when: ({ algorithm }: Config) => !methods.includes(algorithm.advantage),
    why: `it belongs to algorithm.advantage ${methods.join(", ")}`,
  })),
  {
    path: "algorithm.critic.coefficient",
    when: ({ algorithm }) => algorithm.critic.trunk === "detached",
    why: "algorithm.critic.trunk is detached: nothing of the value loss reaches the policy's layers",
  },
  {
    path: "algorithm.correction",
    when: (config) => !trainsOffPolicy(config),
    why: `mode is sync: ${onPolicy} without a correction`,
  },
  ...Object.entries(ofCorrection).map(([field, methods]) => ({
    path: `algorithm.correction.${field}`,
    when: ({ algorithm }: Config) => !methods.includes(algorithm.correction.method),
    why: `it belongs to algorithm.correction.method ${methods.join(", ")}`,
  })),
  {
    path: "algorithm.kl.estimator",
    when: ({ algorithm }) => algorithm.kl.coefficient === 0,
    why: "algorithm.kl.coefficient is 0: there is no penalty",
  },
];

export function algorithmConflicts({ algorithm, rollout }: Config): Conflict[] {
  const conflicts: Conflict[] = [];
  if (rollout.groupSize === 1 && needsPeers(algorithm.advantage)) {
    conflicts.push({
      path: "rollout.groupSize",
      what: `A group of one episode cannot be trained with algorithm.advantage ${algorithm.advantage}: it is compared with the others of its group.`,
      got: 1,
      expected: "a whole number ≥ 2",
      hint: "Set rollout.groupSize to 4 or more.",
    });
  }
  if (algorithm.advantage === "reinforce++" && rollout.groupSize * rollout.groupsPerStep === 1) {
    conflicts.push({
      path: "rollout.groupsPerStep",
      what: "A batch of one episode cannot be trained with algorithm.advantage reinforce++: it is compared with the others of its batch.",
      got: 1,
      expected: "a whole number ≥ 2, or rollout.groupSize ≥ 2",
      hint: "Set rollout.groupsPerStep to 16 or more.",
    });
  }
  const { method, low, high } = algorithm.correction;
  if (method === "geometric-mask" && (low === undefined || high === undefined)) {
    conflicts.push({
      path: "algorithm.correction.method",
      what: "geometric-mask needs its band: how far a trajectory may lie off depends on how old it may be.",
      got: `low ${low}, high ${high}`,
      expected: "algorithm.correction.low and .high",
      hint: "For example low: 0.9, high: 1.1. 0.999 and 1.001 are for numerical differences alone.",
    });
  }
  if (low !== undefined && high !== undefined && low > high) {
    conflicts.push({
      path: "algorithm.correction.low",
      what: "The band of the correction is empty.",
      got: low,
      expected: `at most algorithm.correction.high = ${high}`,
      hint: "Exchange the two.",
    });
  } else if ((low ?? 0) > 1 || (high ?? 1) < 1) {
    conflicts.push({
      path: low !== undefined && low > 1 ? "algorithm.correction.low" : "algorithm.correction.high",
      what: "The band of the correction leaves out the ratio 1, which tokens of the trained policy itself have.",
      got: `low ${low}, high ${high}`,
      expected: "low at most 1, high at least 1",
      hint: "For example low: 0.5, high: 2.",
    });
  }
  return conflicts;
}
