/** The result of running a policy over a list of task indices: what `agentrl eval` writes. */
import { AgentRLError, oneLine } from "../errors.ts";
import type { EndReason } from "./environment.ts";
import type { Statistics } from "./statistics.ts";

export interface EvalReport {
  task: string;
  /** Absent where a controller's workers chose it. */
  split?: string;
  /** The list of tasks that was played, TASK-SPLIT-HASH: figures of other panels are not comparable. */
  panel?: string;
  policy: string;
  episodes: number;
  /** Episodes that earned the full reward of 1, as a fraction of `episodes`; null where there are none. */
  success: number | null;
  /** The same as a count. */
  successes: number;
  /** Null where there are no episodes. */
  meanReward: number | null;
  endReasons: Partial<Record<EndReason, number>>;
  /** Success by task level, where the environment reports a `level` metric. */
  levels?: Record<string, { episodes: number; success: number }>;
  /** Episodes that are not counted above, since the environment failed in every try; absent when none. */
  faults?: number;
  /** What the environment failed those in, most frequent first. */
  faultCauses?: FaultCause[];
  /** Present where a task was played more than once, or was asked for. */
  statistics?: Statistics;
}

export interface FaultCause {
  cause: string;
  episodes: number;
}

/** @throws AgentRLError ENVIRONMENT with the causes, where the environment failed every episode. */
export function successOf({ task, success, faults = 0, faultCauses = [] }: EvalReport): number {
  if (success !== null) return success;
  throw new AgentRLError("ENVIRONMENT", `No episode of ${task} could be played`, {
    got: faultCauses.map(({ cause, episodes }) => `${episodes} × ${cause}`).join("\n            ") || "no episodes",
    expected: "at least one that the environment does not fail",
    hint: `mend ${faults > 0 ? "the causes above" : "the environment"}`,
  });
}

/** The causes of the most episodes, with their numbers. */
export function causesOf(errors: readonly string[], most = 5): FaultCause[] {
  const counts = new Map<string, number>();
  for (const error of errors) {
    const cause = oneLine(error);
    counts.set(cause, (counts.get(cause) ?? 0) + 1);
  }
  const causes = Array.from(counts, ([cause, episodes]) => ({ cause, episodes }));
  return causes.sort((a, b) => b.episodes - a.episodes).slice(0, most);
}

/** One finished episode, as far as a report needs it. */
export interface EpisodeResult {
  reward: number;
  endReason: EndReason;
  metrics?: Record<string, number>;
}

export function summarize(
  task: string,
  split: string | undefined,
  policy: string,
  results: readonly EpisodeResult[],
): EvalReport {
  const endReasons: Partial<Record<EndReason, number>> = {};
  const byLevel = new Map<number, { episodes: number; successes: number }>();
  let successes = 0;
  let total = 0;
  for (const { reward, endReason, metrics } of results) {
    const won = reward >= 1 ? 1 : 0;
    successes += won;
    total += reward;
    endReasons[endReason] = (endReasons[endReason] ?? 0) + 1;
    const level = metrics?.level;
    if (level === undefined) continue;
    const entry = byLevel.get(level) ?? { episodes: 0, successes: 0 };
    byLevel.set(level, { episodes: entry.episodes + 1, successes: entry.successes + won });
  }
  const episodes = results.length;
  const report: EvalReport = {
    task,
    ...(split !== undefined && { split }),
    policy,
    episodes,
    success: episodes === 0 ? null : successes / episodes,
    successes,
    meanReward: episodes === 0 ? null : total / episodes,
    endReasons,
  };
  if (byLevel.size > 0) {
    report.levels = Object.fromEntries(
      [...byLevel]
        .sort(([a], [b]) => a - b)
        .map(([level, entry]) => [
          String(level),
          { episodes: entry.episodes, success: entry.successes / entry.episodes },
        ]),
    );
  }
  return report;
}
