import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { initWeights } from "../../src/model/init.ts";
import { packTensors, parameterCount, parameterLayout, unpackTensors } from "../../src/model/parameters.ts";
import { anyConfig, sameBits } from "./support.ts";

const small = {
  vocabSize: 3,
  hiddenSize: 2,
  intermediateSize: 5,
  layers: 1,
  heads: 2,
  kvHeads: 1,
  headDim: 4,
  family: "llama" as const,
  ropeTheta: 10000,
  rmsNormEps: 1e-5,
  maxPositions: 16,
  tieWordEmbeddings: false,
  eosTokenIds: [],
};

describe("parameter layout", () => {
  it("has the names, shapes and order of a Llama model", () => {
    const { entries } = parameterLayout(small);
    expect(entries.map((e) => [e.name, e.shape.join("x"), e.transposed, e.decay])).toEqual([
      ["model.embed_tokens.weight", "3x2", false, true],
      ["model.layers.0.self_attn.q_proj.weight", "8x2", true, true],
      ["model.layers.0.self_attn.k_proj.weight", "4x2", true, true],
      ["model.layers.0.self_attn.v_proj.weight", "4x2", true, true],
      ["model.layers.0.self_attn.o_proj.weight", "2x8", true, true],
      ["model.layers.0.mlp.gate_proj.weight", "5x2", true, true],
      ["model.layers.0.mlp.up_proj.weight", "5x2", true, true],
      ["model.layers.0.mlp.down_proj.weight", "2x5", true, true],
      ["lm_head.weight", "3x2", true, true],
      ["model.layers.0.input_layernorm.weight", "2", false, false],
      ["model.layers.0.post_attention_layernorm.weight", "2", false, false],
      ["model.norm.weight", "2", false, false],
    ]);
    expect(parameterCount(small)).toBe(6 + 16 + 8 + 8 + 16 + 10 + 10 + 10 + 6 + 3 * 2);
  });

  it("aligns entries, leaves no overlap, and puts everything decayed into a prefix", () => {
    fc.assert(
      fc.property(anyConfig, (config) => {
        const { entries, length, decayedLength } = parameterLayout(config);
        let end = 0;
        for (const entry of entries) {
          expect(entry.offset % 16).toBe(0);
          expect(entry.offset).toBeGreaterThanOrEqual(end);
          expect(entry.offset - end).toBeLessThan(64);
          end = entry.offset + entry.length;
          if (entry.decay) expect(end).toBeLessThanOrEqual(decayedLength);
          else expect(entry.offset).toBeGreaterThanOrEqual(decayedLength);
        }
        expect(length).toBeGreaterThanOrEqual(end);
      }),
    );
  });

  it("unpacks what was packed", () => {
    fc.assert(
      fc.property(anyConfig, fc.integer(), (config, seed) => {
        const arena = initWeights(config, seed);
        const tensors = unpackTensors(parameterLayout(config), arena);
        expect(
          sameBits(
            packTensors(parameterLayout(config), (name) => tensors.get(name)!),
            arena,
          ),
        ).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  it("holds linear weights as [in, out]", () => {
    const tensors = unpackTensors(parameterLayout(small), new Float32Array(parameterLayout(small).length));
    const k = "model.layers.0.self_attn.k_proj.weight";
    tensors.set(k, { shape: [4, 2], data: Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8]) });
    const arena = packTensors(parameterLayout(small), (name) => tensors.get(name)!);
    const { offset } = parameterLayout(small).entries.find((entry) => entry.name === k)!;
    expect([...arena.subarray(offset, offset + 8)]).toEqual([1, 3, 5, 7, 2, 4, 6, 8]);
  });

  it("refuses a tensor of another shape by name, and an arena of another model", () => {
    const tensors = unpackTensors(parameterLayout(small), new Float32Array(parameterLayout(small).length));
    tensors.set("model.norm.weight", { shape: [3], data: new Float32Array(3) });
    expect(() => packTensors(parameterLayout(small), (name) => tensors.get(name)!)).toThrow(
      /model\.norm\.weight[\s\S]*shape \[2\]/,
    );
    expect(() => unpackTensors(parameterLayout(small), new Float32Array(7))).toThrow(/7 elements/);
  });
});

describe("initWeights", () => {
  const config = { ...small, vocabSize: 200, hiddenSize: 64, intermediateSize: 128, layers: 8, headDim: 32 };

  it("draws normal weights of the stated deviation, norms at 1", () => {
    const tensors = unpackTensors(parameterLayout(config), initWeights(config, 1));
    const deviation = (name: string) => {
      const { data } = tensors.get(name)!;
      const mean = data.reduce((a, b) => a + b, 0) / data.length;
      return [mean, Math.sqrt(data.reduce((a, b) => a + (b - mean) ** 2, 0) / data.length)] as const;
    };
    for (const [name, { data }] of tensors) {
      if (name.includes("norm")) {
        expect(data.every((value) => value === 1)).toBe(true);
        continue;
      }
      const [mean, sigma] = deviation(name);
      // Standard errors: of the mean sigma/sqrt(n), of the deviation sigma/sqrt(2n); five of them.
      const expected = /o_proj|down_proj/.test(name) ? 0.02 / 4 : 0.02;
      expect(Math.abs(mean)).toBeLessThan((5 * expected) / Math.sqrt(data.length));
      expect(Math.abs(sigma - expected)).toBeLessThan((5 * expected) / Math.sqrt(2 * data.length));
    }
  });

  it("is a function of the seed", () => {
    expect(sameBits(initWeights(config, 3), initWeights(config, 3))).toBe(true);
    expect(sameBits(initWeights(config, 3), initWeights(config, 4))).toBe(false);
  });
});
