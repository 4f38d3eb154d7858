/** Plays the first tasks of a split with a policy, several at once, and reports how it did. */
import type { Environment } from "../env/environment.ts";
import type { EvalReport } from "../env/report.ts";
import { EvalTally } from "../env/report.ts";
import type { Engine } from "../generate/engine.ts";
import type { Sampling } from "../generate/sampling.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { type Dialect, promptTokens, runEpisode, withDeadline } from "./episode.ts";

export interface EvaluateTaskOptions {
  engine: Engine;
  dialect: Dialect;
  environment: Environment;
  split: string;
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
  const tally = new EvalTally(environment.name);
  let next = 0;
  const play = async () => {
    while (next < indices.length) {
      const at = next++;
      tally.add(await playOne(options, indices[at]!, at));
    }
  };
  await Promise.all(Array.from({ length: Math.min(options.concurrency, indices.length) }, play));
  return tally.report();
}

async function playOne(options: EvaluateTaskOptions, index: number, at: number) {
  const { engine, dialect, environment, split, seed, environmentTimeoutMs } = options;
  const started = environment.start(split, index, seed);
  const session = await withDeadline(started, environmentTimeoutMs, `${environment.name} start`);
  try {
    const prompt = promptTokens(dialect, environment, session.messages);
    // A prompt that leaves no room to answer is an outcome of the policy's context, not a fault.
    if (prompt.length >= engine.contextLimit) {
      return { reward: 0, endReason: "context limit" as const, metrics: {}, parseFailures: 0, turns: 0 };
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
      return {
        reward: trajectory.reward,
        endReason: trajectory.endReason,
        metrics: trajectory.metrics,
        parseFailures: trajectory.turns.filter((turn) => turn.parseFailure).length,
        turns: trajectory.turns.length,
      };
    } finally {
      conversation.close();
    }
  } finally {
    await session.close();
  }
}
