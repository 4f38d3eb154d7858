/** The part of a step's metrics that describes its episodes: per task and over all. */
import { currentPolicy } from "../config/cross-policy.ts";
import { groupBy } from "../group-by.ts";
import { PolicyId, type Trajectory, type Turn } from "../rl/trajectory.ts";
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
  const byTask = groupBy(trajectories, ({ task }) => task);
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
  const own = turns.filter(isCurrent);
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
    lagTokens: lag.histogram,
    turns: turns.length / Math.max(1, episodes.length),
    parseFailureRate: mean(own.map((turn) => (turn.parseFailure ? 1 : 0))),
    ...policyMetrics(episodes),
    endReasons,
  };
}

function isCurrent({ policy = currentPolicy }: Turn): boolean {
  return policy === currentPolicy;
}

function policyMetrics(episodes: readonly Trajectory[]): Pick<TaskMetrics, "policyShare" | "policyTrained"> {
  const written = new Map<string, { tokens: number; sampled: number }>();
  for (const { turns, sampled } of episodes) {
    for (const { policy, start, end } of turns) {
      if (policy === undefined) continue;
      const sum = written.get(policy) ?? { tokens: 0, sampled: 0 };
      sum.tokens += end - start;
      for (let i = start; i < end; i++) sum.sampled += sampled[i]!;
      written.set(policy, sum);
    }
  }
  if (written.size === 0) return {};
  const total = [...written.values()].reduce((sum, { tokens }) => sum + tokens, 0);
  const byName = [...written].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    policyShare: Object.fromEntries(byName.map(([name, { tokens }]) => [name, share(tokens, total)])),
    policyTrained: Object.fromEntries(byName.map(([name, { tokens, sampled }]) => [name, share(sampled, tokens)])),
  };
}

function share(part: number, whole: number): number {
  return whole > 0 ? part / whole : 0;
}

/**
 * Sampled tokens, and the lag of the current policy's: versions from the oldest in a token's context to the weights being
 * trained. A stale copy is behind on purpose, and a checkpoint is no version of the run: neither says anything of how far
 * generation is ahead of training.
 */
function lagOf(trajectories: readonly Trajectory[], version: number) {
  let tokens = 0;
  const byLag = new Map<number, number>();
  for (const trajectory of trajectories) {
    for (let i = 0; i < trajectory.tokens.length; i++) {
      if (trajectory.sampled[i] !== 1) continue;
      tokens++;
      if (trajectory.policy[i] !== PolicyId.current) continue;
      const lag = version - trajectory.oldestVersion[i]!;
      byLag.set(lag, (byLag.get(lag) ?? 0) + 1);
    }
  }
  const ascending = [...byLag].sort(([a], [b]) => a - b);
  const current = ascending.reduce((sum, [, count]) => sum + count, 0);
  const total = ascending.reduce((sum, [lag, count]) => sum + lag * count, 0);
  return {
    tokens,
    mean: share(total, current),
    max: ascending.at(-1)?.[0] ?? 0,
    histogram: Object.fromEntries(ascending),
  };
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
