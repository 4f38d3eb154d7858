/**
 * Rotary positions as a config.json describes them: plain ones, or those of Llama 3.1, whose slow frequencies are divided
 * by a factor so that a longer context turns no further than the one that was trained first (Grattafiori et al. 2024).
 * transformers 4 writes rope_theta and rope_scaling; transformers 5 writes both into rope_parameters.
 */
import type { ModelConfig } from "./config.ts";

/** `rope_type: llama3`. */
export interface RopeScaling {
  factor: number;
  lowFreqFactor: number;
  highFreqFactor: number;
  /** Positions of the context that was trained first. */
  originalMaxPositions: number;
}

const supported = 'null, {"rope_type": "default"} or {"rope_type": "llama3"}, over the whole head';

/** @param fail throws: `field` is not as `expected`. */
export function parseRope(
  json: Readonly<Record<string, unknown>>,
  fail: (field: string, expected: string) => never,
): { theta?: unknown; scaling?: RopeScaling } {
  let theta = json.rope_theta ?? undefined;
  let scaling: RopeScaling | undefined;
  for (const field of ["rope_scaling", "rope_parameters"]) {
    const rope = json[field] ?? undefined;
    if (rope === undefined) continue;
    if (!isRecord(rope)) return fail(field, supported);
    if ((rope.partial_rotary_factor ?? 1) !== 1) fail(field, supported);
    const type = rope.rope_type ?? rope.type ?? "default";
    if (type === "llama3") scaling = llama3(rope, (name, expected) => fail(`${field}.${name}`, expected));
    else if (type !== "default") fail(field, supported);
    theta = rope.rope_theta ?? theta;
  }
  if ((json.partial_rotary_factor ?? 1) !== 1) fail("partial_rotary_factor", "1");
  return { ...(theta !== undefined && { theta }), ...(scaling && { scaling }) };
}

/** The fields of a config.json, as transformers 4 writes and 5 reads them. */
export function formatRope({ ropeTheta, ropeScaling }: ModelConfig): Record<string, unknown> {
  if (ropeScaling === undefined) return { rope_theta: ropeTheta, rope_scaling: null };
  const { factor, lowFreqFactor, highFreqFactor, originalMaxPositions } = ropeScaling;
  return {
    rope_theta: ropeTheta,
    rope_scaling: {
      rope_type: "llama3",
      factor,
      low_freq_factor: lowFreqFactor,
      high_freq_factor: highFreqFactor,
      original_max_position_embeddings: originalMaxPositions,
    },
  };
}

/** Angle by which the pair `i` of a head turns from one position to the next, in radians. */
export function ropeFrequency({ ropeTheta, headDim, ropeScaling }: ModelConfig, i: number): number {
  const plain = ropeTheta ** ((-2 * i) / headDim);
  if (ropeScaling === undefined) return plain;
  const { factor, lowFreqFactor: low, highFreqFactor: high, originalMaxPositions } = ropeScaling;
  // How often the pair goes round within the first context.
  const turns = (originalMaxPositions * plain) / (2 * Math.PI);
  const kept = Math.min(1, Math.max(0, (turns - low) / (high - low)));
  return kept * plain + ((1 - kept) * plain) / factor;
}

function llama3(rope: Record<string, unknown>, fail: (name: string, expected: string) => never): RopeScaling {
  const positive = (name: string): number => {
    const value = rope[name];
    return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : fail(name, "a positive number");
  };
  const scaling = {
    factor: positive("factor"),
    lowFreqFactor: positive("low_freq_factor"),
    highFreqFactor: positive("high_freq_factor"),
    originalMaxPositions: positive("original_max_position_embeddings"),
  };
  if (scaling.highFreqFactor <= scaling.lowFreqFactor) fail("high_freq_factor", "more than low_freq_factor");
  return scaling;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
