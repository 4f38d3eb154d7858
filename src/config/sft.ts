/** The config of `agentrl sft`: supervised training on the episodes of the tasks' scripted experts. */
import { z } from "zod";
import { loraSchema } from "./lora.ts";
import type { Conflict, NoEffectRule } from "./rules.ts";
import {
  count,
  deviceField,
  deviceNoEffect,
  fraction,
  modelPlace,
  nativeSection,
  optimizerSchema,
  path,
  seedField,
  taskConflicts,
  tasksField,
  textFields,
  webgpuSection,
} from "./sections.ts";

const newModelSchema = z
  .strictObject({
    hiddenSize: count().describe("Width of the residual stream."),
    intermediateSize: count().describe("Width of the SwiGLU layer."),
    vocabSize: count()
      .min(300)
      .default(1024)
      .describe("Size of the byte-level BPE that is trained on the expert episodes; without `tokenizer` only."),
    layers: count().describe("Decoder layers."),
    heads: count().describe("Query heads."),
    kvHeads: count().describe("Key/value heads; divides `heads`."),
    headDim: count().multipleOf(2).describe("Width of one head."),
    ropeTheta: z.number().gt(0).default(10_000).describe("Base of the rotary embedding's angles."),
    rmsNormEps: z.number().gt(0).default(1e-6).describe("Added to the mean square in RMSNorm."),
    tieWordEmbeddings: z.boolean().default(true).describe("The output head is the embedding table."),
    maxPositions: count().default(2048).describe("Longest sequence."),
  })
  .describe("Architecture of a new model; the vocabulary size is the tokenizer's.");

export const sftSchema = z
  .strictObject({
    model: z
      .strictObject({
        path: modelPlace().optional().describe("Model to start from: a folder, a GGUF file, or a name on the Hub."),
        new: newModelSchema.optional(),
        ...textFields,
      })
      .describe("The model to train: `path` or `new`."),
    tokenizer: modelPlace()
      .optional()
      .describe("Model whose tokenizer a new model takes; without it a BPE is trained on the expert episodes."),
    lora: loraSchema
      .optional()
      .describe("Train low-rank adapters and add them into the model that is written; absent: train every parameter."),
    seed: seedField,
    out: path().describe("Folder that the trained model is written to."),
    tasks: tasksField,
    episodes: count().default(1000).describe("Expert episodes to train on, over all tasks."),
    epochs: count().optional().describe("Passes over the episodes (1 when `steps` is absent as well)."),
    steps: count().optional().describe("Optimizer steps, instead of `epochs`."),
    batchTokens: count().default(8192).describe("Tokens in one optimizer step, at most; an episode is never cut."),
    contextLimit: count().default(2048).describe("Episodes of more tokens are left out, and counted."),
    temperature: z
      .number()
      .min(0.1)
      .max(10)
      .default(1)
      .describe(
        "Temperature at which the expert's tokens are made likely. Below 1 the model is more random than the expert episodes when it samples at 1: that leaves reinforcement learning something to explore.",
      ),
    threads: count().max(256).default(1).describe("Compute threads."),
    microBatchTokens: count()
      .default(4096)
      .describe("Tokens per forward and backward pass; the gradient does not depend on it."),
    optimizer: optimizerSchema.prefault({}),
    until: z
      .strictObject({
        success: fraction().describe("Stop when held-out success, mean of the tasks, reaches this."),
        every: count().default(20).describe("Steps between measurements."),
        from: count()
          .default(1)
          .describe("No measurement before this step: a model that knows nothing is slow to play."),
        episodes: count().default(100).describe("Episodes per task in one measurement."),
        split: z.string().min(1).default("eval").describe("The environment's task list to measure on."),
        temperature: z.number().min(0).max(10).default(0).describe("Sampling temperature; 0 = greedy."),
      })
      .optional()
      .describe("An early stop; without it all steps are done."),
    device: deviceField,
    native: nativeSection,
    webgpu: webgpuSection,
  })
  .describe("Config of `agentrl sft`.");

export type SftConfig = z.output<typeof sftSchema>;
export type NewModelConfig = z.output<typeof newModelSchema>;

export const sftNoEffect: readonly NoEffectRule<SftConfig>[] = [
  ...deviceNoEffect,
  {
    path: "tokenizer",
    when: (c) => c.model.path !== undefined,
    why: "model.path is set, and the model folder has its own tokenizer.json",
  },
  ...["model.toolFormat", "model.templateVariables"].map((path) => ({
    path,
    when: (c: SftConfig) => c.model.new !== undefined && c.tokenizer === undefined,
    why: "model.new without tokenizer makes its own chat template, which writes calls as hermes",
  })),
  {
    path: "model.new.vocabSize",
    when: (c) => c.tokenizer !== undefined,
    why: "tokenizer is set, and the vocabulary is that tokenizer's",
  },
  {
    path: "lora",
    when: (c) => c.model.new !== undefined,
    why: "model.new starts from random weights, which must all be trained",
  },
  {
    path: "tasks.*.weight",
    when: (c) => c.tasks.length === 1,
    why: "there is one task, which gets all episodes whatever its weight",
  },
  {
    path: "optimizer.minLrRatio",
    when: (c) => c.optimizer.schedule === "constant",
    why: "optimizer.schedule is constant: the learning rate never falls",
  },
];

export function sftConflicts(config: SftConfig): Conflict[] {
  const conflicts = taskConflicts(config.tasks);
  const { model } = config;
  if ((model.path === undefined) === (model.new === undefined)) {
    conflicts.push({
      path: "model",
      what: model.new ? "Both model.path and model.new are set." : "Neither model.path nor model.new is set.",
      got: Object.keys(model).join(", ") || "neither",
      expected: "one of path (train an existing model further) and new (start from random weights)",
      hint: model.new
        ? "Remove one of the two."
        : "Set model.path to a model folder, or describe a model under model.new.",
    });
  }
  if (model.new && model.new.heads % model.new.kvHeads !== 0) {
    conflicts.push({
      path: "model.new.kvHeads",
      what: "The key/value heads do not divide the query heads.",
      got: model.new.kvHeads,
      expected: `a divisor of model.new.heads = ${model.new.heads}`,
      hint: "Every key/value head serves the same number of query heads (grouped-query attention).",
    });
  }
  if (config.epochs !== undefined && config.steps !== undefined) {
    conflicts.push({
      path: "steps",
      what: "Both epochs and steps are set.",
      got: `epochs ${config.epochs}, steps ${config.steps}`,
      expected: "one of the two",
      hint: "Remove one of them.",
    });
  }
  return conflicts;
}
