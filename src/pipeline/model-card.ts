/** The README.md of an exported model, in the Hub's form: what it was made of, by what, and how far it came. */
import { stringify } from "yaml";

export interface RunFacts {
  /** Optimizer steps of the checkpoint. */
  step: number;
  /** The run's resolved config. */
  config: {
    model: { path: string };
    algorithm?: { advantage?: string; objective?: string };
    lora?: { rank: number };
    seed: number;
  };
  /** Lines of metrics.jsonl up to that step. */
  records: MetricsLine[];
}

interface MetricsLine {
  step: number;
  tasks?: Record<string, { reward: number; success?: number; sampledTokens: number }>;
  evaluation?: unknown;
  mismatch?: number | null;
  mismatchTokens?: number;
}

export function modelCard(facts: { base?: string; adapter: boolean; run: RunFacts | null }): string {
  const { base, adapter, run } = facts;
  const header = stringify({
    ...(base !== undefined && { base_model: base }),
    library_name: adapter ? "peft" : "transformers",
    pipeline_tag: "text-generation",
    tags: ["agentrl", "reinforcement-learning", ...(adapter ? ["lora"] : [])],
  });
  const what = adapter ? "A LoRA adapter" : "A model";
  const body = run === null ? [`${what} written by AgentRL.`] : [...runText(what, run), "", ...rewardTable(run)];
  return `---\n${header}---\n\n${body.join("\n")}\n`;
}

function runText(what: string, { step, config, records }: RunFacts): string[] {
  const steps = records.filter(({ tasks }) => tasks !== undefined);
  const sum = (of: (line: MetricsLine) => number) => steps.reduce((all, line) => all + of(line), 0);
  const sampled = sum(({ tasks }) => Object.values(tasks!).reduce((all, task) => all + task.sampledTokens, 0));
  const compared = sum(({ mismatchTokens = 0 }) => mismatchTokens);
  const mismatch = Math.max(0, ...steps.map((line) => line.mismatch ?? 0));
  const lora = config.lora === undefined ? "every parameter" : `LoRA adapters of rank ${config.lora.rank}`;
  return [
    `${what} trained by AgentRL: ${step} steps of reinforcement learning from \`${config.model.path}\`, ${lora}, seed ${config.seed}.`,
    "",
    `${sampled.toLocaleString("en")} tokens were sampled. The largest difference between a log-probability recorded while sampling and the`,
    `one computed while training was ${mismatch}, over ${compared.toLocaleString("en")} compared tokens.`,
  ];
}

/** Rewards at the beginning and at the end, over a tenth of the steps each. */
function rewardTable({ records }: RunFacts): string[] {
  const steps = records.filter(({ tasks }) => tasks !== undefined);
  if (steps.length === 0) return [];
  const share = Math.max(1, Math.round(steps.length / 10));
  const names = [...new Set(steps.flatMap(({ tasks }) => Object.keys(tasks!)))];
  const mean = (lines: MetricsLine[], name: string) => {
    const rewards = lines.flatMap(({ tasks }) => (tasks![name] === undefined ? [] : [tasks![name].reward]));
    return rewards.length === 0 ? "" : (rewards.reduce((a, b) => a + b, 0) / rewards.length).toFixed(3);
  };
  return [
    `| task | mean reward, first ${share} steps | last ${share} steps |`,
    "|---|---|---|",
    ...names.map((name) => `| ${name} | ${mean(steps.slice(0, share), name)} | ${mean(steps.slice(-share), name)} |`),
    "",
    "Rewards are those of the episodes trained on, at the sampling temperature.",
  ];
}
