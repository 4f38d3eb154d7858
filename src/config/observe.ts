/** What a run shows of itself beside metrics.jsonl. */
import { z } from "zod";
import type { NoEffectRule } from "./rules.ts";
import { count } from "./sections.ts";

const wandbSchema = z.strictObject({
  project: z.string().min(1).describe("Project that the run appears in."),
  entity: z.string().min(1).optional().describe("Team or user; the key's own when absent."),
  name: z.string().min(1).optional().describe("Name of the run; that of its folder when absent."),
});

export type WandbConfig = z.output<typeof wandbSchema>;

export const observeSchema = z
  .strictObject({
    traces: z
      .strictObject({
        every: z.int().min(0).default(1).describe("Steps from one whose episodes are kept to the next; 0 = none are."),
        maxMb: count().default(256).describe("Mebibytes that they may take on disk; the oldest go first."),
      })
      .prefault({})
      .describe("Episodes that were trained, token by token, in the run folder: see docs/observing.md."),
    tensorboard: z.boolean().default(false).describe("Write TensorBoard's event files, into RUN/tensorboard."),
    prometheus: z
      .strictObject({
        port: z
          .int()
          .min(0)
          .max(65535)
          .default(9464)
          .describe("Port of this machine, not reachable from others; 0 = any that is free, which the run says."),
      })
      .optional()
      .describe("Serve /metrics to Prometheus while the run trains."),
    wandb: wandbSchema.optional().describe("Send metrics to Weights & Biases: needs @wandb/sdk and WANDB_API_KEY."),
  })
  .describe("What a run shows of itself beside metrics.jsonl. Nothing of it stops a run or changes what it learns.");

export type ObserveConfig = z.output<typeof observeSchema>;

interface Config {
  observe: ObserveConfig;
}

export const observeNoEffect: readonly NoEffectRule<Config>[] = [
  {
    path: "observe.traces.maxMb",
    when: ({ observe }) => observe.traces.every === 0,
    why: "observe.traces.every is 0: no episodes are kept",
  },
];
