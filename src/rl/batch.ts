/**
 * Packs trajectories into micro-batches: sequences end to end with no padding, and the rows whose next token the
 * policy sampled marked as scored. The samples of a group begin with the same prompt, whose rows are packed once. The
 * order is the caller's, so the same trajectories give the same bits.
 */
import { type PackedBatch, sharesPrefixes, type TrainLimits } from "../model/packed-batch.ts";
import { rowsOf, type Trajectory } from "./trajectory.ts";

/** What a context of a trajectory contributes: rows up to the one that predicts its last sampled token. */
export interface Packed {
  trajectory: Trajectory;
  /** Offset of the context's first token: 0, but where the agent's history was edited. */
  start: number;
  /** Rows fed; what follows the last sampled token teaches nothing and is left out. */
  rows: number;
  /** Sampled tokens, all of which are scored. */
  scored: number;
  /** The item of the same micro-batch that holds this one's first rows already, and how many: 0 rows when none does. */
  prefix: { item: number; rows: number };
}

const noPrefix: Packed["prefix"] = { item: 0, rows: 0 };

export interface MicroBatch {
  items: Packed[];
  batch: PackedBatch;
}

export function sampledCount(trajectory: Trajectory): number {
  let count = 0;
  for (const flag of trajectory.sampled) count += flag;
  return count;
}

/**
 * Splits trajectories, in order, into packed batches of at most `maxRows` rows and `maxSpread` attention rows; with
 * `maxSpread` no more than `maxRows`, nothing is shared. A trajectory is never split over two batches, also where it is
 * of several contexts: objectives may weigh it as a whole.
 */
export function packMicroBatches(
  trajectories: readonly Trajectory[],
  limits: Pick<TrainLimits, "maxRows" | "maxSpread">,
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
  const place = (contexts: readonly Measured[]) => {
    const placed: Packed[] = [];
    const after = { rows, spread };
    for (const context of contexts) {
      const before = placed.length === 0 ? items : [...items, ...placed];
      const prefix = share ? longestPrefix(before, context) : noPrefix;
      placed.push({ ...context, prefix });
      after.rows += context.rows - prefix.rows;
      after.spread += context.rows;
    }
    return { placed, ...after };
  };
  for (const trajectory of trajectories) {
    const contexts = measure(trajectory);
    let next = place(contexts);
    if (items.length > 0 && (next.rows > maxRows || next.spread > maxSpread)) {
      flush();
      next = place(contexts);
    }
    items.push(...next.placed);
    rows = next.rows;
    spread = next.spread;
  }
  flush();
  return batches;
}

/** The item of the same group that begins with most of the tokens that `context` begins with. */
function longestPrefix(items: readonly Packed[], context: Measured): Packed["prefix"] {
  let longest = noPrefix;
  const { trajectory, start } = context;
  const most = promptRows(context);
  for (const [item, other] of items.entries()) {
    if (other.trajectory.group !== trajectory.group) continue;
    const end = Math.min(most, promptRows(other));
    let rows = 0;
    while (rows < end && other.trajectory.tokens[other.start + rows] === trajectory.tokens[start + rows]) rows++;
    if (rows > longest.rows) longest = { item, rows };
  }
  return longest;
}

/** Rows before the one that predicts the first sampled token: none of them is scored. */
function promptRows({ trajectory, start }: Measured): number {
  return Math.max(trajectory.sampled.indexOf(1, start) - start - 1, 0);
}

type Measured = Omit<Packed, "prefix">;

/** The contexts with a token to score. */
function measure(trajectory: Trajectory): Measured[] {
  const contexts: Measured[] = [];
  for (const [start, end] of rowsOf(trajectory)) {
    let scored = 0;
    let rows = 0;
    for (let i = start; i < end; i++) {
      if (trajectory.sampled[i] !== 1) continue;
      scored++;
      rows = i - start;
    }
    if (scored > 0) contexts.push({ trajectory, start, rows, scored });
  }
  return contexts;
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
    const { trajectory, start, rows: length, prefix } = items[s]!;
    const first = offsets[s]!;
    offsets[s + 1] = first + length;
    const shared = offsets[prefix.item]!;
    source.copyWithin(first, shared, shared + prefix.rows);
    for (let i = prefix.rows; i < length; i++, row++) {
      tokens[row] = trajectory.tokens[start + i]!;
      source[first + i] = row;
      // Token i + 1 is predicted by the hidden state of row i. A first token cannot have been sampled.
      if (trajectory.sampled[start + i + 1] !== 1) continue;
      scoredRows[at] = row;
      targets[at] = trajectory.tokens[start + i + 1]!;
      temperatures[at] = trajectory.temperature > 0 ? trajectory.temperature : 1;
      at++;
    }
  }
  const packed = { tokens, offsets, scoredRows, targets, temperatures };
  return spread > rows ? { ...packed, source } : packed;
}

/** Visits the scored tokens of a micro-batch in the order of its `targets`; `at` is the place there. */
export function forEachScored(
  items: readonly Packed[],
  visit: (trajectory: Trajectory, token: number, at: number) => void,
): void {
  let at = 0;
  for (const { trajectory, start, rows } of items) {
    for (let i = start + 1; i <= start + rows; i++) {
      if (trajectory.sampled[i] === 1) visit(trajectory, i, at++);
    }
  }
}

/** A per-token array of the scored tokens of a micro-batch, in the order of its `targets`. */
export function gatherScored(items: readonly Packed[], value: (trajectory: Trajectory, token: number) => number) {
  const out = new Float32Array(items.reduce((sum, item) => sum + item.scored, 0));
  forEachScored(items, (trajectory, i, at) => {
    out[at] = value(trajectory, i);
  });
  return out;
}

/**
 * [trajectories + 1] first scored token of each trajectory of a micro-batch, in the order of its `targets`: the contexts of
 * one trajectory lie side by side and are one.
 */
export function scoredOffsets(items: readonly Packed[]): Uint32Array {
  const offsets = [0];
  let at = 0;
  for (const [i, { trajectory, scored }] of items.entries()) {
    at += scored;
    if (items[i + 1]?.trajectory !== trajectory) offsets.push(at);
  }
  return Uint32Array.from(offsets);
}
