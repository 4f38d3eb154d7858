/**
 * Packs trajectories into micro-batches: sequences end to end with no padding, and the rows whose next token the
 * policy sampled marked as scored. The samples of a group begin with the same prompt, whose rows are packed once. The
 * order is the caller's, so the same trajectories give the same bits.
 */
import { type PackedBatch, sharesPrefixes, type TrainLimits } from "../model/packed-batch.ts";
import type { Trajectory } from "./trajectory.ts";

/** What a trajectory contributes: rows up to the one that predicts its last sampled token. */
export interface Packed {
  trajectory: Trajectory;
  /** Rows fed; what follows the last sampled token teaches nothing and is left out. */
  rows: number;
  /** Sampled tokens scored, `scored` first in order. */
  scored: number;
  /** The item of the same micro-batch that holds this one's first rows already, and how many: 0 rows when none does. */
  prefix: { item: number; rows: number };
}

const noPrefix: Packed["prefix"] = { item: 0, rows: 0 };

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
 * Splits trajectories, in order, into packed batches of at most `maxRows` rows and `maxSpread` attention rows; with
 * `maxSpread` no more than `maxRows`, nothing is shared. `limit` cuts how many sampled tokens of a trajectory are scored
 * (for the mismatch check: those of one version); default all.
 */
export function packMicroBatches(
  trajectories: readonly Trajectory[],
  limits: Pick<TrainLimits, "maxRows" | "maxSpread">,
  limit?: (trajectory: Trajectory) => number,
): MicroBatch[] {
  const { maxRows, maxSpread = maxRows } = limits;
  const share = sharesPrefixes(limits);
  const batches: MicroBatch[] = [];
  let items: Packed[] = [];
  let rows = 0;
  let spread = 0;
  const flush = () => {
    if (items.length > 0) batches.push({ items, batch: pack(items, rows, spread) });
    items = [];
    rows = 0;
    spread = 0;
  };
  for (const trajectory of trajectories) {
    const item = measure(trajectory, limit?.(trajectory));
    if (item.scored === 0) continue;
    let prefix = share ? longestPrefix(items, trajectory) : noPrefix;
    if (rows + item.rows - prefix.rows > maxRows || spread + item.rows > maxSpread) {
      flush();
      prefix = noPrefix;
    }
    items.push({ ...item, prefix });
    rows += item.rows - prefix.rows;
    spread += item.rows;
  }
  flush();
  return batches;
}

/** The item of the same group that begins with most of the tokens that `trajectory` begins with. */
function longestPrefix(items: readonly Packed[], trajectory: Trajectory): Packed["prefix"] {
  let longest = noPrefix;
  const most = promptRows(trajectory);
  for (const [item, { trajectory: other }] of items.entries()) {
    if (other.group !== trajectory.group) continue;
    const end = Math.min(most, promptRows(other));
    let rows = 0;
    while (rows < end && other.tokens[rows] === trajectory.tokens[rows]) rows++;
    if (rows > longest.rows) longest = { item, rows };
  }
  return longest;
}

/** Rows before the one that predicts the first sampled token: none of them is scored. */
function promptRows(trajectory: Trajectory): number {
  return Math.max(trajectory.sampled.indexOf(1) - 1, 0);
}

function measure(trajectory: Trajectory, limit?: number): Omit<Packed, "prefix"> {
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

function pack(items: readonly Packed[], rows: number, spread: number): PackedBatch {
  const scored = items.reduce((sum, item) => sum + item.scored, 0);
  const tokens = new Uint32Array(rows);
  const offsets = new Uint32Array(items.length + 1);
  const source = new Uint32Array(spread);
  const scoredRows = new Uint32Array(scored);
  const targets = new Uint32Array(scored);
  const temperatures = new Float32Array(scored);
  let row = 0;
  let at = 0;
  for (let s = 0; s < items.length; s++) {
    const { trajectory, rows: length, prefix } = items[s]!;
    const start = offsets[s]!;
    offsets[s + 1] = start + length;
    const shared = offsets[prefix.item]!;
    source.copyWithin(start, shared, shared + prefix.rows);
    for (let i = prefix.rows; i < length; i++, row++) {
      tokens[row] = trajectory.tokens[i]!;
      source[start + i] = row;
      // Token i + 1 is predicted by the hidden state of row i. A first token cannot have been sampled.
      if (trajectory.sampled[i + 1] !== 1) continue;
      scoredRows[at] = row;
      targets[at] = trajectory.tokens[i + 1]!;
      temperatures[at] = trajectory.temperature > 0 ? trajectory.temperature : 1;
      at++;
    }
  }
  const packed = { tokens, offsets, scoredRows, targets, temperatures };
  return spread > rows ? { ...packed, source } : packed;
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

/** [items + 1] first scored token of each trajectory of a micro-batch, in the order of its `targets`. */
export function scoredOffsets(items: readonly Packed[]): Uint32Array {
  const offsets = new Uint32Array(items.length + 1);
  for (const [i, { scored }] of items.entries()) offsets[i + 1] = offsets[i]! + scored;
  return offsets;
}
