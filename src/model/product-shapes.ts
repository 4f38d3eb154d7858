/** The matrix products of a model's passes: what a device that tunes itself should know before the first. */
import type { ProductShape } from "../device/device.ts";
import type { ModelConfig } from "./config.ts";

/** @param rows rows of a training micro-batch, and of a decode step; 0: there is none. */
export function productShapes(config: ModelConfig, rows: { train: number; decode: number }): ProductShape[] {
  const { hiddenSize, intermediateSize, heads, kvHeads, headDim } = config;
  const widths = [
    [hiddenSize, heads * headDim],
    [hiddenSize, kvHeads * headDim],
    [heads * headDim, hiddenSize],
    [hiddenSize, intermediateSize],
    [intermediateSize, hiddenSize],
  ] as const;
  return widths.flatMap(([inner, outer]): ProductShape[] => {
    const forward = [rows.train, rows.decode].filter((m) => m > 0);
    const products: ProductShape[] = forward.map((m) => ({ layout: "nn", m, n: outer, k: inner }));
    if (rows.train > 0) {
      products.push({ layout: "nt", m: rows.train, n: inner, k: outer });
      products.push({ layout: "tn", m: inner, n: outer, k: rows.train });
    }
    return products;
  });
}
