/** How far generation may run ahead of training: the mode, the bound, and what is done about groups that come to it. */
import { z } from "zod";
import type { NoEffectRule } from "./rules.ts";
import { count } from "./sections.ts";

export const modeField = z
  .enum(["async", "one-step-off", "sync"])
  .default("async")
  .describe(
    "async: generation and training never wait for each other. one-step-off: a batch is trained while the next one is generated, so that lag is at most 1, and batches take groups in the order of issue. sync: they alternate, bit-reproducible.",
  );

export type TrainMode = z.output<typeof modeField>;

export const stalenessSchema = z
  .strictObject({
    maxLag: count()
      .default(4)
      .describe("Weight versions by which a group's oldest token may be older than the weights it trains."),
    overdue: z
      .enum(["pace", "drop", "wait"])
      .default("pace")
      .describe(
        "What becomes of a batch that a slow group holds up. pace: it takes other groups, and waits only where going on would leave a group too old later. wait: every batch waits for the next groups in the order of issue, so that which groups make it does not depend on how long they take. drop: it never waits; a group that is too old for the next step is thrown away, finished or not, which leaves out what takes long.",
      ),
  })
  .describe("How far generation may run ahead of training.");

export type StalenessConfig = z.output<typeof stalenessSchema>;

interface Config {
  mode: TrainMode;
  staleness: StalenessConfig;
  evaluation: { every: number };
}

/** What is done about slow groups, by mode; in sync a batch is all that there is. */
export function overdueOf({ mode, staleness }: Pick<Config, "mode" | "staleness">): StalenessConfig["overdue"] {
  return ({ async: staleness.overdue, "one-step-off": "wait", sync: "pace" } as const)[mode];
}

/** Whether batches take groups in the order of issue, however long they take. */
export function takesInOrder(config: Pick<Config, "mode" | "staleness">): boolean {
  return overdueOf(config) === "wait";
}

export const stalenessNoEffect: readonly NoEffectRule<Config>[] = [
  {
    path: "staleness",
    when: ({ mode }) => mode === "sync",
    why: "mode is sync: every group is sampled with the newest weights, so the lag is always 0",
  },
  {
    path: "staleness",
    when: ({ mode }) => mode === "one-step-off",
    why: "mode is one-step-off: the lag is at most 1, and batches take groups in the order of issue",
  },
  {
    path: "rollout.kvOnUpdate",
    when: ({ mode, evaluation }) => mode === "sync" && evaluation.every === 0,
    why: "mode is sync: no episode is under way when weights change",
  },
];
