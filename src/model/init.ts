/**
 * Random weights to train from: normal with deviation 0.02, the two projections that write into the residual stream
 * scaled by 1/sqrt(2 * layers) so that its variance does not grow with depth (Radford et al. 2019, section 2.3), norm
 * weights 1. The generator is written out so that one seed gives one model.
 */
import type { ModelConfig } from "./config.ts";
import { parameterLayout } from "./parameters.ts";

const DEVIATION = 0.02;

/** The arena of a fresh model. `seed`: an integer; its low 32 bits count. */
export function initWeights(config: ModelConfig, seed: number): Float32Array {
  const layout = parameterLayout(config);
  const arena = new Float32Array(layout.length);
  const normal = normalGenerator(seed);
  const residualScale = 1 / Math.sqrt(2 * config.layers);
  for (const entry of layout.entries) {
    const place = arena.subarray(entry.offset, entry.offset + entry.length);
    if (!entry.decay) {
      // Norm weights; biases begin at 0, as they are.
      if (entry.name.endsWith(".weight")) place.fill(1);
      continue;
    }
    const writesResidual = entry.name.endsWith("o_proj.weight") || entry.name.endsWith("down_proj.weight");
    const deviation = writesResidual ? DEVIATION * residualScale : DEVIATION;
    for (let i = 0; i < place.length; i++) place[i] = deviation * normal();
  }
  return arena;
}

/** Numbers in [0, 1): sfc32 (Chris Doty-Humphrey's PractRand), seeded and warmed up. */
export function uniformGenerator(seed: number): () => number {
  let a = seed >>> 0;
  let b = 0x9e3779b9;
  let c = 0x243f6a88;
  let counter = 1;
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return (sum >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 16; i++) next();
  return next;
}

/** Standard normal numbers: Box-Muller (1958). */
function normalGenerator(seed: number): () => number {
  const next = uniformGenerator(seed);
  let spare: number | undefined;
  return () => {
    if (spare !== undefined) {
      const value = spare;
      spare = undefined;
      return value;
    }
    // (0, 1]: the logarithm of 0 is never taken.
    const radius = Math.sqrt(-2 * Math.log(next() + 2 ** -32));
    const angle = 2 * Math.PI * next();
    spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  };
}
