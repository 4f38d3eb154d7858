/**
 * Matrix products. Several kernels compute them, made for different shapes and adapters (matmul-variants.ts); each sums k
 * in ascending order through one fma chain per output element, so all give the same bits and the tuner is free to choose.
 */
import { AgentRLError } from "../../../errors.ts";
import { type MatmulArgs, type MatmulLayout, type WeightType, weightTypes } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";
import { chooseVariant } from "../tuning.ts";
import { windowsOf } from "../windows.ts";
import { constantsOf, type MatmulVariant, matrixVariant, usable } from "./matmul-variants.ts";

/** Operands inside larger matrices. Leading dimensions and offsets are in elements. */
export interface StridedMatmul {
  layout: MatmulLayout;
  a: WebGpuTensor;
  b: WebGpuTensor;
  /** In no buffer that an operand lies in. */
  out: WebGpuTensor;
  m: number;
  n: number;
  k: number;
  /** Elements from one row of the stored matrix to the next. */
  lda: number;
  ldb: number;
  ldc: number;
  aOffset?: number;
  bOffset?: number;
  outOffset?: number;
  bias?: WebGpuTensor;
  /** As in MatmulArgs. */
  accumulate?: boolean;
}

/**
 * @param variant instead of the one that the tuner chose
 * @throws AgentRLError DEVICE when an operand is too short, or shares a buffer with `out`.
 */
export function matmul(gpu: Gpu, x: MatmulArgs, variant = forwardVariant(gpu, x.layout)): void {
  const { layout, m, n, k, accumulate = false } = x;
  const a = operand("matmul", "a", x.a, "f32", m * k);
  const b = operand("matmul", "b", x.b, weightTypes, k * n);
  const out = operand("matmul", "out", x.out, "f32", m * n);
  const bias = x.bias === undefined ? undefined : operand("matmul", "bias", x.bias, "f32", n);
  const lda = layout === "tn" ? m : k;
  const ldb = layout === "nt" ? k : n;

  // Rows of out (with those of a), and the rows in which b is stored, in windows that a binding holds.
  const outRows = windowsOf(gpu, "matmul, out", m, layout === "tn" ? n : Math.max(n, k));
  const bRows = layout === "nt" ? windowsOf(gpu, "matmul, b", n, k) : windowsOf(gpu, "matmul, b", k, Math.max(lda, n));
  for (const rows of outRows) {
    const product = { layout, lda, ldb, ldc: n, m: rows.count, out: gpu.view(out, rows.first * n, rows.count * n) };
    const aOfRows = layout === "tn" ? a : gpu.view(a, rows.first * k, rows.count * k);
    for (const { first, count } of bRows) {
      const bWindow = gpu.view(b, first * ldb, count * ldb);
      if (layout === "nt") {
        // A run of columns.
        const some = { ...product, n: count, k, a: aOfRows, b: bWindow, outOffset: first, accumulate };
        stridedMatmul(gpu, bias === undefined ? some : { ...some, bias: gpu.view(bias, first, count) }, variant);
        continue;
      }
      // A run of k: the chains go on from where they were stored.
      const aWindow = layout === "tn" ? gpu.view(a, first * m, count * m) : aOfRows;
      const aOffset = layout === "tn" ? rows.first : first;
      const some = { ...product, n, k: count, a: aWindow, aOffset, b: bWindow, accumulate: accumulate || first > 0 };
      stridedMatmul(gpu, bias === undefined || first > 0 ? some : { ...some, bias }, variant);
    }
  }
}

/**
 * On matrix units, where they are asked for: the layers' forward products, and no others. A gradient, rounded to f16, would
 * lose what is small; and all of them, whatever their shape, so that the sampler's numbers are the learner's.
 */
function forwardVariant({ adapter }: Gpu, layout: MatmulLayout): MatmulVariant | undefined {
  const { matrixUnits, subgroupSizes } = adapter;
  return matrixUnits !== undefined && layout === "nn" ? matrixVariant(matrixUnits, subgroupSizes.max) : undefined;
}

/** As `matmul`; each operand must fit a binding. */
export function stridedMatmul(gpu: Gpu, x: StridedMatmul, variant?: MatmulVariant): void {
  const { layout, a, b, out, bias, m, n, k, lda, ldb, ldc, accumulate = false } = x;
  const { aOffset = 0, bOffset = 0, outOffset = 0 } = x;
  const [aRows, aWidth] = layout === "tn" ? [k, m] : [m, k];
  const [bRows, bWidth] = layout === "nt" ? [n, k] : [k, n];
  checkRun("a", a, aOffset, aRows, aWidth, lda);
  checkRun("b", b, bOffset, bRows, bWidth, ldb);
  checkRun("out", out, outOffset, m, n, ldc);
  checkApart(out, { a, b, ...(bias && { bias }) });
  if (m === 0 || n === 0) return;
  const inFours = (...counts: number[]) => counts.every((count) => count % 4 === 0);
  const vectors = {
    a: k > 0 && inFours(aWidth, lda, aOffset),
    b: k > 0 && inFours(bWidth, ldb, bOffset),
    out: inFours(n, ldc, outOffset),
  };
  const chosen = variant ?? chooseVariant(gpu, { layout, m, n, k });
  if (!usable(gpu, chosen)) {
    throw new AgentRLError("DEVICE", "A kernel does not run on this adapter", {
      where: `matmul, ${chosen.kernel}`,
      expected: `${chosen.feature}`,
    });
  }
  const [tileRows, tileColumns] = chosen.tile;
  const most = gpu.limits.maxComputeWorkgroupsPerDimension;
  const bandRows = most * tileRows;
  for (let row = 0; row < m; row += bandRows) {
    const rows = Math.min(bandRows, m - row);
    gpu.recorder.dispatch({
      kernel: chosen.kernel,
      constants: constantsOf(chosen, {
        layout,
        vectors,
        typeB: b.dtype as WeightType,
        accumulate,
        bias: bias !== undefined,
      }),
      bindings: bias === undefined ? [out, a, b] : [out, a, b, bias],
      params: {
        m: rows,
        n,
        k,
        lda,
        ldb,
        ldc,
        a_offset: aOffset + row * (layout === "tn" ? 1 : lda),
        b_offset: bOffset,
        out_offset: outOffset + row * ldc,
      },
      groups: [Math.ceil(n / tileColumns), Math.ceil(rows / tileRows)],
    });
  }
}

/** Checks that `rows` runs of `width` elements, `stride` apart, lie inside the tensor. */
function checkRun(argument: string, tensor: WebGpuTensor, offset: number, rows: number, width: number, stride: number) {
  if (rows === 0 || width === 0) return;
  const end = offset + (rows - 1) * stride + width;
  if (stride >= width && end <= tensor.length) return;
  throw new AgentRLError("DEVICE", "matmul: an argument does not fit", {
    where: `matmul, ${argument}`,
    got: `${tensor.length} elements`,
    expected: `${rows} rows of ${width} elements, ${stride} apart, from element ${offset} on`,
  });
}

function checkApart(out: WebGpuTensor, operands: Readonly<Record<string, WebGpuTensor>>): void {
  for (const argument in operands) {
    if (operands[argument]!.allocation !== out.allocation) continue;
    throw new AgentRLError("DEVICE", "matmul: WebGPU cannot read and write one buffer in one kernel", {
      where: `matmul, ${argument}`,
      got: "a tensor in the same memory as out",
      expected: "separate tensors",
    });
  }
}
