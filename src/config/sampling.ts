/** The section `sampling`: how the mix of tasks follows what is being learned. */
import { z } from "zod";
import type { NoEffectRule } from "./rules.ts";

export const samplingSchema = z
  .strictObject({
    adaptive: z
      .strictObject({
        signal: z
          .enum(["off", "progress", "variance"])
          .default("off")
          .describe(
            "What makes a task drawn more often. progress: its absolute learning progress, fast less slow moving average of the trained reward (arXiv 1910.07224, 2106.14876). variance: p(1 - p) of its moving average p: most where half of the episodes succeed. off: tasks[].weight alone.",
          ),
        floor: z
          .number()
          .gt(0)
          .lt(1)
          .default(0.3)
          .describe("Share of the groups that is drawn by tasks[].weight alone, whatever the signal."),
        halfLife: z
          .number()
          .gt(0)
          .default(16)
          .describe("Groups of a task after which an observation counts half in its moving averages."),
      })
      .prefault({})
      .describe("Task weights that follow a signal."),
  })
  .describe("How tasks are drawn.");

export type AdaptiveConfig = z.output<typeof samplingSchema>["adaptive"];

interface Config {
  tasks: readonly unknown[];
  sampling: { adaptive: AdaptiveConfig };
}

export const samplingNoEffect: readonly NoEffectRule<Config>[] = [
  {
    path: "sampling.adaptive",
    when: ({ tasks }) => tasks.length === 1,
    why: "there is one task, which gets all groups",
  },
  ...(["floor", "halfLife"] as const).map((field) => ({
    path: `sampling.adaptive.${field}`,
    when: ({ sampling }: Config) => sampling.adaptive.signal === "off",
    why: "sampling.adaptive.signal is off: tasks are drawn by tasks[].weight alone",
  })),
];
