/**
 * The sections that `train` and `sft` configs share. A field's `.describe()` text is its help, its documentation and its
 * entry in the JSON schema; its default lives here and nowhere else.
 */
import { z } from "zod";
import { weightTypes } from "../device/device.ts";
import { profileNames } from "../device/webgpu/profile.ts";
import { toolFormatNames } from "../text/formats/format.ts";
import type { Conflict, NoEffectRule } from "./rules.ts";

export const fraction = () => z.number().min(0).max(1);
export const count = () => z.int().min(1);
/** A path in a config file: resolved against the folder of that file (on the command line: the working folder). */
export const path = () => z.string().min(1).meta({ format: "path" });

/** A model: a path as above, or a name on the Hugging Face Hub. */
export const modelPlace = () => z.string().min(1).meta({ format: "model" });

export const seedField = z
  .int()
  .min(0)
  .max(0xffff_ffff)
  .default(1)
  .describe("Seed of every random choice of the run: tasks, sampling, initial weights.");

export const deviceField = z
  .enum(["auto", "native", "webgpu"])
  .default("auto")
  .describe(
    "Where to compute. native: this machine's CPU. webgpu: a GPU of any vendor, or a software adapter. auto: webgpu where there is a hardware adapter, else native.",
  );

/** @param of Completes "Part of the name of …". */
export const adapterField = (of: string) =>
  z
    .string()
    .min(1)
    .describe(`Part of the name of ${of}. On Linux also a PCI address, as pci:0000:41:00.0: see docs/webgpu.md.`);

const halfWeights =
  "matrices are computed with as the nearest number of that type, in half the memory, by sampler and learner alike; what is trained stays f32.";

export const nativeSection = z
  .strictObject({
    weights: z.enum(weightTypes).default("f32").describe(`f16, bf16: ${halfWeights}`),
  })
  .prefault({})
  .describe("The CPU as a device.");

export const webgpuSection = z
  .strictObject({
    profile: z
      .enum(profileNames)
      .default("safe")
      .describe(
        "safe: every access is checked. fast: the driver's checks are off, for an adapter on which the conformance tests have passed.",
      ),
    products: z
      .enum(["f32", "f16"])
      .default("f32")
      .describe(
        "f16: forward products run on the adapter's matrix units, operands rounded to f16 and sums in f32; sampler and learner alike, but mismatch is no longer exactly 0 by construction.",
      ),
    weights: z
      .enum(weightTypes)
      .default("f32")
      .describe(`f16, bf16: ${halfWeights} f16 needs an adapter with shader-f16.`),
    kvCache: z
      .enum(["f32", "f16"])
      .default("f32")
      .describe(
        "f16: the sampler's keys and values take half the memory; the learner rounds its own to the same numbers. Needs an adapter with shader-f16.",
      ),
    adapter: adapterField("the adapter to use; default: the fastest").optional(),
  })
  .prefault({})
  .describe("The WebGPU device.");

/** How the model's turns are written and read. */
export const textFields = {
  toolFormat: z
    .enum(["auto", ...toolFormatNames])
    .default("auto")
    .describe(
      "How the model writes tool calls: see docs/tool-formats.md. auto: as the model folder was saved with, else as its chat template shows.",
    ),
  templateVariables: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
    .optional()
    .describe(
      "Variables for the chat template, as in {enable_thinking: false} for Qwen 3 or {date_string: 1 Jan 2026} for Llama 3. One that the template does not use is an error.",
    ),
};

/** The environments that ship with AgentRL. */
export const knownTasks = ["alfworld", "dbbench", "kg", "os", "webshop"] as const;

/** One of `knownTasks`, or a path: resolved like any other, against the folder of the config file. */
const taskName = z
  .string()
  .regex(new RegExp(`^(?:${knownTasks.join("|")}|.+\\.(?:ts|mts|js|mjs))$`))
  .meta({ format: "task", examples: [...knownTasks] });

export const taskSchema = z
  .strictObject({
    name: taskName.describe("Environment, or a file of your own that defines one."),
    split: z.string().min(1).default("train").describe("Which of the environment's frozen task lists to draw from."),
    weight: z
      .number()
      .min(1e-6)
      .max(1e6)
      .default(1)
      .describe("Share of this task among the groups, relative to the other tasks."),
    levels: z
      .record(z.string().regex(/^[1-9]\d*$/), z.number().gt(0))
      .optional()
      .describe(
        "Relative weight of each level of graded tasks, as in {1: 4, 2: 1}; levels not listed are left out, of evaluations as well.",
      ),
    maxTurns: count().optional().describe("Turns an episode may take; the environment's own limit when absent."),
    options: z
      .strictObject({
        data: path().optional().describe("File of tasks in AgentBench's format; generated tasks when absent."),
        engine: z
          .string()
          .min(1)
          .optional()
          .describe("What carries out the calls; default: embedded, which needs no other program."),
        endpoint: z
          .string()
          .min(1)
          .optional()
          .describe("Address of the real engine, where it needs one: a socket, a host and port, or a URL."),
        settings: z
          .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
          .optional()
          .describe("What only this environment knows: see its README."),
        prompt: z
          .enum(["full", "brief"])
          .default("brief")
          .describe("System prompt: AgentBench's own text, or a short one that fits a small model's context."),
      })
      .prefault({})
      .describe("Options of the environment."),
  })
  .describe("One task of the mix.");

export const tasksField = z.array(taskSchema).min(1).describe("The tasks trained on together.");

export const optimizerSchema = z
  .strictObject({
    lr: z.number().min(0).max(1).default(1e-5).describe("Peak learning rate; 0 measures without learning."),
    warmupSteps: z.int().min(0).default(0).describe("Steps over which the learning rate rises linearly from 0."),
    schedule: z
      .enum(["constant", "linear", "cosine"])
      .default("constant")
      .describe("How the learning rate falls after the warm-up, ending at the last step."),
    minLrRatio: fraction().default(0.1).describe("Final learning rate as a share of `lr`."),
    beta1: z.number().min(0).lt(1).default(0.9).describe("AdamW: decay of the gradient's running mean."),
    beta2: z.number().min(0).lt(1).default(0.95).describe("AdamW: decay of the squared gradient's running mean."),
    eps: z.number().gt(0).default(1e-8).describe("AdamW: added to the denominator."),
    weightDecay: z.number().min(0).max(10).default(0).describe("Decoupled weight decay (Loshchilov & Hutter 2019)."),
    maxGradNorm: z.number().min(0).default(1).describe("Gradients of a larger global norm are scaled to it; 0 = off."),
  })
  .describe("AdamW and the learning-rate schedule.");

export type TaskConfig = z.output<typeof taskSchema>;
export type OptimizerConfig = z.output<typeof optimizerSchema>;
export interface DeviceSection {
  device: z.output<typeof deviceField>;
  native: z.output<typeof nativeSection>;
  webgpu: z.output<typeof webgpuSection>;
}

export const isNative = ({ device }: DeviceSection) => device === "native";
export const nothingThroughWebgpu = "device is native: nothing is computed through WebGPU";

/** For the no-effect rules of both configs. */
export const deviceNoEffect: readonly NoEffectRule<DeviceSection>[] = [
  { path: "webgpu", when: isNative, why: nothingThroughWebgpu },
  {
    path: "native",
    when: ({ device }) => device === "webgpu",
    why: "device is webgpu: weights are stored as webgpu.weights says",
  },
];

/** What contradicts itself in a list of tasks. */
export function taskConflicts(tasks: readonly TaskConfig[]): Conflict[] {
  return tasks.flatMap((task, i) => {
    const conflicts: Conflict[] = [];
    // Metrics are reported by task name.
    if (tasks.findIndex((other) => other.name === task.name) !== i) {
      conflicts.push({
        path: `tasks.${i}.name`,
        what: `Task ${task.name} is listed twice.`,
        got: task.name,
        expected: "each task once",
        hint: "Merge the two entries; set `weight` to give a task more groups.",
      });
    }
    if (task.options.data !== undefined && task.split !== "data") {
      conflicts.push({
        path: `tasks.${i}.split`,
        what: `Task ${task.name} reads a file of tasks, which has one split, "data".`,
        got: task.split,
        expected: "data",
        hint: `Set tasks.${i}.split: data.`,
      });
    }
    if (task.levels !== undefined && Object.keys(task.levels).length === 0) {
      conflicts.push({
        path: `tasks.${i}.levels`,
        what: `Task ${task.name} has no task left: tasks.${i}.levels lists no level.`,
        got: "{}",
        expected: "one level or more, as in {1: 4, 2: 1}",
        hint: `List levels, or remove tasks.${i}.levels: all levels.`,
      });
    }
    return conflicts;
  });
}
