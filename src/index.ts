/**
 * What a program may import: the same functions that the command line calls. A user's environment file imports this too, in
 * every thread that plays it, so what computes is loaded when it is called.
 */
import type { EvalReport } from "./env/report.ts";
import type { EvaluationOptions } from "./pipeline/evaluate.ts";
import type { SftOptions, SftSummary } from "./pipeline/sft.ts";
import type { RunOptions, RunSummary } from "./pipeline/train.ts";

export { loadSftConfig, loadTrainConfig } from "./config/load.ts";
export type { SftConfig } from "./config/sft.ts";
export type { TrainConfig } from "./config/train.ts";
export type {
  Action,
  EndReason,
  Environment,
  Expert,
  Message,
  Session,
  Split,
  StepResult,
  ToolCall,
  ToolSpec,
} from "./env/environment.ts";
export {
  call,
  defineEnvironment,
  defineMcpEnvironment,
  type EnvironmentDefinition,
  type EnvironmentSpec,
  type Episode,
  type McpEnvironmentSpec,
  type McpEpisode,
  type McpServer,
  type Reply,
  Rng,
  type TaskList,
  type Tasks,
  type ToolAnswer,
  type ToolDefinition,
  z,
} from "./env/index.ts";
export { AgentRLError, type ErrorCode } from "./errors.ts";
export type { RunEvent } from "./observe/events.ts";
export { readMetrics } from "./observe/metrics.ts";
export { TraceReader } from "./observe/traces/reader.ts";
export type { Trace, TraceSummary } from "./observe/traces/trace.ts";
export type { SftProgress } from "./pipeline/sft.ts";
export type { RunStep } from "./pipeline/train.ts";
export type { Trajectory } from "./rl/trajectory.ts";
export type { EvalReport, EvaluationOptions, RunOptions, RunSummary, SftOptions, SftSummary };

/** Measures a policy on a task's tasks. */
export async function runEvaluation(options: EvaluationOptions): Promise<EvalReport> {
  return (await import("./pipeline/evaluate.ts")).runEvaluation(options);
}

/** Supervised training on the episodes of the tasks' scripted experts. */
export async function runSft(options: SftOptions): Promise<SftSummary> {
  return (await import("./pipeline/sft.ts")).runSft(options);
}

/** Reinforcement learning as the config says, into a run folder. */
export async function runTraining(options: RunOptions): Promise<RunSummary> {
  return (await import("./pipeline/train.ts")).runTraining(options);
}
