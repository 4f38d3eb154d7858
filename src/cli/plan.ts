/** What `agentrl train --dry-run` prints: the run as the config resolves it on this machine, before anything starts. */
import { availableParallelism } from "node:os";
import { stringify } from "yaml";
import { currentPolicy, type PoolMember, sharesOf } from "../config/cross-policy.ts";
import { overdueOf } from "../config/staleness.ts";
import type { TrainConfig } from "../config/train.ts";
import { loadModelFolder, loadModelText, type ModelText } from "../model/files.ts";
import { availableMemory, formatBytes } from "../model/memory.ts";
import { withLocalModels } from "../pipeline/locate-models.ts";
import { planRun, type RunPlan } from "../pipeline/plan.ts";
import { checkPool } from "../pipeline/pool-models.ts";
import type { ToolFormatName } from "../text/formats/index.ts";
import { percent, table } from "./options.ts";

export interface DryRun extends RunPlan {
  config: TrainConfig;
  /** How the model writes tool calls. */
  toolFormat: ToolFormatName;
  /** Bytes that are free now. */
  availableMemory: number;
  /** Bytes of weights that the run will download. */
  download: number;
}

/**
 * Of a model on the Hub only the small files are fetched.
 * @throws AgentRLError when a model cannot be read.
 */
export async function planTraining(config: TrainConfig): Promise<DryRun> {
  const { config: local, missing: download } = await withLocalModels(config, { weights: false });
  // Weights that are not here cannot be checked yet.
  const model = download > 0 ? loadModelText(local.model.path, local.model) : checkedModel(local.model);
  if (download === 0) checkPool(local, model);
  return {
    ...planRun(config, model.config),
    config,
    toolFormat: model.template.toolFormat.name,
    availableMemory: availableMemory(),
    download,
  };
}

function checkedModel(settings: TrainConfig["model"]): ModelText {
  const model = loadModelFolder(settings.path, settings);
  model.tensors.close();
  return model;
}

export function formatPlan(plan: DryRun): string {
  const { config, memory } = plan;
  const { rollout, learner, tasks } = config;
  const weights = tasks.reduce((sum, task) => sum + task.weight, 0);
  const computing = rollout.processes * rollout.threads + learner.threads;
  const cores = availableParallelism();
  const rows = [
    ["model", `${config.model.path}, ${plan.parameters.toLocaleString("en")} parameters`],
    ...(plan.download > 0
      ? [["", `${formatBytes(plan.download)} of weights will be downloaded when the run starts`]]
      : []),
    ["tool format", `${plan.toolFormat}${config.model.toolFormat === "auto" ? ", as the model folder has it" : ""}`],
    ["mode", modeRow(config, plan.maxLag)],
    ["tasks", tasks.map((t) => `${t.name} (${t.split}) ${percent(t.weight / weights)}`).join(", ")],
    ...policyRows(config),
    ["step", `${rollout.groupsPerStep} groups of ${rollout.groupSize} episodes; ${config.steps} steps`],
    [
      "threads",
      `${rollout.processes} × ${rollout.threads} rollout + ${learner.threads} learner on ${cores} cores` +
        (computing > cores ? ": more threads than cores, they will take turns" : ""),
    ],
  ];
  const parts = memory.parts.map((part) => [part.name, formatBytes(part.bytes)]);
  const indent = (text: string) => text.replaceAll(/^/gm, "  ");
  return [
    table(rows),
    `\nMemory:\n${indent(table([...parts, ["total", formatBytes(memory.total)], ["free now", formatBytes(plan.availableMemory)]]))}`,
    `\nLoss:\n${indent(plan.loss)}`,
    `\nConfig:\n${indent(stringify(config).trimEnd())}`,
  ].join("\n");
}

const overdueRow = {
  pace: "batches wait only where a group would grow too old",
  drop: "batches never wait, groups that grow too old are thrown away",
  wait: "batches take groups in the order of issue",
};

function modeRow(config: TrainConfig, maxLag: number): string {
  if (config.mode === "sync") return "sync";
  return `${config.mode}, tokens at most ${maxLag} weight versions old; ${overdueRow[overdueOf(config)]}`;
}

/** Who takes the turns, of the tasks together where they have the same shares. */
function policyRows(config: TrainConfig): string[][] {
  const { crossPolicy, tasks } = config;
  if (crossPolicy === undefined) return [];
  const byShares = new Map<string, string[]>();
  for (const [task, { name }] of tasks.entries()) {
    const shares = sharesOf(config, task);
    const rest = 1 - shares.reduce((sum, share) => sum + share, 0);
    const text = [
      `${currentPolicy} ${percent(rest)}`,
      ...crossPolicy.pool.flatMap((member, i) =>
        shares[i]! > 0 ? [`${describe(member)} ${percent(shares[i]!)}`] : [],
      ),
    ].join(", ");
    byShares.set(text, [...(byShares.get(text) ?? []), name]);
  }
  return [...byShares].map(([text, names], i) => [
    i === 0 ? "turns" : "",
    byShares.size === 1 ? text : `${names.join(", ")}: ${text}`,
  ]);
}

function describe({ name, kind, every }: PoolMember): string {
  return `${name} (${kind}${kind === "stale" ? `, refreshed every ${every} updates` : ""})`;
}
