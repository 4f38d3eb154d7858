/**
 * Packs trajectories into micro-batches: sequences end to end with no padding, and the rows whose next token the
 * policy sampled marked as scored. The order is the caller's, so the same trajectories give the same bits.
 */
import type { PackedBatch } from "../model/train-pass.ts";
import type { Trajectory } from "./trajectory.ts";

/** What a trajectory contributes: rows up to the one that predicts its last sampled token. */
export interface Packed {
  trajectory: Trajectory;
  /** Rows fed; what follows the last sampled token teaches nothing and is left out. */
  rows: number;
  /** Sampled tokens scored, `scored` first in order. */
  scored: number;
}

export interface MicroBatch {
  items: Packed[];
  batch: PackedBatch;
}

/** Index of the last sampled token, or -1. */
function lastSampled(trajectory: Trajectory): number {
  return trajectory.sampled.lastIndexOf(1);
}

export function sampledCount(trajectory: Trajectory): number {
  let count = 0;
  for (const flag of trajectory.sampled) count += flag;
  return count;
}

/**
 * Splits trajectories, in order, into packed batches of at most `maxRows` rows. `limit` cuts how many sampled tokens
 * of a trajectory are scored (for the mismatch check: those of one version); default all.
 */
export function packMicroBatches(
  trajectories: readonly Trajectory[],
  maxRows: number,
  limit?: (trajectory: Trajectory) => number,
): MicroBatch[] {
  const batches: MicroBatch[] = [];
  let group: Packed[] = [];
  let used = 0;
  const flush = () => {
    if (group.length > 0) batches.push({ items: group, batch: pack(group, used) });
    group = [];
    used = 0;
  };
  for (const trajectory of trajectories) {
    const item = measure(trajectory, limit?.(trajectory));
    if (item.scored === 0) continue;
    if (used + item.rows > maxRows) flush();
    group.push(item);
    used += item.rows;
  }
  flush();
  return batches;
}

function measure(trajectory: Trajectory, limit?: number): Packed {
  if (limit === undefined) {
    const last = lastSampled(trajectory);
    return { trajectory, rows: Math.max(last, 0), scored: last < 0 ? 0 : sampledCount(trajectory) };
  }
  let scored = 0;
  let rows = 0;
  for (let i = 0; i < trajectory.tokens.length && scored < limit; i++) {
    if (trajectory.sampled[i] !== 1) continue;
    scored++;
    rows = i;
  }
  return { trajectory, rows, scored };
}

function pack(items: readonly Packed[], rows: number): PackedBatch {
  const scored = items.reduce((sum, item) => sum + item.scored, 0);
  const tokens = new Uint32Array(rows);
  const offsets = new Uint32Array(items.length + 1);
  const scoredRows = new Uint32Array(scored);
  const targets = new Uint32Array(scored);
  const temperatures = new Float32Array(scored);
  let row = 0;
  let at = 0;
  for (let s = 0; s < items.length; s++) {
    const { trajectory, rows: length } = items[s]!;
    tokens.set(trajectory.tokens.subarray(0, length), row);
    // Token i + 1 is predicted by the hidden state of row i. A first token cannot have been sampled.
    for (let i = 0; i < length; i++) {
      if (trajectory.sampled[i + 1] !== 1) continue;
      scoredRows[at] = row + i;
      targets[at] = trajectory.tokens[i + 1]!;
      temperatures[at] = trajectory.temperature > 0 ? trajectory.temperature : 1;
      at++;
    }
    row += length;
    offsets[s + 1] = row;
  }
  return { tokens, offsets, scoredRows, targets, temperatures };
}

/** A per-token array of the scored tokens of a micro-batch, in the order of its `targets`. */
export function gatherScored(items: readonly Packed[], value: (trajectory: Trajectory, token: number) => number) {
  const out = new Float32Array(items.reduce((sum, item) => sum + item.scored, 0));
  let at = 0;
  for (const { trajectory, rows } of items) {
    for (let i = 1; i <= rows; i++) {
      if (trajectory.sampled[i] === 1) out[at++] = value(trajectory, i);
    }
  }
  return out;
}
