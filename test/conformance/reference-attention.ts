/**
 * rmsNorm, rope and attention in float64, written straight from their formulas, with the gradients derived by hand. The
 * gradients are in turn tested against finite differences of the forward functions. Beside a result stands `bound`: how
 * far float32 may be from it, from the number of roundings and the size of what is summed.
 */

/** Relative error of one rounding to float32. */
const rounding = 2 ** -24;

type Values = ArrayLike<number>;

export interface Bounded {
  value: Float64Array;
  bound: Float64Array;
}

function bounded(length: number): Bounded {
  return { value: new Float64Array(length), bound: new Float64Array(length) };
}

// ---- RMSNorm ----

export function rmsNorm(x: Values, weight: Values, rows: number, dim: number, eps: number) {
  const out = bounded(rows * dim);
  const invRms = bounded(rows);
  for (let r = 0; r < rows; r++) {
    let squares = 0;
    for (let i = 0; i < dim; i++) squares += x[r * dim + i]! ** 2;
    invRms.value[r] = 1 / Math.sqrt(squares / dim + eps);
    invRms.bound[r] = invRms.value[r]! * (dim + 8) * rounding;
    for (let i = 0; i < dim; i++) {
      out.value[r * dim + i] = x[r * dim + i]! * invRms.value[r]! * weight[i]!;
      out.bound[r * dim + i] = Math.abs(out.value[r * dim + i]!) * (dim + 12) * rounding;
    }
  }
  return { out, invRms };
}

export function rmsNormBackward(x: Values, weight: Values, dOut: Values, rows: number, dim: number, eps: number) {
  const dX = bounded(rows * dim);
  const dWeight = bounded(dim);
  const { invRms } = rmsNorm(x, weight, rows, dim, eps);
  for (let r = 0; r < rows; r++) {
    const inverse = invRms.value[r]!;
    let along = 0;
    let size = 0;
    for (let i = 0; i < dim; i++) {
      const term = dOut[r * dim + i]! * weight[i]! * x[r * dim + i]!;
      along += term;
      size += Math.abs(term);
    }
    for (let i = 0; i < dim; i++) {
      const at = r * dim + i;
      const straight = dOut[at]! * weight[i]! * inverse;
      const factor = (x[at]! * inverse ** 3) / dim;
      dX.value[at] = straight - factor * along;
      dX.bound[at] = (Math.abs(straight) + Math.abs(factor) * size) * (4 * dim + 40) * rounding;
      const term = dOut[at]! * x[at]! * inverse;
      dWeight.value[i]! += term;
      dWeight.bound[i]! += Math.abs(term) * (rows + dim + 20) * rounding;
    }
  }
  return { dX, dWeight };
}

// ---- Rotary embedding ----

/** The table that the operator takes, in float32: cosines then sines of each position. */
export function ropeTable(positions: number, headDim: number, theta = 10000): Float32Array {
  const table = new Float32Array(positions * headDim);
  const half = headDim / 2;
  for (let p = 0; p < positions; p++) {
    for (let i = 0; i < half; i++) {
      const angle = p * theta ** (-i / half);
      table[p * headDim + i] = Math.cos(angle);
      table[p * headDim + half + i] = Math.sin(angle);
    }
  }
  return table;
}

/** Each pair (i, i + headDim/2) as a complex number times e^(i angle). */
export function rope(x: Values, positions: Values, heads: number, headDim: number, theta = 10000): Float64Array {
  const out = new Float64Array(x.length);
  const half = headDim / 2;
  for (let head = 0; head < x.length / headDim; head++) {
    const position = positions[Math.floor(head / heads)]!;
    for (let i = 0; i < half; i++) {
      const angle = position * theta ** (-i / half);
      const [re, im] = [x[head * headDim + i]!, x[head * headDim + half + i]!];
      out[head * headDim + i] = re * Math.cos(angle) - im * Math.sin(angle);
      out[head * headDim + half + i] = re * Math.sin(angle) + im * Math.cos(angle);
    }
  }
  return out;
}

// ---- Attention ----

export interface AttentionInput {
  q: Values;
  k: Values;
  v: Values;
  /** Rows of each packed sequence. */
  lengths: readonly number[];
  heads: number;
  kvHeads: number;
  headDim: number;
  scale: number;
}

/** Calls visit for every (query row, head) with its softmax over the keys before it. */
function eachQuery(
  x: AttentionInput,
  visit: (query: {
    row: number;
    head: number;
    /** Offset of the query in q and out; of the first key's row in k and v. */
    at: number;
    keyAt: (j: number) => number;
    probabilities: number[];
    lse: number;
    /** Error of a score in float32, and so the relative error of a probability. */
    scoreError: number;
  }) => void,
): void {
  const { q, k, heads, kvHeads, headDim, scale } = x;
  const group = heads / kvHeads;
  let start = 0;
  for (const length of x.lengths) {
    for (let i = 0; i < length; i++) {
      for (let head = 0; head < heads; head++) {
        const row = start + i;
        const at = (row * heads + head) * headDim;
        const first = start;
        const keyAt = (j: number) => ((first + j) * kvHeads + Math.floor(head / group)) * headDim;
        let scoreError = 0;
        const scores = Array.from({ length: i + 1 }, (_, j) => {
          let dot = 0;
          let size = 0;
          for (let d = 0; d < headDim; d++) {
            dot += q[at + d]! * k[keyAt(j) + d]!;
            size += Math.abs(q[at + d]! * k[keyAt(j) + d]!);
          }
          scoreError = Math.max(scoreError, Math.abs(scale) * size * (headDim + 4) * rounding);
          return scale * dot;
        });
        const top = Math.max(...scores);
        const weights = scores.map((s) => Math.exp(s - top));
        const total = weights.reduce((a, b) => a + b, 0);
        const probabilities = weights.map((w) => w / total);
        visit({ row, head, at, keyAt, probabilities, lse: top + Math.log(total), scoreError });
      }
    }
    start += length;
  }
}

export function attention(x: AttentionInput): { out: Bounded; lse: Bounded } {
  const { v, heads, headDim } = x;
  const out = bounded(x.q.length);
  const lse = bounded(x.q.length / headDim);
  eachQuery(x, (query) => {
    const { at, keyAt, probabilities, scoreError } = query;
    const keys = probabilities.length;
    const error = 2 * scoreError + (2 * keys + 40) * rounding;
    lse.value[query.row * heads + query.head] = query.lse;
    lse.bound[query.row * heads + query.head] = error + Math.abs(query.lse) * 4 * rounding;
    for (let j = 0; j < keys; j++) {
      for (let d = 0; d < headDim; d++) {
        const term = probabilities[j]! * v[keyAt(j) + d]!;
        out.value[at + d]! += term;
        out.bound[at + d]! += Math.abs(term) * error;
      }
    }
  });
  return { out, lse };
}

export function attentionBackward(x: AttentionInput, dOut: Values): { dQ: Bounded; dK: Bounded; dV: Bounded } {
  const { q, k, v, heads, kvHeads, headDim, scale } = x;
  const [dQ, dK, dV] = [bounded(q.length), bounded(k.length), bounded(v.length)];
  const { out } = attention(x);
  const longest = Math.max(...x.lengths);
  eachQuery(x, ({ at, keyAt, probabilities, scoreError }) => {
    let delta = 0;
    let deltaSize = 0;
    for (let d = 0; d < headDim; d++) {
      delta += dOut[at + d]! * out.value[at + d]!;
      deltaSize += Math.abs(dOut[at + d]! * out.value[at + d]!);
    }
    const error = 3 * scoreError + (2 * headDim + (2 + heads / kvHeads) * longest + 60) * rounding;
    for (let j = 0; j < probabilities.length; j++) {
      const p = probabilities[j]!;
      let dP = 0;
      let dPSize = 0;
      for (let d = 0; d < headDim; d++) {
        dP += dOut[at + d]! * v[keyAt(j) + d]!;
        dPSize += Math.abs(dOut[at + d]! * v[keyAt(j) + d]!);
      }
      const dScore = scale * p * (dP - delta);
      const dScoreBound = Math.abs(scale) * p * (dPSize + deltaSize) * error;
      for (let d = 0; d < headDim; d++) {
        const key = keyAt(j) + d;
        dQ.value[at + d]! += dScore * k[key]!;
        dQ.bound[at + d]! += dScoreBound * Math.abs(k[key]!);
        dK.value[key]! += dScore * q[at + d]!;
        dK.bound[key]! += dScoreBound * Math.abs(q[at + d]!);
        dV.value[key]! += p * dOut[at + d]!;
        dV.bound[key]! += p * Math.abs(dOut[at + d]!) * error;
      }
    }
  });
  return { dQ, dK, dV };
}
