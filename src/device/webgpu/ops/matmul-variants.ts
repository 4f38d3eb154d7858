/** The kernels for matrix products and what each is good for. All give the same bits. */
import type { MatmulLayout } from "../../device.ts";
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
  feature?: "subgroups";
  /** The most rows for which it is worth trying. */
  mostRows?: number;
}

export type VariantName =
  | "register 4x4"
  | "register 8x4"
  | "register band"
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
  "register band": { kernel: "matmul_register", constants: { ROWS: 4, X: 16, Y: 1 }, tile: [4, 64] },
  // Tiles staged in workgroup memory.
  "workgroup 64": { kernel: "matmul_workgroup", constants: { SIDE: 4 }, tile: [64, 64] },
  "workgroup 128": { kernel: "matmul_workgroup", constants: { SIDE: 8 }, tile: [128, 128] },
  // A thread for each column.
  "rows 4": { kernel: "matmul_rows", constants: { ROWS: 4 }, tile: [4, 64], mostRows: 16 },
  "rows 8": { kernel: "matmul_rows", constants: { ROWS: 8 }, tile: [8, 64], mostRows: 64 },
  subgroup: { kernel: "matmul_subgroup", constants: {}, tile: [4, 64], mostRows: 32, feature: "subgroups" },
};

export const variantNames = Object.keys(matmulVariants) as VariantName[];

export function usable(gpu: Gpu, { feature }: MatmulVariant): boolean {
  return feature === undefined || gpu.features.has(feature);
}

/** What the preprocessor gets for one product. */
export function constantsOf(
  { constants }: MatmulVariant,
  product: { layout: MatmulLayout; vector: boolean; accumulate: boolean; bias: boolean },
): Constants {
  const { layout, vector, accumulate, bias } = product;
  return { LAYOUT: layout, VECTOR: vector, ACCUMULATE: accumulate, BIAS: bias, ...constants };
}
