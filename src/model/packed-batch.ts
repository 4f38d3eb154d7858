/**
 * A micro-batch of whole sequences, packed without padding. Sequences that begin with the same tokens, as the samples
 * of one task do, may hold their common rows once: everything but attention works on a row alone, so the rows of a
 * shared prefix are computed and differentiated once. Attention sees every sequence whole; `source` says which row
 * holds each of its rows.
 */
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "./config.ts";

export interface PackedBatch {
  /** [rows] the distinct rows, in the order in which the sequences first reach them. */
  tokens: Uint32Array;
  /** [sequences + 1] first attention row of each sequence, then `spread`: the sum of the sequences' lengths. */
  offsets: Uint32Array;
  /** [spread] the row that holds each attention row. Without it each holds its own, and `spread` is `rows`. */
  source?: Uint32Array;
  /** [scored] ascending: rows whose hidden state predicts a target. */
  scoredRows: Uint32Array;
  /** [scored] token that each scored row predicts. */
  targets: Uint32Array;
  /** [scored], > 0 */
  temperatures: Float32Array;
}

export interface TrainLimits {
  /** Rows of the largest micro-batch. */
  maxRows: number;
  /** Scored rows of the largest micro-batch. */
  maxScored: number;
  /** Attention rows of the largest micro-batch; default `maxRows`. Prefixes can be shared only where it is more. */
  maxSpread?: number;
  /** Rank of the adapters that weights may come with; default 0: none. */
  loraRank?: number;
  /**
   * Keep each layer's input alone and compute the rest of its activations again on the way back (activation
   * checkpointing, Chen et al. 2016): a third more work for a fraction of the memory, and the same bits.
   * @default false
   */
  recompute?: boolean;
}

/** Whether buffers for shared prefixes are needed at all. */
export function sharesPrefixes({ maxRows, maxSpread = maxRows }: Pick<TrainLimits, "maxRows" | "maxSpread">): boolean {
  return maxSpread > maxRows;
}

/** How the rows of a batch and its attention rows belong together. */
export interface RowLayout {
  /** [rows] place of each row in its sequence. */
  positions: Uint32Array;
  /** [rows] the first attention row that each row holds. */
  owner: Uint32Array;
}

/** @throws AgentRLError PIPELINE when the batch is malformed or over the limits. */
export function checkedLayout(config: ModelConfig, limits: TrainLimits, batch: PackedBatch): RowLayout {
  const { tokens, offsets, source, scoredRows, targets, temperatures } = batch;
  const { maxRows, maxScored, maxSpread = maxRows } = limits;
  const rows = tokens.length;
  const spread = source?.length ?? rows;
  const scored = scoredRows.length;
  if (rows < 1 || rows > maxRows) fail("number of rows", rows, `1 to ${maxRows}`);
  if (spread > maxSpread) fail("number of attention rows", spread, `at most ${maxSpread}`);
  if (spread > rows && !sharesPrefixes(limits)) {
    fail("shared rows", { rows, attentionRows: spread }, "none under limits with maxSpread = maxRows");
  }
  if (scored > maxScored) fail("number of scored rows", scored, `at most ${maxScored}`);
  if (targets.length !== scored || temperatures.length !== scored) {
    const got = { scoredRows: scored, targets: targets.length, temperatures: temperatures.length };
    fail("lengths of the scored rows' arrays", got, "three equal lengths");
  }
  if (offsets.length < 2 || offsets[0] !== 0 || offsets[offsets.length - 1] !== spread) {
    fail("sequence offsets", Array.from(offsets.subarray(0, 8)), `from 0 to ${spread}`);
  }
  for (let s = 0; s + 1 < offsets.length; s++) {
    const length = offsets[s + 1]! - offsets[s]!;
    if (length < 1 || length > config.maxPositions) {
      fail(`length of sequence ${s}`, length, `1 to max_position_embeddings = ${config.maxPositions}`);
    }
  }
  const vocab = `token ids below ${config.vocabSize}`;
  const badToken = tokens.findIndex((token) => token >= config.vocabSize);
  if (badToken >= 0) fail(`token of row ${badToken}`, tokens[badToken], vocab);
  for (let i = 0; i < scored; i++) {
    if (scoredRows[i]! >= rows || (i > 0 && scoredRows[i]! <= scoredRows[i - 1]!)) {
      fail(`scored row ${i}`, scoredRows[i], `ascending rows below ${rows}`);
    }
    if (targets[i]! >= config.vocabSize) fail(`target of row ${scoredRows[i]}`, targets[i], vocab);
    if (!(temperatures[i]! > 0)) fail(`temperature of row ${scoredRows[i]}`, temperatures[i], "a number above 0");
  }
  return layoutOf(rows, offsets, source);
}

/**
 * The rows form a forest: a row may be shared only where everything before it is, or one set of keys and values could
 * not serve all of its sequences.
 */
function layoutOf(rows: number, offsets: Uint32Array, source: Uint32Array | undefined): RowLayout {
  const positions = new Uint32Array(rows);
  const owner = new Uint32Array(rows);
  let seen = 0;
  for (let s = 0; s + 1 < offsets.length; s++) {
    const start = offsets[s]!;
    for (let at = start; at < offsets[s + 1]!; at++) {
      const row = source === undefined ? at : source[at]!;
      if (row === seen && seen < rows) {
        positions[row] = at - start;
        owner[row] = at;
        seen++;
        continue;
      }
      if (row >= seen) fail(`source of attention row ${at}`, row, `below ${Math.min(seen + 1, rows)}: rows in order`);
      const first = owner[row]!;
      if (positions[row] !== at - start || (at > start && source![first - 1] !== source![at - 1])) {
        fail(`source of attention row ${at}`, row, `a row of its own: ${row} has another prefix`);
      }
    }
  }
  if (seen < rows) fail("rows that no sequence holds", rows - seen, "none");
  return { positions, owner };
}

function fail(what: string, got: unknown, expected: string): never {
  throw new AgentRLError("PIPELINE", `A packed batch is malformed: ${what}.`, {
    where: "TrainPass.forward",
    got,
    expected,
  });
}
