/** An experiment: one base config, arms that change some of its keys, several seeds, and how the trained models are measured. */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { AgentRLError } from "../errors.ts";

const arm = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.+-]+$/)
    .describe("Name of the arm, and of its folder."),
  set: z.record(z.string(), z.json()).default({}).describe("Keys of the base config and their values in this arm."),
  group: z
    .string()
    .min(1)
    .optional()
    .describe("Arms of one group are one row of the result: each is measured on its own tasks."),
});

const schema = z.strictObject({
  question: z.string().min(1).describe("What the experiment is to answer."),
  base: z.string().min(1).describe("Config of `agentrl train`, from this file's folder."),
  set: z.record(z.string(), z.json()).default({}).describe("Keys of the base config and their values in every arm."),
  seeds: z.array(z.int().min(0)).min(1).describe("Every arm is trained with each of them."),
  arms: z.array(arm).min(1).describe("What is compared."),
  baseline: z.string().min(1).describe("Arm or group that the others are compared with, seed by seed."),
  evaluation: z
    .strictObject({
      split: z.string().min(1).default("eval"),
      episodes: z.int().min(1).default(100).describe("Tasks of each environment: the first of the split."),
      runs: z.int().min(1).default(1).describe("Times that each is played, for pass@k."),
      temperature: z.number().min(0).default(1),
    })
    .prefault({}),
});

export type ExperimentConfig = z.output<typeof schema> & {
  /** The file's folder, at which relative paths in it start. */
  folder: string;
};
export type Arm = ExperimentConfig["arms"][number];

/** @throws AgentRLError CONFIG naming the file and what is wrong in it. */
export function loadExperiment(file: string): ExperimentConfig {
  const refuse = (what: string, got: unknown, expected: string) =>
    new AgentRLError("CONFIG", what, { where: file, got, expected, hint: "docs/experiments/ holds examples." });
  let data: unknown;
  try {
    data = parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw refuse("The experiment's file cannot be read.", (error as Error).message, "a YAML file");
  }
  const { success, data: config, error } = schema.safeParse(data);
  if (!success) {
    const [issue] = error.issues;
    throw refuse(`Wrong or missing key \`${issue!.path.join(".") || "(top)"}\`.`, issue!.message, "an experiment");
  }
  const names = config.arms.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw refuse(`Arm ${twice} is listed twice.`, twice, "each arm once");
  const rows = [...new Set(config.arms.map(rowOf))];
  if (!rows.includes(config.baseline)) throw refuse("The baseline is no arm.", config.baseline, rows.join(", "));
  const folder = dirname(resolve(file));
  return { ...config, folder, base: resolve(folder, config.base) };
}

/** The row of the result that an arm is part of. */
export function rowOf({ name, group }: Arm): string {
  return group ?? name;
}

/** The `--set` flags of an arm with a seed. */
export function setsOf({ set }: ExperimentConfig, arm: Arm, seed: number): string[] {
  return Object.entries({ ...set, ...arm.set, seed }).map(([path, value]) => `${path}=${JSON.stringify(value)}`);
}
