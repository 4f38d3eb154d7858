/**
 * The record of one episode: five parallel arrays, one entry a token, appended to and never rewritten. Text is never
 * rendered twice: what the policy saw is exactly `tokens`, and the loss mask is exactly `sampled`. An agent that edits its
 * history goes on in a new row of the same record: however many rows, it is one trajectory and weighs as one.
 */
import type { EndReason, Message } from "../env/environment.ts";

/**
 * Which policy produced a token: the one that is trained, a copy of it that lags behind, another model of the same
 * architecture, or one behind an endpoint.
 */
export const PolicyId = { current: 0, stale: 1, external: 2, checkpoint: 3 } as const;
export type PolicyId = (typeof PolicyId)[keyof typeof PolicyId];

/** In place of a weight version: the token was computed by weights that are none of the run's. */
export const noVersion = 0xffff_ffff;

export interface Turn {
  /** Token offsets [start, end) of what the policy said in this turn. */
  start: number;
  end: number;
  reward: number;
  /** The turn's text did not parse as a tool call although it tried to be one. */
  parseFailure: boolean;
  /** Where several policies take turns: the name of the one that took this one. */
  policy?: string;
}

export interface Trajectory {
  task: string;
  split: string;
  index: number;
  /** The sampler's counter: every sample of one group answers the same task index. */
  group: number;
  /** Place in the group, 0-based. */
  sample: number;
  seed: number;

  /** [n] token ids: prompt, sampled turns and environment messages in order. */
  tokens: Uint32Array;
  /** [n] 1 where the policy sampled the token. This is the loss mask. */
  sampled: Uint8Array;
  /** [n] log-softmax over the whole vocabulary at `temperature`, 0 where not sampled. */
  logProbs: Float32Array;
  /** [n] mass kept by top-k, top-p, min-p; 1 where nothing was cut. */
  keptMass: Float32Array;
  /** [n] PolicyId of the tokens of turns, sampled or given; 0 elsewhere. */
  policy: Uint8Array;
  /**
   * [n] weight version that computed the token's own step (for an unsampled token: that first wrote its keys and values).
   * `noVersion` for tokens of a checkpoint or an endpoint, and for what one of those read first.
   */
  version: Uint32Array;
  /** [n] oldest weight version among the keys and values in the token's context, which are its own policy's. */
  oldestVersion: Uint32Array;

  /**
   * Where the agent's history was edited: token offsets at which a new context begins, ascending, the first above 0. What
   * stands before such an offset is not seen by what follows it. Absent: one context, seen from its start.
   */
  rowStarts?: number[];

  temperature: number;
  turns: Turn[];
  /** Sum of the turns' rewards as the environment gave them. */
  reward: number;
  endReason: EndReason;
  metrics: Record<string, number>;
  /** Milliseconds; `ended` since 1970. */
  timings: { ended: number; total: number; environment: number; generation: number };
  /** What was said, for people; the longest texts cut. In a run that keeps traces. */
  messages?: Message[];
}

/** Token offsets [start, end) of the contexts of a trajectory, in order. */
export function rowsOf({ tokens, rowStarts = [] }: Trajectory): [start: number, end: number][] {
  const starts = [0, ...rowStarts];
  return starts.map((start, row) => [start, starts[row + 1] ?? tokens.length]);
}
