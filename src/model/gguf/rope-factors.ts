/**
 * Llama 3 divides the frequencies of its rotary embedding by factors. A GGUF file holds the factors, which the converter
 * computed (conversion/llama.py in llama.cpp), and a config.json the numbers that they come from: in all of Llama 3.1, 3.2 and
 * 3.3 the same, but for the largest factor.
 */
import { ggufError } from "./errors.ts";
import type { GgufFile } from "./file.ts";

export const ropeFactorsName = "rope_freqs.weight";

const low = 1;
const high = 4;
const original = 8192;
/** The factors are float32. */
const tolerance = 1e-4;

/** rope_scaling of config.json. @throws AgentRLError MODEL_FILE when the factors are not those of any Llama 3. */
export function llama3Scaling(gguf: Pick<GgufFile, "header" | "read">, theta: number): Record<string, unknown> {
  const { data: factors } = gguf.read(ropeFactorsName);
  const factor = factors.reduce((a, b) => Math.max(a, b), 1);
  for (const [i, got] of factors.entries()) {
    const expected = factorOf(2 * Math.PI * theta ** (i / factors.length), factor);
    if (Math.abs(got - expected) <= tolerance * expected) continue;
    throw ggufError(
      `${gguf.header.file}: ${ropeFactorsName}, value ${i}`,
      "The GGUF file scales its positions in a way that is not known.",
      got,
      `${expected}, as in Llama 3 with a factor of ${factor}`,
      "Use a model of the Llama 3 family, or one whose positions are not rescaled.",
    );
  }
  return {
    rope_type: "llama3",
    factor,
    low_freq_factor: low,
    high_freq_factor: high,
    original_max_position_embeddings: original,
  };
}

/** Long wavelengths are divided by the whole factor, short ones are left, and those between in proportion. */
function factorOf(wavelength: number, factor: number): number {
  if (wavelength < original / high) return 1;
  if (wavelength > original / low) return factor;
  const smooth = (original / wavelength - low) / (high - low);
  return 1 / ((1 - smooth) / factor + smooth);
}
