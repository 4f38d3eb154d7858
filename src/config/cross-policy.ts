/**
 * The section `crossPolicy` and `tasks[].policies`: which policies beside the current one take turns of training episodes
 * (AgentRL, arXiv 2510.04206, §3.1).
 */
import { z } from "zod";
import type { Conflict, NoEffectRule } from "./rules.ts";
import { modelPlace } from "./sections.ts";
import type { TrainMode } from "./staleness.ts";

/** What the config calls the policy that is trained. */
export const currentPolicy = "current";

const share = () => z.number().min(0).lt(1);

const memberSchema = z
  .strictObject({
    name: z.string().min(1).describe("What `tasks.*.policies` and the metrics call it."),
    kind: z
      .enum(["stale", "checkpoint", "endpoint"])
      .describe(
        "stale: a copy of the trained weights that is refreshed now and then. checkpoint: a model folder of the same architecture and tokenizer. endpoint: a model behind an OpenAI-compatible server.",
      ),
    probability: share()
      .default(0)
      .describe("Share of the turns that it takes, in tasks without `policies` of their own."),
    every: z.int().min(2).optional().describe("Updates from one refresh to the next (stale)."),
    path: modelPlace().optional().describe("Model folder, GGUF file, or model on the Hub (checkpoint)."),
    url: z
      .string()
      .regex(/^https?:\/\/.+/)
      .optional()
      .describe("Base URL of the server, to which /chat/completions is added (endpoint)."),
    model: z.string().min(1).optional().describe("The model's name as the server knows it (endpoint)."),
    apiKeyEnv: z
      .string()
      .regex(/^[A-Za-z_]\w*$/)
      .optional()
      .describe("Environment variable that holds the key (endpoint)."),
    logProbs: z
      .boolean()
      .optional()
      .describe(
        "Ask for the log-probabilities of its tokens and train on turns whose tokens are this tokenizer's; default: its turns are context only (endpoint).",
      ),
  })
  .describe("One policy of the pool.");

export const crossPolicySchema = z
  .strictObject({
    pool: z
      .array(memberSchema)
      .min(1)
      .max(16)
      .describe("Policies that take turns beside the current one, which has what is left of 1."),
  })
  .describe("Cross-policy sampling: which policies take the turns of a training episode. Absent: the current one all.");

export const policiesField = z
  .record(z.string(), share())
  .optional()
  .describe(
    "Share of this task's turns by name of a policy of crossPolicy.pool; those not listed take none, and {} leaves all to the current policy.",
  );

export type PoolMember = z.output<typeof memberSchema>;

interface Config {
  mode: TrainMode;
  crossPolicy?: z.output<typeof crossPolicySchema> | undefined;
  tasks: readonly { name: string; policies?: Record<string, number> | undefined }[];
  rollout: { temperature: number; topK: number; topP: number; minP: number };
}

/** [pool] share of a task's turns that each policy of the pool takes. */
export function sharesOf({ crossPolicy, tasks }: Pick<Config, "crossPolicy" | "tasks">, task: number): number[] {
  const { policies } = tasks[task]!;
  return (crossPolicy?.pool ?? []).map(({ name, probability }) =>
    policies === undefined ? probability : Object.hasOwn(policies, name) ? policies[name]! : 0,
  );
}

/** Whether tokens are trained that other weights sampled than those that are trained. */
export function trainsOffPolicy({ mode, crossPolicy }: Pick<Config, "mode" | "crossPolicy">): boolean {
  return mode !== "sync" || (crossPolicy?.pool ?? []).some(({ kind, logProbs }) => kind !== "endpoint" || logProbs);
}

export const crossPolicyNoEffect: readonly NoEffectRule<Config>[] = [
  {
    path: "tasks.*.policies",
    when: ({ crossPolicy }) => crossPolicy === undefined,
    why: "there is no crossPolicy.pool: the current policy takes every turn",
  },
];

type Option = "every" | "path" | "url" | "model" | "apiKeyEnv" | "logProbs";
const optionsOf: Record<PoolMember["kind"], { needs: readonly Option[]; takes: readonly Option[] }> = {
  stale: { needs: ["every"], takes: [] },
  checkpoint: { needs: ["path"], takes: [] },
  endpoint: { needs: ["url", "model"], takes: ["apiKeyEnv", "logProbs"] },
};
const meanings: Record<Option, string> = {
  every: "updates from one refresh to the next, at least 2",
  path: "a model folder",
  url: "the server's base URL",
  model: "the model's name as the server knows it",
  apiKeyEnv: "the name of an environment variable",
  logProbs: "true or false",
};

export function crossPolicyConflicts(config: Config): Conflict[] {
  const { crossPolicy, tasks } = config;
  if (crossPolicy === undefined) return emptyShares(config);
  const { pool } = crossPolicy;
  const names = pool.map(({ name }) => name);
  return [
    ...pool.flatMap((member, i) => [...nameConflicts(names, i), ...memberConflicts(member, i, config)]),
    ...shareConflicts(config),
    ...tasks.flatMap(({ policies = {} }, t) =>
      Object.keys(policies)
        .filter((name) => !names.includes(name))
        .map((name) => ({
          path: `tasks.${t}.policies.${name}`,
          what: `There is no policy "${name}" in crossPolicy.pool.`,
          got: name,
          expected: `one of ${names.join(", ")}`,
          hint: name === currentPolicy ? "The current policy has what is left of 1." : "Add it to the pool.",
        })),
    ),
  ];
}

/** `{}` is no value of its own that `crossPolicyNoEffect` could name. */
function emptyShares({ tasks }: Config): Conflict[] {
  return tasks.flatMap(({ policies }, t) =>
    policies === undefined || Object.keys(policies).length > 0
      ? []
      : [
          {
            path: `tasks.${t}.policies`,
            what: `tasks.${t}.policies has no effect: ${crossPolicyNoEffect[0]!.why}.`,
            got: "{}",
            expected: "no such key",
            hint: `Remove tasks.${t}.policies.`,
          },
        ],
  );
}

function nameConflicts(names: readonly string[], i: number): Conflict[] {
  const name = names[i]!;
  if (name !== currentPolicy && names.indexOf(name) === i) return [];
  return [
    {
      path: `crossPolicy.pool.${i}.name`,
      what:
        name === currentPolicy
          ? `"${currentPolicy}" is the policy that is trained.`
          : `Two policies of the pool are called "${name}".`,
      got: name,
      expected: "a name of its own",
      hint: "Give it another name.",
    },
  ];
}

function memberConflicts(member: PoolMember, i: number, { rollout }: Config): Conflict[] {
  const { kind, name } = member;
  const { needs, takes } = optionsOf[kind];
  const at = `crossPolicy.pool.${i}`;
  const missing = needs.filter((option) => member[option] === undefined);
  const strange = (Object.keys(meanings) as Option[]).filter(
    (option) => member[option] !== undefined && !needs.includes(option) && !takes.includes(option),
  );
  const conflicts = [
    ...missing.map((option) => ({
      path: `${at}.${option}`,
      what: `Policy "${name}" of kind ${kind} has no \`${option}\`.`,
      got: undefined,
      expected: meanings[option],
      hint: `Set ${at}.${option}.`,
    })),
    ...strange.map((option) => ({
      path: `${at}.${option}`,
      what: `${at}.${option} has no effect: policy "${name}" is of kind ${kind}.`,
      got: member[option],
      expected: `no such key: kind ${kind} takes ${[...needs, ...takes].join(", ")}`,
      hint: `Remove ${at}.${option}.`,
    })),
  ];
  const { temperature, topK, topP, minP } = rollout;
  if (member.logProbs && (temperature !== 1 || topK > 0 || topP < 1 || minP > 0)) {
    conflicts.push({
      path: `${at}.logProbs`,
      what: `The log-probabilities of policy "${name}" cannot be trained with: a server's are those of its whole vocabulary at temperature 1.`,
      got: `rollout.temperature ${temperature}, topK ${topK}, topP ${topP}, minP ${minP}`,
      expected: "temperature 1, topK 0, topP 1, minP 0",
      hint: `Sample so, or remove ${at}.logProbs: its turns are context then.`,
    });
  }
  return conflicts;
}

/** Something must be left for the current policy, and for every other some task. */
function shareConflicts(config: Config): Conflict[] {
  const { pool } = config.crossPolicy!;
  const shares = config.tasks.map((_, task) => sharesOf(config, task));
  const conflicts: Conflict[] = [];
  for (const [task, values] of shares.entries()) {
    const { name, policies } = config.tasks[task]!;
    const sum = values.reduce((a, b) => a + b, 0);
    // A task without a map of its own repeats what the pool says: one message is enough.
    if (sum < 1 || (policies === undefined && config.tasks.findIndex((other) => !other.policies) !== task)) continue;
    conflicts.push({
      path: policies === undefined ? "crossPolicy.pool" : `tasks.${task}.policies`,
      what: `The probabilities leave no turn of task ${name} to the current policy, which is the one that is trained.`,
      got: sum,
      expected: "a sum below 1",
      hint: "Lower them: the current policy has what is left of 1.",
    });
  }
  for (const [i, { name, probability }] of pool.entries()) {
    if (config.tasks.every(({ policies }) => policies !== undefined) && probability > 0) {
      conflicts.push({
        path: `crossPolicy.pool.${i}.probability`,
        what: `crossPolicy.pool.${i}.probability has no effect: every task has \`policies\` of its own.`,
        got: probability,
        expected: "no such key",
        hint: `Remove crossPolicy.pool.${i}.probability.`,
      });
    }
    if (shares.some((values) => values[i]! > 0)) continue;
    conflicts.push({
      path: `crossPolicy.pool.${i}`,
      what: `Policy "${name}" has no effect: it takes no turn of any task.`,
      got: 0,
      expected: "a probability above 0, of its own or in a task's `policies`",
      hint: `Set crossPolicy.pool.${i}.probability, or remove the policy.`,
    });
  }
  return conflicts;
}
