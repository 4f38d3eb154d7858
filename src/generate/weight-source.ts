/**
 * Where the engine's weights come from: fixed ones (evaluation) or the weight board (training), asked between two
 * decode steps so that an update never stops an episode.
 */
import type { ComputeWeights } from "../model/weights.ts";

export interface WeightSource {
  /** The newest weights there are, held until the next call or `close`. */
  latest(): { version: number; weights: ComputeWeights };
  /** No step is under way: what is held may go until the next call. */
  rest?(): void;
  close(): void;
}

export function fixedWeights(weights: ComputeWeights, version = 0): WeightSource {
  const held = { version, weights };
  return { latest: () => held, close: () => {} };
}
