/** What `agentrl bench kernels` measures: every operator of the device, at the shapes that a model has. */
import { ATTENTION_BLOCK, type Device, type MatmulLayout, type Tensor } from "../device/device.ts";
import {
  type AttentionVariant,
  attention,
  attentionBackward,
  attentionCached,
  attentionVariants,
} from "../device/webgpu/ops/attention.ts";
import { matmul } from "../device/webgpu/ops/matmul.ts";
import { matmulVariants, usable, type VariantName, variantNames } from "../device/webgpu/ops/matmul-variants.ts";
import type { WebGpuDevice } from "../device/webgpu/webgpu-device.ts";

/** Sizes of a decoder, and how many rows go through it at once. */
export interface KernelShape {
  name: string;
  /** Rows of a training micro-batch, and of a decode step. */
  rows: number;
  decodeRows: number;
  /** Tokens of a sequence. */
  context: number;
  dim: number;
  inner: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  vocab: number;
}

export const kernelShapes: Record<"tiny" | "small", KernelShape> = {
  /** models/tiny. */
  tiny: {
    name: "tiny",
    rows: 1024,
    decodeRows: 64,
    context: 256,
    dim: 128,
    inner: 512,
    heads: 4,
    kvHeads: 2,
    headDim: 32,
    vocab: 2048,
  },
  /** A model of half a billion parameters (Qwen2.5-0.5B's sizes). */
  small: {
    name: "small",
    rows: 2048,
    decodeRows: 64,
    context: 1024,
    dim: 896,
    inner: 4864,
    heads: 14,
    kvHeads: 2,
    headDim: 64,
    vocab: 151_936,
  },
};

export interface KernelCase {
  operator: string;
  /** What distinguishes it from other cases of the operator. */
  label: string;
  /** Floating-point operations: a multiply-add is two; exp, log and the like count as one. */
  flops: number;
  /** Bytes that must move at least: every operand once. */
  bytes: number;
  /** Kernels that this device can compute the case with; without it there is one. */
  variants?(device: WebGpuDevice): readonly string[];
  /** Allocates, and gives the call to measure; without a variant, the device chooses. */
  prepare(device: WebGpuDevice, variant?: string): () => void;
}

export function kernelCases(shape: KernelShape): KernelCase[] {
  return [
    ...matmulCases(shape),
    ...rowCases(shape),
    ...attentionCases(shape),
    ...headCases(shape),
    ...optimizerCases(shape),
  ];
}

const FLOAT = 4;

function matmulCases({ rows, decodeRows, dim, inner }: KernelShape): KernelCase[] {
  const product = (label: string, layout: MatmulLayout, m: number, n: number, k: number): KernelCase => ({
    operator: "matmul",
    label: `${label} ${layout} ${m}×${n}×${k}`,
    flops: 2 * m * n * k,
    bytes: FLOAT * (m * k + k * n + m * n),
    variants({ gpu }) {
      const fits = ({ mostRows = m }) => m <= mostRows;
      return variantNames.filter((name) => usable(gpu, matmulVariants[name]) && fits(matmulVariants[name]));
    },
    prepare(device, variant) {
      const [a, b, out] = [floats(device, m * k), floats(device, k * n), device.alloc(m * n)];
      const kernel = variant === undefined ? undefined : matmulVariants[variant as VariantName];
      return () => matmul(device.gpu, { layout, a, b, out, m, n, k }, kernel);
    },
  });
  return [
    product("decode", "nn", decodeRows, inner, dim),
    product("decode", "nn", decodeRows, dim, inner),
    product("forward", "nn", rows, inner, dim),
    product("forward", "nn", rows, dim, inner),
    product("input gradient", "nt", rows, dim, inner),
    product("weight gradient", "tn", dim, inner, rows),
    ...[128, 256, 512].map((size) => product("cube", "nn", size, size, size)),
  ];
}

function rowCases({ rows, dim, inner, heads, headDim, vocab, context }: KernelShape): KernelCase[] {
  const elements = rows * dim;
  return [
    {
      operator: "embed",
      label: `${rows}×${dim}`,
      flops: 0,
      bytes: FLOAT * 2 * elements,
      prepare(device) {
        const [table, ids, out] = [floats(device, vocab * dim), integers(device, rows, vocab), device.alloc(elements)];
        return () => device.embed({ table, ids, out, rows, dim, vocab });
      },
    },
    {
      operator: "embedBackward",
      label: `${rows}×${dim}`,
      flops: elements,
      bytes: FLOAT * 3 * elements,
      prepare(device) {
        const [dTable, ids] = [device.alloc(vocab * dim), integers(device, rows, vocab)];
        const dOut = floats(device, elements);
        return () => device.embedBackward({ ids, dOut, dTable, rows, dim, vocab });
      },
    },
    {
      operator: "rmsNorm",
      label: `${rows}×${dim}`,
      flops: 4 * elements,
      bytes: FLOAT * 2 * elements,
      prepare(device) {
        const [x, weight] = [floats(device, elements), floats(device, dim)];
        const [out, invRms] = [device.alloc(elements), device.alloc(rows)];
        return () => device.rmsNorm({ x, weight, out, invRms, rows, dim, eps: 1e-6 });
      },
    },
    {
      operator: "rmsNormBackward",
      label: `${rows}×${dim}`,
      flops: 10 * elements,
      bytes: FLOAT * 3 * elements,
      prepare(device) {
        const [x, weight, dOut] = [floats(device, elements), floats(device, dim), floats(device, elements)];
        const [invRms, dX, dWeight] = [floats(device, rows), device.alloc(elements), device.alloc(dim)];
        return () => device.rmsNormBackward({ x, weight, invRms, dOut, dX, dWeight, rows, dim });
      },
    },
    {
      operator: "rope",
      label: `${rows}×${heads}×${headDim}`,
      flops: 3 * rows * heads * headDim,
      bytes: FLOAT * 2 * rows * heads * headDim,
      prepare(device) {
        const [x, cosSin] = [floats(device, rows * heads * headDim), floats(device, context * headDim)];
        const positions = integers(device, rows, context);
        return () => device.rope({ x, cosSin, positions, rows, heads, headDim });
      },
    },
    {
      operator: "swiglu",
      label: `${rows}×${inner}`,
      flops: 5 * rows * inner,
      bytes: FLOAT * 3 * rows * inner,
      prepare(device) {
        const length = rows * inner;
        const [gate, up, out] = [floats(device, length), floats(device, length), device.alloc(length)];
        return () => device.swiglu({ gate, up, out, length });
      },
    },
    {
      operator: "swigluBackward",
      label: `${rows}×${inner}`,
      flops: 12 * rows * inner,
      bytes: FLOAT * 5 * rows * inner,
      prepare(device) {
        const length = rows * inner;
        const [gate, up, dOut] = [floats(device, length), floats(device, length), floats(device, length)];
        const [dGate, dUp] = [device.alloc(length), device.alloc(length)];
        return () => device.swigluBackward({ gate, up, dOut, dGate, dUp, length });
      },
    },
    {
      operator: "add",
      label: `${rows}×${dim}`,
      flops: elements,
      bytes: FLOAT * 3 * elements,
      prepare(device) {
        const [a, b, out] = [floats(device, elements), floats(device, elements), device.alloc(elements)];
        return () => device.add({ a, b, out, length: elements });
      },
    },
    {
      operator: "scale",
      label: `${rows}×${dim}`,
      flops: elements,
      bytes: FLOAT * 2 * elements,
      prepare(device) {
        const [x, out] = [floats(device, elements), device.alloc(elements)];
        return () => device.scale({ x, out, factor: 0.5, length: elements });
      },
    },
  ];
}

function attentionCases(shape: KernelShape): KernelCase[] {
  const { rows, decodeRows, context, heads, kvHeads, headDim } = shape;
  const sequences = Math.max(1, Math.floor(rows / context));
  const packed = sequences * context;
  const attentionShape = { heads, kvHeads, headDim, scale: 1 / Math.sqrt(headDim) };
  const [queries, keys] = [heads * headDim, kvHeads * headDim];
  // Half of the square is masked; a score and its share of the output are 2 headDim multiply-adds.
  const pairs = (sequences * context * (context + 1)) / 2;
  const forwardFlops = 4 * pairs * queries;
  const forward = (device: Device) => ({
    ...attentionShape,
    q: floats(device, packed * queries),
    k: floats(device, packed * keys),
    v: floats(device, packed * keys),
    out: device.alloc(packed * queries),
    lse: device.alloc(packed * heads),
    offsets: words(
      device,
      Uint32Array.from({ length: sequences + 1 }, (_, i) => i * context),
    ),
    sequences,
    rows: packed,
  });
  return [
    {
      operator: "attention",
      label: `${sequences} sequences of ${context}`,
      flops: forwardFlops,
      bytes: FLOAT * packed * (2 * queries + 2 * keys),
      variants: () => attentionVariants,
      prepare(device, variant) {
        const args = forward(device);
        return () => attention(device.gpu, args, variant as AttentionVariant | undefined);
      },
    },
    {
      operator: "attentionBackward",
      label: `${sequences} sequences of ${context}`,
      flops: 2.5 * forwardFlops,
      bytes: FLOAT * packed * (4 * queries + 4 * keys),
      variants: () => attentionVariants,
      prepare(device, variant) {
        const args = {
          ...forward(device),
          dOut: floats(device, packed * queries),
          dQ: device.alloc(packed * queries),
          dK: device.alloc(packed * keys),
          dV: device.alloc(packed * keys),
        };
        device.attention(args);
        return () => attentionBackward(device.gpu, args, variant as AttentionVariant | undefined);
      },
    },
    {
      operator: "attentionCached",
      label: `${decodeRows} rows at ${context}`,
      flops: 4 * decodeRows * context * queries,
      bytes: FLOAT * decodeRows * (2 * context * keys + 2 * queries),
      variants: () => attentionVariants,
      prepare(device, variant) {
        const pages = Math.ceil(context / ATTENTION_BLOCK);
        const length = decodeRows * pages * ATTENTION_BLOCK * keys;
        const [q, kCache, vCache] = [
          floats(device, decodeRows * queries),
          floats(device, length),
          floats(device, length),
        ];
        const out = device.alloc(decodeRows * queries);
        const positions = words(device, new Uint32Array(decodeRows).fill(context - 1));
        const sequenceOf = words(
          device,
          Uint32Array.from({ length: decodeRows }, (_, i) => i),
        );
        const pageTable = words(
          device,
          Uint32Array.from({ length: decodeRows * pages }, (_, i) => i),
        );
        const rest = { positions, sequenceOf, pageTable, pageTableStride: pages, rows: decodeRows };
        const args = { ...attentionShape, q, kCache, vCache, out, ...rest };
        return () => attentionCached(device.gpu, args, variant as AttentionVariant | undefined);
      },
    },
  ];
}

function headCases({ rows, decodeRows, dim, vocab }: KernelShape): KernelCase[] {
  // Rows whose token is scored: about a third of a batch.
  const scored = Math.ceil(rows / 3);
  const score = (device: Device) => ({
    hidden: floats(device, scored * dim),
    weight: floats(device, vocab * dim),
    tied: true,
    rows: scored,
    dim,
    vocab,
    targets: integers(device, scored, vocab),
    temperatures: ones(device, scored),
    logProbs: device.alloc(scored),
    entropies: device.alloc(scored),
    lse: device.alloc(scored),
  });
  return [
    {
      operator: "headLogProb",
      label: `${scored}×${vocab}×${dim}`,
      flops: 2 * scored * vocab * dim,
      bytes: FLOAT * (scored + vocab) * dim,
      prepare(device) {
        const args = score(device);
        return () => device.headLogProb(args);
      },
    },
    {
      operator: "headBackward",
      label: `${scored}×${vocab}×${dim}`,
      flops: 6 * scored * vocab * dim,
      bytes: FLOAT * (2 * scored + 2 * vocab) * dim,
      prepare(device) {
        const args = {
          ...score(device),
          dLogProbs: floats(device, scored),
          dEntropies: floats(device, scored),
          dHidden: device.alloc(scored * dim),
          dWeight: device.alloc(vocab * dim),
        };
        device.headLogProb(args);
        return () => device.headBackward(args);
      },
    },
    {
      operator: "headSample",
      label: `${decodeRows}×${vocab}×${dim}`,
      flops: 2 * decodeRows * vocab * dim,
      bytes: FLOAT * (decodeRows + vocab) * dim,
      prepare(device) {
        const args = {
          hidden: floats(device, decodeRows * dim),
          weight: floats(device, vocab * dim),
          tied: true,
          rows: decodeRows,
          dim,
          vocab,
          temperatures: ones(device, decodeRows),
          topK: device.alloc(decodeRows, "u32"),
          topP: ones(device, decodeRows),
          minP: device.alloc(decodeRows),
          seeds: integers(device, 4 * decodeRows, 2 ** 32),
          tokens: device.alloc(decodeRows, "u32"),
          logProbs: device.alloc(decodeRows),
          keptMass: device.alloc(decodeRows),
        };
        return () => device.headSample(args);
      },
    },
  ];
}

function optimizerCases({ dim, inner }: KernelShape): KernelCase[] {
  const length = 4 * dim * inner;
  return [
    {
      operator: "adamw",
      label: `${length}`,
      flops: 12 * length,
      bytes: FLOAT * 7 * length,
      prepare(device) {
        const [param, grad, m, v] = [0, 1, 2, 3].map(() => floats(device, length)) as [Tensor, Tensor, Tensor, Tensor];
        const rates = { lr: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0, step: 1, gradScale: 1 };
        return () => device.adamw({ param, out: param, grad, m, v, length, ...rates });
      },
    },
  ];
}

// --------------------------------------------------------------------------------------------------------------------

/** In (0, 1]: no subnormal numbers, which some processors are slow at; the same in every run. */
function floats(device: Device, length: number): Tensor {
  const values = new Float32Array(length);
  for (let i = 0; i < length; i++) values[i] = ((Math.imul(i, 2654435761) >>> 8) + 1) / 2 ** 24;
  const tensor = device.alloc(length);
  device.write(tensor, values);
  return tensor;
}

function integers(device: Device, length: number, below: number): Tensor {
  return words(
    device,
    Uint32Array.from({ length }, (_, i) => (Math.imul(i + 1, 2654435761) >>> 0) % below),
  );
}

function words(device: Device, data: Uint32Array): Tensor {
  const tensor = device.alloc(data.length, "u32");
  device.write(tensor, data);
  return tensor;
}

function ones(device: Device, length: number): Tensor {
  const tensor = device.alloc(length);
  device.fill(tensor, 1);
  return tensor;
}
