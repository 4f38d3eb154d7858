/**
 * The config of `agentrl train`: one schema a section, and the rules that hold between fields. A field that would do
 * nothing in the chosen mode is refused by name (`noEffect`), since a silently ignored option is a wrong experiment.
 */
import { z } from "zod";
import { adaptersConflicts, adaptersNoEffect } from "./adapters.ts";
import { algorithmConflicts, algorithmNoEffect, algorithmSchema } from "./algorithm.ts";
import { crossPolicyConflicts, crossPolicyNoEffect, crossPolicySchema } from "./cross-policy.ts";
import { filtersConflicts, filtersNoEffect } from "./filters.ts";
import { loraSchema } from "./lora.ts";
import { observeNoEffect, observeSchema } from "./observe.ts";
import type { Conflict, NoEffectRule } from "./rules.ts";
import { samplingNoEffect, samplingSchema } from "./sampling.ts";
import {
  adapterField,
  count,
  deviceField,
  deviceNoEffect,
  fraction,
  modelPlace,
  nativeSection,
  optimizerSchema,
  seedField,
  taskConflicts,
  textFields,
  webgpuSection,
} from "./sections.ts";
import { modeField, stalenessNoEffect, stalenessSchema } from "./staleness.ts";
import { trainTasksConflicts, trainTasksField, trainTasksNoEffect, unknownTasks } from "./train-tasks.ts";

const modelSchema = z
  .strictObject({
    path: modelPlace().describe(
      "Model folder in Hugging Face's layout (config.json, tokenizer.json, *.safetensors), GGUF file, or model on the Hub: see docs/models.md.",
    ),
    ...textFields,
  })
  .describe("The policy to start from.");

const rolloutSchema = z
  .strictObject({
    processes: count().max(256).default(1).describe("Rollout processes."),
    threads: count().max(256).default(1).describe("Compute threads of each rollout process."),
    maxSequences: count().max(4096).default(32).describe("Episodes that one rollout process runs at once."),
    groupSize: count().default(8).describe("Episodes per task drawn: the samples that are compared with each other."),
    groupsPerStep: count().default(8).describe("Complete groups in one optimizer step."),
    temperature: z.number().gt(0).max(10).default(1).describe("Sampling temperature, the learner's as well."),
    topK: z.int().min(0).default(0).describe("Sample among the k likeliest tokens only; 0 = off."),
    topP: z.number().gt(0).max(1).default(1).describe("Sample in the smallest set with this much mass; 1 = off."),
    minP: z
      .number()
      .min(0)
      .lt(1)
      .default(0)
      .describe("Drop tokens below this share of the likeliest token's probability; 0 = off."),
    maxTokensPerTurn: count().default(256).describe("Tokens the policy may sample in one turn."),
    endOnFailure: z
      .enum(["never", "parse", "call"])
      .default("never")
      .describe(
        "End a training episode as 'invalid action' at its first turn that does not parse (`parse`), or that does not parse or holds a call that the environment refuses (`call`), instead of letting the policy try on: credit falls on the turn that failed, and no tokens are spent after it. Evaluations always let it try on.",
      ),
    contextLimit: count().default(2048).describe("Tokens of a whole episode: prompt, turns and answers."),
    kvOnUpdate: z
      .enum(["keep", "recompute"])
      .default("keep")
      .describe(
        "What becomes of an episode's cached keys and values when the weights change under way. keep: it goes on with them, and the tokens after are stamped with both versions. recompute: its context is computed again first, so that every token is sampled wholly by one version, and `mismatch` can compare all of them.",
      ),
    adapters: z
      .array(adapterField("the adapter that rollout process i computes on, entry i modulo their number"))
      .min(1)
      .optional()
      .meta({ examples: [["pci:0000:41:00.0", "pci:0000:61:00.0"]] })
      .describe(
        "WebGPU adapters of the rollout processes, where a machine has several; default: webgpu.adapter for all.",
      ),
    bufferMb: count()
      .default(1024)
      .describe(
        "Mebibytes that episodes may take between sampling and training, those that are being played at their longest; no group is begun beyond it, but for one batch.",
      ),
  })
  .describe("How episodes are generated.");

const learnerSchema = z
  .strictObject({
    threads: count().max(256).default(1).describe("Compute threads of the learner process."),
    adapter: adapterField("the adapter that the learner computes on; default: webgpu.adapter").optional(),
    microBatchTokens: count()
      .default(4096)
      .describe(
        "Tokens per forward and backward pass, a prompt that samples of a group share counted once. Sets memory and speed; the gradient depends on it in its rounding alone.",
      ),
    recompute: z
      .boolean()
      .default(false)
      .describe(
        "Activation checkpointing: keep each layer's input alone, and compute the rest again on the way back. About a third more work for a fraction of the memory; the same numbers, bit for bit.",
      ),
  })
  .describe("The learner process.");

const verifySchema = z
  .strictObject({
    fraction: fraction()
      .default(0.1)
      .describe("Share of sampled tokens recomputed under the weights that sampled them: the metric `mismatch`."),
  })
  .describe("The check that sampler and learner compute the same numbers.");

const checkpointSchema = z
  .strictObject({
    every: z.int().min(0).default(10).describe("Steps between checkpoints; 0 = only at the end."),
    keep: count().default(2).describe("Newest checkpoints kept on disk."),
    onError: z
      .enum(["stop", "continue"])
      .default("stop")
      .describe(
        "When a checkpoint cannot be written, on a full disk say. stop: the run ends with the cause. continue: it says so, keeps the previous checkpoint and goes on to the next one; lines of metrics wait in memory for room. The last checkpoint of a run must be written either way.",
      ),
  })
  .describe("Checkpoints.");

const recoverySchema = z
  .strictObject({
    tries: count()
      .max(100)
      .default(5)
      .describe("Tries of an episode that its environment fails, before its group is left out and another is played."),
    episodeSeconds: count()
      .default(1800)
      .describe("Seconds after which one try of an episode counts as hung, and is played anew."),
    stallSeconds: z
      .int()
      .min(10)
      .default(180)
      .describe(
        "Seconds without progress after which a process that has work counts as hung: it is killed and restarted. A rollout process has at least twice as long as an environment may take for an answer: 60 s, or its stepTimeoutMs where that is longer.",
      ),
    restarts: z
      .int()
      .min(0)
      .default(5)
      .describe("Restarts of a process without an episode, or of the learner without a new step, before the run ends."),
  })
  .describe("What is done when something fails or hangs.");

const evaluationSchema = z
  .strictObject({
    every: z.int().min(0).default(0).describe("Steps between evaluations during the run; 0 = none."),
    episodes: count().default(100).describe("Episodes per task in one evaluation."),
    split: z.string().min(1).default("eval").describe("The environment's task list to evaluate on."),
    temperature: z.number().min(0).max(10).default(0).describe("Sampling temperature of evaluations; 0 = greedy."),
    panels: z
      .record(z.string().min(1), z.string().regex(/^(?:.+-)?[0-9a-f]{8}$/))
      .optional()
      .meta({ examples: [{ kg: "kg-eval-0123abcd" }] })
      .describe(
        "The list of tasks that an environment is evaluated on, by the name that reports give it, as in {kg: kg-eval-0123abcd}, or its hash alone in quotes: the run refuses to be measured on another.",
      ),
  })
  .describe("Evaluations on held-out tasks.");

export const trainSchema = z
  .strictObject({
    model: modelSchema,
    lora: loraSchema
      .optional()
      .describe(
        "Train low-rank adapters on the frozen model; absent: train every parameter. The optimizer's state, the weight board and the checkpoints hold the adapters alone.",
      ),
    seed: seedField,
    steps: count().describe("Optimizer steps of the run."),
    mode: modeField,
    device: deviceField,
    native: nativeSection,
    webgpu: webgpuSection,
    tasks: trainTasksField,
    sampling: samplingSchema.prefault({}),
    rollout: rolloutSchema.prefault({}),
    crossPolicy: crossPolicySchema.optional(),
    algorithm: algorithmSchema.prefault({}),
    optimizer: optimizerSchema.prefault({}),
    learner: learnerSchema.prefault({}),
    staleness: stalenessSchema.prefault({}),
    verify: verifySchema.prefault({}),
    checkpoint: checkpointSchema.prefault({}),
    recovery: recoverySchema.prefault({}),
    evaluation: evaluationSchema.prefault({}),
    observe: observeSchema.prefault({}),
  })
  .describe("Config of `agentrl train`.");

export type TrainConfig = z.output<typeof trainSchema>;

/** Options that do nothing under a condition on the rest of the config; only explicitly set ones are refused. */
export const trainNoEffect: readonly NoEffectRule<TrainConfig>[] = [
  ...deviceNoEffect,
  ...stalenessNoEffect,
  ...adaptersNoEffect,
  ...algorithmNoEffect,
  ...crossPolicyNoEffect,
  ...filtersNoEffect,
  ...trainTasksNoEffect,
  ...samplingNoEffect,
  ...observeNoEffect,
  {
    path: "optimizer.minLrRatio",
    when: (c) => c.optimizer.schedule === "constant",
    why: "optimizer.schedule is constant: the learning rate never falls",
  },
  {
    path: "checkpoint.keep",
    when: (c) => c.checkpoint.every === 0,
    why: "checkpoint.every is 0: there is only the final checkpoint",
  },
  {
    path: "checkpoint.onError",
    when: (c) => c.checkpoint.every === 0,
    why: "checkpoint.every is 0: there is only the final checkpoint, which must be written",
  },
  ...(["evaluation.episodes", "evaluation.split", "evaluation.temperature", "evaluation.panels"] as const).map(
    (path) => ({
      path,
      when: (c: TrainConfig) => c.evaluation.every === 0,
      why: "evaluation.every is 0: the run does not evaluate",
    }),
  ),
];

/** Values that are each in range but do not go together. */
export function trainConflicts(config: TrainConfig): Conflict[] {
  const { rollout } = config;
  const conflicts = [
    ...adaptersConflicts(config),
    ...taskConflicts(config.tasks),
    ...trainTasksConflicts(config),
    ...algorithmConflicts(config),
    ...crossPolicyConflicts(config),
    ...filtersConflicts(config),
    ...unknownTasks("evaluation.panels", config.evaluation.panels ?? {}, config.tasks),
  ];
  if (rollout.maxSequences < rollout.groupSize) {
    conflicts.push({
      path: "rollout.maxSequences",
      what: "A rollout process has no room for one whole group.",
      got: rollout.maxSequences,
      expected: `at least rollout.groupSize = ${rollout.groupSize}`,
      hint: "Raise rollout.maxSequences or lower rollout.groupSize.",
    });
  }
  if (rollout.maxTokensPerTurn >= rollout.contextLimit) {
    conflicts.push({
      path: "rollout.maxTokensPerTurn",
      what: "One turn may take the whole context: no episode would have room for a prompt.",
      got: rollout.maxTokensPerTurn,
      expected: `less than rollout.contextLimit = ${rollout.contextLimit}`,
      hint: "Lower rollout.maxTokensPerTurn or raise rollout.contextLimit.",
    });
  }
  for (const task of config.tasks) {
    if (config.evaluation.every === 0 || (task.options.data !== undefined) === (config.evaluation.split === "data"))
      continue;
    conflicts.push({
      path: "evaluation.split",
      what: `Task ${task.name} has no split "${config.evaluation.split}" to evaluate on.`,
      got: config.evaluation.split,
      expected:
        task.options.data === undefined ? "eval or train: its tasks are generated" : "data: its tasks are a file's",
      hint: "Evaluate tasks of files and generated tasks in separate runs, or afterwards with `agentrl eval`.",
    });
  }
  return conflicts;
}
