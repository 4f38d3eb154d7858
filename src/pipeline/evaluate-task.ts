/** Plays the first tasks of a split with a model of this process, several at once, and reports how it did. */
import type { Environment } from "../env/environment.ts";
import { causesOf, type EvalReport, summarize } from "../env/report.ts";
import type { Engine } from "../generate/engine.ts";
import type { Sampling } from "../generate/sampling.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import type { Dialect } from "./dialect.ts";
import { type EvaluatedEpisode, type PlayedEpisode, playEpisodes } from "./eval-episodes.ts";
import { enginePlayer } from "./eval-players.ts";
import { panelOf } from "./panel.ts";

export interface EvaluateTaskOptions {
  engine: Engine;
  dialect: Dialect;
  environment: Environment;
  split: string;
  /** What the report calls the policy. */
  policy: string;
  /** Of these levels only. */
  levels?: readonly number[] | undefined;
  /** At most this many; the split's length bounds it. */
  episodes: number;
  /** Episodes at once. */
  concurrency: number;
  sampling: Sampling;
  maxTokensPerTurn: number;
  maxTurns: number;
  seed: number;
  onEpisode?: (trajectory: Trajectory) => void;
}

export async function evaluateTask(options: EvaluateTaskOptions): Promise<EvalReport> {
  const { environment, split, policy, onEpisode, ...play } = options;
  const { name: panel, indices } = panelOf(environment, options);
  const player = enginePlayer({ ...options, ...(onEpisode && { onTrajectory: onEpisode }) });
  const refs = indices.map((index, position) => ({ run: 0, position, index }));
  return reportOf(
    { task: environment.name, split, panel, policy },
    await playEpisodes({ ...play, environment, split, refs, player }),
  );
}

/** The report of all counted episodes, with the number of those that are not and why. */
export function reportOf(
  { task, split, panel, policy }: { task: string; split?: string; panel?: string; policy: string },
  episodes: readonly EvaluatedEpisode[],
): EvalReport {
  const played = episodes.filter((episode): episode is PlayedEpisode => episode.type === "episode");
  const report = { ...summarize(task, split, policy, played), ...(panel !== undefined && { panel }) };
  const errors = episodes.flatMap((episode) => (episode.type === "fault" ? [episode.error] : []));
  return errors.length === 0 ? report : { ...report, faults: errors.length, faultCauses: causesOf(errors) };
}
