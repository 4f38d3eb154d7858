/** The list `tasks` of `agentrl train`: the mix, and what a task has of its own in how it is trained. */
import { z } from "zod";
import { isModulePath } from "../env/definition.ts";
import { needsCritic, needsPeers, ownAdvantages } from "./advantages.ts";
import { type AlgorithmConfig, ofAdvantage } from "./algorithm.ts";
import { policiesField } from "./cross-policy.ts";
import type { Conflict, NoEffectRule } from "./rules.ts";
import { count, fraction, taskSchema } from "./sections.ts";
import { type StalenessConfig, type TrainMode, takesInOrder } from "./staleness.ts";

const taskAlgorithmSchema = z
  .strictObject({
    advantage: z.enum(ownAdvantages).optional().describe("How this task's advantages are estimated."),
    normalizeStd: z.boolean().optional().describe("Divide this task's advantages by their deviation (grpo, gigpo)."),
    gamma: fraction().optional().describe("Discount per turn (gigpo)."),
    omega: z.number().min(0).optional().describe("Weight of the step level beside the episode's (gigpo)."),
    incompletePenalty: z
      .number()
      .min(-1000)
      .max(0)
      .optional()
      .describe("Trained reward of an episode of this task that the policy did not complete."),
  })
  .prefault({})
  .describe("What differs from `algorithm` for this task, whose groups are then estimated by themselves.");

/** Longer delays would run into the deadline of a step. */
const mostLatencyMs = 60_000;
const milliseconds = () => z.number().gt(0).max(mostLatencyMs);

const latencySchema = z
  .strictObject({
    medianMs: milliseconds().describe("Half of all delays are shorter, in milliseconds."),
    p99Ms: milliseconds().describe("All delays but one in a hundred are shorter, in milliseconds."),
  })
  .describe(
    "Delays every start and every step of the training episodes by a time drawn from this log-normal distribution: to rehearse an environment that is slow.",
  );

const trainTaskSchema = taskSchema
  .extend({
    maxTokensPerTurn: count()
      .optional()
      .describe("Tokens the policy may sample in one turn of this task; rollout.maxTokensPerTurn when absent."),
    lossWeight: z
      .number()
      .min(0)
      .default(1)
      .describe(
        "Weight of this task's tokens in the loss, relative to the other tasks'; 0: played and measured, not trained.",
      ),
    minShare: fraction()
      .default(0)
      .describe(
        "Least share of this task in every batch, in groups: the batch waits for them while they are being played, so that fast tasks cannot crowd a slow one out. With staleness.overdue drop it does not wait, and the share is one of the complete groups.",
      ),
    policies: policiesField,
    latency: latencySchema.optional(),
    algorithm: taskAlgorithmSchema,
  })
  .describe("One task of the mix.");

export const trainTasksField = z.array(trainTaskSchema).min(1).describe("The tasks trained on together.");
export type TrainTaskConfig = z.output<typeof trainTaskSchema>;

/** Tokens that the policy may sample in one turn of the task. */
export function tokensPerTurnOf(
  { rollout }: { rollout: { maxTokensPerTurn: number } },
  { maxTokensPerTurn = rollout.maxTokensPerTurn }: Pick<TrainTaskConfig, "maxTokensPerTurn">,
): number {
  return maxTokensPerTurn;
}

interface Config {
  mode: TrainMode;
  algorithm: AlgorithmConfig;
  tasks: readonly TrainTaskConfig[];
  rollout: { groupSize: number; contextLimit: number };
  sampling: { adaptive: { signal: "off" | "progress" | "variance"; floor: number } };
  staleness: StalenessConfig;
}

/** The algorithm that a task is trained with. */
export function algorithmOf(algorithm: AlgorithmConfig, task: TrainTaskConfig): AlgorithmConfig {
  const own = Object.entries(task.algorithm).filter(([, value]) => value !== undefined);
  return { ...algorithm, ...(Object.fromEntries(own) as Partial<AlgorithmConfig>) };
}

/** Whether a task's advantages are estimated apart from the other tasks'. */
export function hasOwnAdvantage({ algorithm }: TrainTaskConfig): boolean {
  const { advantage, normalizeStd, gamma, omega } = algorithm;
  return [advantage, normalizeStd, gamma, omega].some((value) => value !== undefined);
}

const onlyOne: NoEffectRule<Config>["when"] = ({ tasks }) => tasks.length === 1;

export const trainTasksNoEffect: readonly NoEffectRule<Config>[] = [
  {
    path: "tasks.*.weight",
    when: onlyOne,
    why: "there is one task, which gets all groups whatever its weight",
  },
  {
    path: "tasks.*.lossWeight",
    when: onlyOne,
    why: "there is one task: weights are relative to the other tasks'",
  },
  {
    // Whatever the mean, a token's share is its weight over the weights' sum (src/rl/token-scales.ts).
    path: "tasks.*.lossWeight",
    when: ({ tasks: [first, ...others] }) =>
      first!.lossWeight > 0 && first!.lossWeight !== 1 && others.every((task) => task.lossWeight === first!.lossWeight),
    why: "all tasks have the same, and weights are relative to the other tasks'",
  },
  {
    path: "tasks.*.minShare",
    when: onlyOne,
    why: "there is one task, which fills every batch",
  },
  {
    path: "tasks.*.minShare",
    when: ({ mode }) => mode === "sync",
    why: "mode is sync: a batch is all the groups that were drawn for it, however long they take",
  },
  {
    path: "tasks.*.minShare",
    when: takesInOrder,
    why: "batches take groups in the order of issue (mode one-step-off, or staleness.overdue: wait)",
  },
  {
    path: "algorithm.advantage",
    when: ({ tasks }) => tasks.every((task) => task.algorithm.advantage !== undefined),
    why: "every task has an advantage of its own",
  },
  ...(["normalizeStd", "gamma", "omega"] as const).flatMap((field): NoEffectRule<Config>[] => {
    const readers = ofAdvantage[field]!;
    // A task's own option needs an advantage that a task may have of its own.
    const own: typeof readers = readers.filter((advantage) => !needsCritic(advantage));
    return [
      {
        path: `algorithm.${field}`,
        when: ({ algorithm, tasks }) =>
          tasks.every(
            (task) => task.algorithm[field] !== undefined || !readers.includes(algorithmOf(algorithm, task).advantage),
          ),
        why: "every task has its own, or an advantage that does not read it",
      },
      {
        path: `tasks.*.algorithm.${field}`,
        when: ({ algorithm, tasks }, item) => !own.includes(algorithmOf(algorithm, tasks[item]!).advantage),
        why: `it belongs to advantage ${own.join(", ")}`,
      },
    ];
  }),
];

/** Values that do not go together, within a task and between tasks. */
export function trainTasksConflicts(config: Config): Conflict[] {
  const { tasks, rollout } = config;
  const conflicts: Conflict[] = [...sharesOf(config)];
  if (tasks.every((task) => task.lossWeight === 0)) {
    conflicts.push({
      path: "tasks.0.lossWeight",
      what: "The loss weights of the tasks sum to 0: nothing would be trained.",
      got: tasks.map((task) => `${task.name} ${task.lossWeight}`).join(", "),
      expected: "at least one above 0",
      hint: "Set tasks[].lossWeight, or leave it out: 1 for each.",
    });
  }
  for (const [i, task] of tasks.entries()) {
    const { maxTokensPerTurn } = task;
    if (maxTokensPerTurn !== undefined && maxTokensPerTurn >= rollout.contextLimit) {
      conflicts.push({
        path: `tasks.${i}.maxTokensPerTurn`,
        what: "One turn may take the whole context: no episode would have room for a prompt.",
        got: maxTokensPerTurn,
        expected: `less than rollout.contextLimit = ${rollout.contextLimit}`,
        hint: `Lower tasks.${i}.maxTokensPerTurn or raise rollout.contextLimit.`,
      });
    }
    if (task.latency !== undefined && task.latency.p99Ms <= task.latency.medianMs) {
      conflicts.push({
        path: `tasks.${i}.latency.p99Ms`,
        what: `The delays of task ${task.name} have no tail: their 99th percentile is not above their median.`,
        got: task.latency.p99Ms,
        expected: `more than medianMs = ${task.latency.medianMs}`,
        hint: "Raise p99Ms: 15 times the median is a long tail, twice the median a short one.",
      });
    }
    conflicts.push(...algorithmConflictsOf(config, i));
  }
  return conflicts;
}

function algorithmConflictsOf({ algorithm, tasks, rollout }: Config, i: number): Conflict[] {
  const task = tasks[i]!;
  if (!hasOwnAdvantage(task)) return [];
  const { advantage } = algorithmOf(algorithm, task);
  if (needsCritic(algorithm.advantage)) {
    return [
      {
        path: `tasks.${i}.algorithm`,
        what: `Task ${task.name} cannot have an advantage of its own beside a critic, which judges the episodes of all tasks.`,
        got: JSON.stringify(task.algorithm),
        expected: `no more than incompletePenalty under algorithm.advantage ${algorithm.advantage}`,
        hint: "Choose an algorithm.advantage without a critic, or leave the task's own out.",
      },
    ];
  }
  // The run's own advantage is checked where the algorithm is.
  if (rollout.groupSize > 1 || !needsPeers(advantage) || task.algorithm.advantage === undefined) return [];
  return [
    {
      path: `tasks.${i}.algorithm.advantage`,
      what: `A group of one episode cannot be trained with advantage ${advantage} of task ${task.name}: it is compared with the others of its group.`,
      got: advantage,
      expected: "reinforce++, or rollout.groupSize ≥ 2",
      hint: "Set rollout.groupSize to 4 or more.",
    },
  ];
}

function sharesOf({ tasks, sampling: { adaptive } }: Config): Conflict[] {
  const sum = tasks.reduce((total, task) => total + task.minShare, 0);
  if (sum > 1 + 1e-9) {
    return [
      {
        path: "tasks.0.minShare",
        what: "The minimum shares of the tasks are more than a batch.",
        got: `${tasks.map((task) => `${task.name} ${task.minShare}`).join(", ")}: ${sum} in all`,
        expected: "shares that sum to at most 1",
        hint: "Lower tasks[].minShare.",
      },
    ];
  }
  const weights = tasks.reduce((total, task) => total + task.weight, 0);
  const least = adaptive.signal === "off" ? 1 : adaptive.floor;
  return tasks.flatMap((task, i) => {
    const drawn = (least * task.weight) / weights;
    if (task.minShare <= drawn + 1e-9) return [];
    return [
      {
        path: `tasks.${i}.minShare`,
        what: `Task ${task.name} is not drawn often enough to fill its minimum share of the batches.`,
        got: task.minShare,
        expected: `at most its share of the groups drawn, ${Number(drawn.toPrecision(3))}${
          least === 1 ? "" : ", which is what sampling.adaptive.floor leaves it at least"
        }`,
        hint: `Raise tasks.${i}.weight${least === 1 ? "" : " or sampling.adaptive.floor"}, or lower minShare.`,
      },
    ];
  });
}

/** Tasks that a map by task names, and no list entry has. What a file of one's own calls its environment is not known yet. */
export function unknownTasks(
  path: string,
  map: Record<string, unknown>,
  tasks: readonly TrainTaskConfig[],
): Conflict[] {
  const names = tasks.map((task) => task.name);
  if (names.some(isModulePath)) return [];
  return Object.keys(map)
    .filter((name) => !names.includes(name))
    .map((name) => ({
      path: `${path}.${name}`,
      what: `${path} names a task that is not trained: ${name}.`,
      got: name,
      expected: names.join(", "),
      hint: `Remove ${path}.${name}.`,
    }));
}
