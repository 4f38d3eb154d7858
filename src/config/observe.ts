/** What a run shows of itself beside metrics.jsonl. */
import { z } from "zod";
import type { NoEffectRule } from "./rules.ts";
import { count } from "./sections.ts";

export const observeSchema = z
  .strictObject({
    traces: z
      .strictObject({
        every: z.int().min(0).default(1).describe("Steps from one whose episodes are kept to the next; 0 = none are."),
        maxMb: count().default(256).describe("Mebibytes that they may take on disk; the oldest go first."),
      })
      .prefault({})
      .describe("Episodes that were trained, token by token, in the run folder: see docs/observing.md."),
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
