/** The kernels for matrix products and what each is good for. All but those on matrix units give the same bits. */
import type { MatmulLayout, WeightType } from "../../device.ts";
import type { SubgroupMatrixConfig } from "../adapter.ts";
import type { Gpu } from "../gpu.ts";
import type { Constants } from "../preprocess.ts";

export interface MatmulVariant {
  /** File in shaders/. */
  kernel: string;
  /** The kernel's own. */
  constants: Constants;
  /** Outputs of one workgroup. */
  tile: readonly [rows: number, columns: number];
  /** What the adapter must have. */
  feature?: "subgroups" | "chromium-experimental-subgroup-matrix";
  /** Reads a one element at a time, however it lies. */
  scalarA?: boolean;
  /** A thread's outputs are not neighbours in memory. */
  scalarOut?: boolean;
  /** The most rows for which it is worth trying. */
  mostRows?: number;
}

export type VariantName =
  | "register 4x4"
  | "register 8x4"
  | "band 8x64"
  | "band 8x128"
  | "workgroup 64"
  | "workgroup 128"
  | "rows 4"
  | "rows 8"
  | "subgroup";

export const matmulVariants: Readonly<Record<VariantName, MatmulVariant>> = {
  // Without workgroup memory: best where that is ordinary memory, as on software adapters.
  "register 4x4": { kernel: "matmul_register", constants: { ROWS: 4, X: 8, Y: 8 }, tile: [32, 32] },
  "register 8x4": { kernel: "matmul_register", constants: { ROWS: 8, X: 8, Y: 8 }, tile: [64, 32] },
  // A workgroup in one band of rows: its threads all read the same elements of a.
  "band 8x64": { kernel: "matmul_band", constants: { X: 8 }, tile: [8, 64], scalarA: true },
  "band 8x128": { kernel: "matmul_band", constants: { X: 16 }, tile: [8, 128], scalarA: true },
  // Tiles staged in workgroup memory.
  "workgroup 64": { kernel: "matmul_workgroup", constants: { SIDE: 4 }, tile: [64, 64] },
  "workgroup 128": { kernel: "matmul_workgroup", constants: { SIDE: 8 }, tile: [128, 128] },
  // A thread for each column.
  "rows 4": { kernel: "matmul_rows", constants: { ROWS: 4 }, tile: [4, 64], mostRows: 16, scalarOut: true },
  "rows 8": { kernel: "matmul_rows", constants: { ROWS: 8 }, tile: [8, 64], mostRows: 64, scalarOut: true },
  subgroup: {
    kernel: "matmul_subgroup",
    constants: {},
    tile: [4, 64],
    mostRows: 32,
    scalarOut: true,
    feature: "subgroups",
  },
};

export const variantNames = Object.keys(matmulVariants) as VariantName[];

/** Matrix units: rounded operands, so a numeric class of its own, which the tuner never mixes with the others. */
export function matrixVariant({ M, N, K }: SubgroupMatrixConfig, subgroupSize: number): MatmulVariant {
  return {
    kernel: "matmul_matrix",
    constants: { MATRIX_M: M, MATRIX_N: N, MATRIX_K: K, THREADS: 4 * subgroupSize },
    tile: [4 * M, 4 * N],
    scalarOut: true,
    feature: "chromium-experimental-subgroup-matrix",
  };
}

export function usable(gpu: Gpu, { feature }: MatmulVariant): boolean {
  return feature === undefined || gpu.features.has(feature);
}

/** Which of a product's operands lie in memory so that they can be read or written four elements at a time. */
export interface Vectors {
  a: boolean;
  b: boolean;
  out: boolean;
}

/** What the preprocessor gets for one product. */
export function constantsOf(
  { constants, scalarA = false, scalarOut = false }: MatmulVariant,
  product: { layout: MatmulLayout; vectors: Vectors; typeB: WeightType; accumulate: boolean; bias: boolean },
): Constants {
  const { layout, vectors, typeB, accumulate, bias } = product;
  const reads = { VECTOR_A: vectors.a && !scalarA, VECTOR_B: vectors.b, VECTOR_OUT: vectors.out && !scalarOut };
  return { LAYOUT: layout, ...reads, B_TYPE: typeB, ACCUMULATE: accumulate, BIAS: bias, ...constants };
}
