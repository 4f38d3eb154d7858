/** The part of a step's metrics that describes its episodes: per task and over all. */
import type { Trajectory } from "../rl/trajectory.ts";
import type { StepMetrics, TaskMetrics } from "./step-metrics.ts";

/**
 * @param version weights that the batch trains: lag is counted from it.
 * @param gradientShares of the tasks that have a gradient.
 */
export function batchMetrics(
  trajectories: readonly Trajectory[],
  version: number,
  gradientShares: Readonly<Record<string, number>>,
): Pick<StepMetrics, "tasks" | "reward" | "sampledTokens" | "meanLag" | "maxLag"> {
  const byTask = new Map<string, Trajectory[]>();
  for (const trajectory of trajectories) {
    byTask.set(trajectory.task, [...(byTask.get(trajectory.task) ?? []), trajectory]);
  }
  const lag = lagOf(trajectories, version);
  const tasks: Record<string, TaskMetrics> = {};
  for (const [task, episodes] of [...byTask].sort(([a], [b]) => (a < b ? -1 : 1))) {
    tasks[task] = taskMetrics(episodes, version, { tokens: lag.tokens, gradientShare: gradientShares[task] ?? 0 });
  }
  return {
    tasks,
    reward: mean(trajectories.map((trajectory) => trajectory.reward)),
    sampledTokens: lag.tokens,
    meanLag: lag.mean,
    maxLag: lag.max,
  };
}

function taskMetrics(
  episodes: readonly Trajectory[],
  version: number,
  { tokens, gradientShare }: { tokens: number; gradientShare: number },
): TaskMetrics {
  const lag = lagOf(episodes, version);
  const turns = episodes.flatMap((episode) => episode.turns);
  const endReasons: TaskMetrics["endReasons"] = {};
  for (const { endReason } of episodes) endReasons[endReason] = (endReasons[endReason] ?? 0) + 1;
  return {
    episodes: episodes.length,
    reward: mean(episodes.map((episode) => episode.reward)),
    success: mean(episodes.map((episode) => (episode.reward >= 1 ? 1 : 0))),
    sampledTokens: lag.tokens,
    tokenShare: tokens > 0 ? lag.tokens / tokens : 0,
    gradientShare,
    meanLag: lag.mean,
    maxLag: lag.max,
    turns: turns.length / Math.max(1, episodes.length),
    parseFailureRate: mean(turns.map((turn) => (turn.parseFailure ? 1 : 0))),
    endReasons,
  };
}

/** Lag of a sampled token: versions from the oldest in its context to the weights being trained. */
function lagOf(trajectories: readonly Trajectory[], version: number) {
  let tokens = 0;
  let sum = 0;
  let max = 0;
  for (const trajectory of trajectories) {
    for (let i = 0; i < trajectory.tokens.length; i++) {
      if (trajectory.sampled[i] !== 1) continue;
      const lag = version - trajectory.oldestVersion[i]!;
      tokens++;
      sum += lag;
      max = Math.max(max, lag);
    }
  }
  return { tokens, mean: tokens > 0 ? sum / tokens : 0, max };
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
