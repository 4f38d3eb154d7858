/** The section `lora` of `train` and `sft`, and what it comes to in the model's terms. */
import { z } from "zod";
import { moduleOf } from "../model/adapter-files.ts";
import type { LoraShape } from "../model/lora.ts";
import { linearRoles } from "../model/parameters.ts";
import { count } from "./sections.ts";

const projections = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const;

export const loraSchema = z
  .strictObject({
    rank: count().max(1024).default(16).describe("Rank of the adapters: numbers that each squeezes a row into."),
    alpha: z
      .number()
      .gt(0)
      .optional()
      .describe("What adapters add is multiplied by alpha / rank; default: twice the rank."),
    targets: z
      .array(z.enum(projections))
      .min(1)
      .default([...projections])
      .describe("Matrices of every layer that get adapters."),
  })
  .describe("Low-rank adapters (LoRA, Hu et al. 2021).");

export type LoraConfig = z.output<typeof loraSchema>;

/** Null: every parameter is trained. */
export function loraOf({ lora }: { lora?: LoraConfig | undefined }): LoraShape | null {
  if (lora === undefined) return null;
  const { rank, alpha = 2 * rank } = lora;
  const targets = new Set<string>(lora.targets);
  return { rank, alpha, targets: linearRoles.filter((role) => targets.has(moduleOf(role))) };
}
