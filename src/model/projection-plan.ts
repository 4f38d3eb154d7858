/** Memory beside a pass's common buffers that only some models need: those with adapters, or with norms of queries and keys. */
import { type BufferPlan, f32 } from "./buffers.ts";
import type { ModelConfig } from "./config.ts";
import { families } from "./families.ts";
import { biasedRoles } from "./parameters.ts";

export interface ProjectionLimits {
  maxRows: number;
  /** Rank of the adapters that weights may come with; default 0: none. */
  loraRank?: number;
}

type ProjectionPlan = { [name in "lowRank" | "qRaw" | "kRaw" | "headInvRms"]?: BufferPlan };
type ProjectionGradientPlan = { [name in "dLowRank" | "dQRaw" | "dKRaw" | "ones"]?: BufferPlan };

export function projectionPlan(config: ModelConfig, { maxRows, loraRank = 0 }: ProjectionLimits): ProjectionPlan {
  const { heads, kvHeads, headDim, family } = config;
  return {
    ...(loraRank > 0 && { lowRank: f32(maxRows * loraRank) }),
    ...(families[family].qkNorm && {
      qRaw: f32(maxRows * heads * headDim),
      kRaw: f32(maxRows * kvHeads * headDim),
      headInvRms: f32(maxRows * heads),
    }),
  };
}

export function projectionGradientPlan(
  config: ModelConfig,
  { maxRows, loraRank = 0 }: ProjectionLimits,
): ProjectionGradientPlan {
  const { heads, kvHeads, headDim, family } = config;
  return {
    ...(loraRank > 0 && { dLowRank: f32(maxRows * loraRank) }),
    ...(families[family].qkNorm && {
      dQRaw: f32(maxRows * heads * headDim),
      dKRaw: f32(maxRows * kvHeads * headDim),
    }),
    ...(biasedRoles(config).length > 0 && { ones: f32(maxRows) }),
  };
}
