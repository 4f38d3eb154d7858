/** Float64 references of the operators that are linear algebra, look-ups, the head and the optimizer. */
import type { MatmulLayout } from "../../src/device/device.ts";

type Numbers = ArrayLike<number>;

export interface Product {
  out: Float64Array;
  /** Largest error that float32 chains of fused multiply-adds may have: (k + 2) 2^-24 Σ|terms| (Higham 2002, §3.1). */
  bound: Float64Array;
}

export function matmul(
  layout: MatmulLayout,
  a: Numbers,
  b: Numbers,
  m: number,
  n: number,
  k: number,
  start?: { out?: Numbers; bias?: Numbers },
): Product {
  const out = new Float64Array(m * n);
  const bound = new Float64Array(m * n);
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let sum = (start?.out?.[i * n + j] ?? 0) + (start?.bias?.[j] ?? 0);
      let size = Math.abs(start?.out?.[i * n + j] ?? 0) + Math.abs(start?.bias?.[j] ?? 0);
      for (let p = 0; p < k; p++) {
        const left = layout === "tn" ? a[p * m + i]! : a[i * k + p]!;
        const right = layout === "nt" ? b[j * k + p]! : b[p * n + j]!;
        sum += left * right;
        size += Math.abs(left * right);
      }
      out[i * n + j] = sum;
      bound[i * n + j] = (k + 2) * 2 ** -24 * size + 1e-38;
    }
  }
  return { out, bound };
}

export function swiglu(gate: Numbers, up: Numbers): Float64Array {
  return Float64Array.from(gate as ArrayLike<number>, (g, i) => (g / (1 + Math.exp(-g))) * up[i]!);
}

export interface HeadCase {
  hidden: Numbers;
  weight: Numbers;
  tied: boolean;
  rows: number;
  dim: number;
  vocab: number;
}

/** logits[row] / temperature */
export function scaledLogits(x: HeadCase, row: number, temperature: number): Float64Array {
  return Float64Array.from({ length: x.vocab }, (_, v) => {
    let sum = 0;
    for (let d = 0; d < x.dim; d++) {
      sum += x.hidden[row * x.dim + d]! * (x.tied ? x.weight[v * x.dim + d]! : x.weight[d * x.vocab + v]!);
    }
    return sum / temperature;
  });
}

export function softmax(z: Float64Array): { p: Float64Array; lse: number; entropy: number } {
  const top = z.reduce((a, b) => Math.max(a, b), -Infinity);
  const lse = top + Math.log(z.reduce((sum, value) => sum + Math.exp(value - top), 0));
  const p = z.map((value) => Math.exp(value - lse));
  return { p, lse, entropy: p.reduce((sum, value, i) => sum - (value > 0 ? value * (z[i]! - lse) : 0), 0) };
}

export interface HeadValues {
  logProbs: Float64Array;
  entropies: Float64Array;
  lse: Float64Array;
}

export function headLogProb(x: HeadCase, targets: Numbers, temperatures: Numbers): HeadValues {
  const values = {
    logProbs: new Float64Array(x.rows),
    entropies: new Float64Array(x.rows),
    lse: new Float64Array(x.rows),
  };
  for (let r = 0; r < x.rows; r++) {
    const z = scaledLogits(x, r, temperatures[r]!);
    const { lse, entropy } = softmax(z);
    values.lse[r] = lse;
    values.logProbs[r] = z[targets[r]!]! - lse;
    values.entropies[r] = entropy;
  }
  return values;
}

/** Σ rows dLogProbs logProb + dEntropies entropy: the scalar whose gradient headBackward gives. */
export function headLoss(
  x: HeadCase,
  targets: Numbers,
  temperatures: Numbers,
  dLogProbs: Numbers,
  dEntropies: Numbers,
): number {
  const { logProbs, entropies } = headLogProb(x, targets, temperatures);
  return logProbs.reduce((sum, value, r) => sum + dLogProbs[r]! * value + dEntropies[r]! * entropies[r]!, 0);
}

export function headBackward(
  x: HeadCase,
  targets: Numbers,
  temperatures: Numbers,
  dLogProbs: Numbers,
  dEntropies: Numbers,
): { dHidden: Float64Array; dWeight: Float64Array } {
  const dHidden = new Float64Array(x.rows * x.dim);
  const dWeight = new Float64Array(x.vocab * x.dim);
  for (let r = 0; r < x.rows; r++) {
    const z = scaledLogits(x, r, temperatures[r]!);
    const { p, lse, entropy } = softmax(z);
    for (let v = 0; v < x.vocab; v++) {
      const hit = v === targets[r] ? 1 : 0;
      const d = (dLogProbs[r]! * (hit - p[v]!) - dEntropies[r]! * p[v]! * (z[v]! - lse + entropy)) / temperatures[r]!;
      for (let i = 0; i < x.dim; i++) {
        const w = x.tied ? v * x.dim + i : i * x.vocab + v;
        dHidden[r * x.dim + i]! += d * x.weight[w]!;
        dWeight[w]! += d * x.hidden[r * x.dim + i]!;
      }
    }
  }
  return { dHidden, dWeight };
}

export interface Cut {
  topK: number;
  topP: number;
  minP: number;
}

/** Ids of the kept set: the shortest head that top-k, top-p or min-p leaves of the tokens sorted by falling p. */
export function keptSet(p: Float64Array, cut: Cut): number[] {
  const order = Array.from(p.keys()).sort((a, b) => p[b]! - p[a]! || a - b);
  const kept: number[] = [];
  let mass = 0;
  for (const id of order) {
    if (cut.topK > 0 && kept.length >= cut.topK) break;
    if (cut.topP < 1 && mass >= cut.topP) break;
    if (cut.minP > 0 && p[id]! < cut.minP * p[order[0]!]!) break;
    kept.push(id);
    mass += p[id]!;
  }
  return kept.sort((a, b) => a - b);
}

export interface AdamWSettings {
  lr: number;
  beta1: number;
  beta2: number;
  eps: number;
  weightDecay: number;
  step: number;
  gradScale: number;
}

/** Loshchilov & Hutter 2019, Algorithm 2. */
export function adamw(param: Numbers, grad: Numbers, m: Numbers, v: Numbers, s: AdamWSettings) {
  const length = param.length;
  const result = { out: new Float64Array(length), m: new Float64Array(length), v: new Float64Array(length) };
  for (let i = 0; i < length; i++) {
    const g = grad[i]! * s.gradScale;
    result.m[i] = s.beta1 * m[i]! + (1 - s.beta1) * g;
    result.v[i] = s.beta2 * v[i]! + (1 - s.beta2) * g * g;
    const mHat = result.m[i]! / (1 - s.beta1 ** s.step);
    const vHat = result.v[i]! / (1 - s.beta2 ** s.step);
    result.out[i] = param[i]! - s.lr * (mHat / (Math.sqrt(vHat) + s.eps) + s.weightDecay * param[i]!);
  }
  return result;
}
