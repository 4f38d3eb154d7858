/** How a model does on the held-out tasks of what a config trains. */
import { availableParallelism } from "node:os";
import type { TrainConfig } from "../config/train.ts";
import { tokensPerTurnOf } from "../config/train-tasks.ts";
import type { EvalReport } from "../env/report.ts";
import { type EvaluationOptions, runEvaluation } from "./evaluate.ts";
import { learnerSection } from "./run-devices.ts";
import { levelsOf } from "./task-mix.ts";

/** One report per task of the config, in order; on its levels, with its limits and prompts. */
export async function measureTasks(
  config: TrainConfig,
  model: string,
  options: Pick<EvaluationOptions, "split" | "episodes" | "runs" | "temperature" | "seed">,
): Promise<EvalReport[]> {
  const reports: EvalReport[] = [];
  for (const task of config.tasks) {
    const levels = levelsOf(task);
    const report = await runEvaluation({
      task: task.name,
      policy: model,
      ...options,
      ...(levels !== undefined && { levels }),
      maxTokensPerTurn: tokensPerTurnOf(config, task),
      prompt: task.options.prompt,
      threads: availableParallelism(),
      device: learnerSection(config),
    });
    reports.push(report);
  }
  return reports;
}
