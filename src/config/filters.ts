/** The section `algorithm.filters`: which of the episodes that were sampled a step trains on. */
import { z } from "zod";
import { needsCritic, teachesOnEqual } from "./advantages.ts";
import type { AlgorithmConfig } from "./algorithm.ts";
import type { Conflict, NoEffectRule } from "./rules.ts";
import type { TrainTaskConfig } from "./train-tasks.ts";

export const filtersSchema = z
  .strictObject({
    zeroVariance: z
      .enum(["drop", "keep"])
      .default("drop")
      .describe(
        "Episodes without a signal (advantage 0: equal rewards in their group). drop: they are out of the loss's mean. keep: they count in it, as in GRPO's original, so that a batch with few signals takes a small step.",
      ),
    overlong: z
      .enum(["train", "mask"])
      .default("train")
      .describe(
        "Episodes that the length or context limit ended. mask: they carry no loss (DAPO, arXiv 2503.14476, §3.4), but count in their group's baseline. train: like any other that was not completed.",
      ),
    dynamicSampling: z
      .strictObject({
        maxFactor: z
          .number()
          .min(1)
          .default(1)
          .describe(
            "Groups that one step may use up, as a multiple of rollout.groupsPerStep: those of equal rewards fill no place in a batch until then. 1 = off.",
          ),
      })
      .prefault({})
      .describe("Sampling until a batch is full of groups that have a signal (DAPO, Eq. 11)."),
  })
  .prefault({})
  .describe("Which of the sampled episodes are trained on.");

interface Config {
  algorithm: AlgorithmConfig;
  tasks: readonly TrainTaskConfig[];
}

export const filtersNoEffect: readonly NoEffectRule<Config>[] = [
  {
    path: "algorithm.filters.zeroVariance",
    when: ({ algorithm: { kl, entropyBonus } }) => kl.coefficient > 0 || entropyBonus > 0,
    why: "a penalty or bonus gives every episode a gradient (algorithm.kl, algorithm.entropyBonus), so all of them count",
  },
  {
    path: "algorithm.filters.zeroVariance",
    when: ({ algorithm }) => needsCritic(algorithm.advantage),
    why: "a critic learns from every episode, so all of them count",
  },
];

export function filtersConflicts({ algorithm, tasks }: Config): Conflict[] {
  const { maxFactor } = algorithm.filters.dynamicSampling;
  if (maxFactor === 1) return [];
  const path = "algorithm.filters.dynamicSampling.maxFactor";
  const refuse = (what: string, hint: string): Conflict => ({ path, what, got: maxFactor, expected: "1", hint });
  const conflicts = [
    { of: algorithm.advantage, where: "algorithm.advantage" },
    ...tasks.map((task) => ({ of: task.algorithm.advantage, where: `the advantage of task ${task.name}` })),
  ]
    .filter(({ of }) => of !== undefined && teachesOnEqual(of))
    .map(({ of, where }) =>
      refuse(
        `Dynamic sampling would throw away groups that teach: under ${where} ${of}, equal rewards have a signal as well.`,
        "Leave dynamicSampling out, or choose an advantage that compares rewards within the group alone.",
      ),
    );
  if (algorithm.taskNormalization === "paper") {
    conflicts.push(
      refuse(
        "Dynamic sampling would throw away groups that teach: under algorithm.taskNormalization paper, equal rewards get -mean/spread.",
        "Set algorithm.taskNormalization: on.",
      ),
    );
  }
  return conflicts;
}
