/**
 * Matrix products. Several kernels compute them, made for different shapes and adapters; each sums k in ascending order
 * through one fma chain per output element, so all give the same bits and `chooseVariant` is free to pick the fastest.
 */
import { AgentRLError } from "../../../errors.ts";
import type { MatmulArgs, MatmulLayout } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";

/** Operands inside larger matrices. Leading dimensions and offsets are in elements. */
export interface StridedMatmul {
  layout: MatmulLayout;
  a: WebGpuTensor;
  b: WebGpuTensor;
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

export function matmul(gpu: Gpu, x: MatmulArgs): void {
  const { layout, m, n, k, accumulate = false } = x;
  const a = operand("matmul", "a", x.a, "f32", m * k);
  const b = operand("matmul", "b", x.b, "f32", k * n);
  const out = operand("matmul", "out", x.out, "f32", m * n);
  const lda = layout === "tn" ? m : k;
  const ldb = layout === "nt" ? k : n;
  const product = { layout, a, b, out, m, n, k, lda, ldb, ldc: n, accumulate };
  if (x.bias === undefined) stridedMatmul(gpu, product);
  else stridedMatmul(gpu, { ...product, bias: operand("matmul", "bias", x.bias, "f32", n) });
}

export function stridedMatmul(gpu: Gpu, x: StridedMatmul): void {
  const { layout, a, b, out, bias, m, n, k, lda, ldb, ldc, accumulate = false } = x;
  const { aOffset = 0, bOffset = 0, outOffset = 0 } = x;
  checkRun("a", a, aOffset, layout === "tn" ? k : m, layout === "tn" ? m : k, lda);
  checkRun("b", b, bOffset, layout === "nt" ? n : k, layout === "nt" ? k : n, ldb);
  checkRun("out", out, outOffset, m, n, ldc);
  if (m === 0 || n === 0) return;
  const contiguousA = layout === "tn" ? m : k;
  const contiguousB = layout === "nt" ? k : n;
  const vector = [contiguousA, contiguousB, lda, ldb, aOffset, bOffset].every((count) => count % 4 === 0) && k > 0;
  gpu.recorder.dispatch({
    kernel: "matmul_register",
    constants: {
      LAYOUT: layout,
      VECTOR: vector,
      ACCUMULATE: accumulate,
      BIAS: bias !== undefined,
      START: accumulate || bias !== undefined,
      ROWS: 8,
      WIDTH: 32,
    },
    bindings: bias === undefined ? [out, a, b] : [out, a, b, bias],
    params: { m, n, k, lda, ldb, ldc, a_offset: aOffset, b_offset: bOffset, out_offset: outOffset, bias_offset: 0 },
    groups: [Math.ceil(n / 128), Math.ceil(m / 8)],
  });
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
