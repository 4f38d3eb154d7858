/** Plays the first tasks of a split with a policy, several at once, and reports how it did. */
import type { Environment } from "../env/environment.ts";
import { type EpisodeResult, type EvalReport, summarize } from "../env/report.ts";
import type { Engine } from "../generate/engine.ts";
import type { Sampling } from "../generate/sampling.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { type Dialect, promptTokens, runEpisode, withDeadline } from "./episode.ts";

export interface EvaluateTaskOptions {
  engine: Engine;
  dialect: Dialect;
  environment: Environment;
  split: string;
  /** What the report calls the policy. */
  policy: string;
  /** At most this many; the split's length bounds it. */
  episodes: number;
  /** Episodes at once. */
  concurrency: number;
  sampling: Sampling;
  maxTokensPerTurn: number;
  maxTurns: number;
  environmentTimeoutMs: number;
  seed: number;
  onEpisode?: (trajectory: Trajectory) => void;
}

export async function evaluateTask(options: EvaluateTaskOptions): Promise<EvalReport> {
  const { environment, split } = options;
  const indices = environment.split(split).indices.slice(0, options.episodes);
  const results: EpisodeResult[] = new Array(indices.length);
  let next = 0;
  const play = async () => {
    while (next < indices.length) {
      const at = next++;
      results[at] = await playOne(options, indices[at]!, at);
    }
  };
  await Promise.all(Array.from({ length: Math.min(options.concurrency, indices.length) }, play));
  return summarize(environment.name, split, options.policy, results);
}

async function playOne(options: EvaluateTaskOptions, index: number, at: number): Promise<EpisodeResult> {
  const { engine, dialect, environment, split, seed, environmentTimeoutMs } = options;
  const level = environment.level(split, index);
  const started = environment.start(split, index, seed);
  const session = await withDeadline(started, environmentTimeoutMs, `${environment.name} start`);
  try {
    const prompt = promptTokens(dialect, environment, session.messages);
    // A prompt that leaves no room to answer is an outcome of the policy's context, not a fault.
    if (prompt.length >= engine.contextLimit) {
      return { reward: 0, endReason: "context limit", metrics: { level } };
    }
    const conversation = engine.open(prompt);
    try {
      const trajectory = await runEpisode({
        environment,
        session,
        conversation,
        dialect,
        limits: { maxTurns: options.maxTurns, maxTokensPerTurn: options.maxTokensPerTurn, environmentTimeoutMs },
        sampling: options.sampling,
        seed: { group: at, sample: 0xffff, key: seed },
        identity: { task: environment.name, split, index, group: at, sample: 0, seed },
      });
      options.onEpisode?.(trajectory);
      const { reward, endReason, metrics } = trajectory;
      return { reward, endReason, metrics: { ...metrics, level } };
    } finally {
      conversation.close();
    }
  } finally {
    await session.close();
  }
}
