/**
 * Every kernel and variant compiles and validates, on a backend that needs no driver and has all features: also those
 * that the drivers at hand lack.
 */
import { readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { kernelCases, kernelShapes } from "../../../src/bench/kernel-cases.ts";
import type { MatmulLayout } from "../../../src/device/device.ts";
import { attention, attentionBackward, attentionCached } from "../../../src/device/webgpu/ops/attention.ts";
import { stridedMatmul } from "../../../src/device/webgpu/ops/matmul.ts";
import { matmulVariants, matrixVariant, variantNames } from "../../../src/device/webgpu/ops/matmul-variants.ts";
import { readShaderFile } from "../../../src/device/webgpu/shader.ts";
import { WebGpuDevice } from "../../../src/device/webgpu/webgpu-device.ts";

const shape = { ...kernelShapes.tiny, rows: 64, context: 32, vocab: 600, dim: 64, inner: 96 };

describe("shaders", () => {
  let device: WebGpuDevice;
  beforeAll(async () => {
    device = await WebGpuDevice.open({ backend: "null" });
  });
  afterAll(() => device.destroy());

  it("are valid, every one of them", async () => {
    const { gpu } = device;
    for (const { prepare } of kernelCases(shape)) prepare(device)();

    const numbers = () => gpu.alloc(4096);
    // Matrix units as NVIDIA, Intel and Apple describe them, with their largest subgroups.
    const matrixUnits = [
      { M: 16, N: 16, K: 16, lanes: 32 },
      { M: 8, N: 16, K: 16, lanes: 32 },
      { M: 8, N: 8, K: 8, lanes: 32 },
    ].map(({ lanes, ...size }) => matrixVariant({ ...size, componentType: "f16", resultComponentType: "f32" }, lanes));
    for (const variant of [...variantNames.map((name) => matmulVariants[name]), ...matrixUnits]) {
      for (const layout of ["nn", "nt", "tn"] as MatmulLayout[]) {
        for (const [size, accumulate, bias] of [
          [32, false, false],
          [32, true, true],
          [31, true, false],
          [31, false, true],
        ] as const) {
          const product = { layout, a: numbers(), b: numbers(), out: numbers(), m: size, n: size, k: size };
          const strides = { lda: size, ldb: size, ldc: size, accumulate };
          stridedMatmul(gpu, { ...product, ...strides, ...(bias && { bias: numbers() }) }, variant);
          for (const type of ["f16", "bf16"] as const) {
            stridedMatmul(gpu, { ...product, ...strides, b: gpu.alloc(4096, type) }, variant);
          }
        }
      }
    }

    const words = (length: number) => gpu.alloc(length, "u32");
    for (const variant of ["register", "tiled"] as const) {
      for (const [heads, kvHeads, headDim] of [
        [4, 2, 32],
        [6, 6, 8],
        [16, 2, 128],
        [3, 1, 256],
      ] as const) {
        const dims = { heads, kvHeads, headDim, scale: 1, rows: 4 };
        const tensor = () => gpu.alloc(4 * heads * headDim);
        const packed = { q: tensor(), k: tensor(), v: tensor(), out: tensor(), lse: gpu.alloc(4 * heads) };
        const forward = { ...dims, ...packed, offsets: words(2), sequences: 1 };
        attention(gpu, forward, variant);
        attentionBackward(gpu, { ...forward, dOut: tensor(), dQ: tensor(), dK: tensor(), dV: tensor() }, variant);
        const cache = () => gpu.alloc(32 * kvHeads * headDim);
        const pages = { positions: words(4), sequenceOf: words(4), pageTable: words(1), pageTableStride: 1 };
        const queries = { ...dims, q: tensor(), out: tensor(), ...pages };
        attentionCached(gpu, { ...queries, kCache: cache(), vCache: cache() }, variant);
        const halfCache = () => gpu.alloc(32 * kvHeads * headDim, "f16");
        attentionCached(gpu, { ...queries, kCache: halfCache(), vCache: halfCache() }, variant);
      }
    }
    device.add({ a: numbers(), b: numbers(), out: numbers(), length: 8 });
    const own = numbers();
    device.add({ a: own, b: numbers(), out: own, length: 8 });
    device.add({ a: own, b: own, out: own, length: 8 });
    device.scale({ x: numbers(), out: own, factor: 2, length: 8 });
    device.scale({ x: own, out: own, factor: 2, length: 8 });
    device.fill(own, 1);
    device.fill(words(8), 1);
    const index = words(8);
    device.gatherRows({ x: numbers(), index, out: numbers(), rows: 8, dim: 6 });
    device.scatterRows({ x: numbers(), index, out: numbers(), rows: 8, dim: 6 });
    for (const width of [8, 6]) {
      const half = () => gpu.alloc(4096, "f16");
      device.embed({ table: half(), ids: index, out: numbers(), rows: 8, dim: width, vocab: 8 });
      const keys = { k: numbers(), v: numbers(), kCache: half(), vCache: half() };
      device.kvWrite({ ...keys, slots: index, rows: 8, width });
      device.embed({ table: gpu.alloc(4096, "bf16"), ids: index, out: numbers(), rows: 8, dim: width, vocab: 8 });
      device.roundHalf({ x: numbers(), out: half(), length: 8 });
      device.roundHalf({ x: numbers(), out: gpu.alloc(8, "bf16"), length: 8 });
      device.roundHalf({ x: numbers(), out: numbers(), length: 8, dtype: "bf16" });
      device.roundHalf({ x: numbers(), out: numbers(), length: 8 });
      device.roundHalf({ x: own, out: own, length: 8 });
    }
    await device.sumSquares(own, 8);
    const cut = { temperatures: numbers(), topK: words(4), topP: numbers(), minP: numbers(), seeds: words(16) };
    const drawn = { tokens: words(4), logProbs: numbers(), keptMass: numbers() };
    const head = { hidden: numbers(), weight: gpu.alloc(600 * 8), tied: false, rows: 4, dim: 8, vocab: 600 };
    device.headSample({ ...head, ...cut, ...drawn });
    gpu.recorder.dispatch({ kernel: "bench_copy", bindings: [numbers(), own], params: { length: 8 }, groups: [1] });
    const chains = { rounds: 1, factor: 1, summand: 1 };
    gpu.recorder.dispatch({ kernel: "bench_fma", bindings: [own], params: chains, groups: [1] });

    // An error in a shader or a pipeline fails the drain.
    await gpu.recorder.drain();
    const kernels = readdirSync(new URL("../../../shaders/", import.meta.url))
      .filter((file) => readShaderFile(file).includes("@compute"))
      .map((file) => file.replace(/\.wgsl$/, ""));
    expect([...gpu.recorder.pipelines.kernels()].sort()).toEqual(kernels.sort());
  });

  it("that are malformed fail, with the compiler's words", async () => {
    const broken = await WebGpuDevice.open({ backend: "null" });
    const { pipelines } = broken.gpu.recorder;
    const product = {
      LAYOUT: "nn",
      VECTOR_A: false,
      VECTOR_B: false,
      VECTOR_OUT: false,
      B_TYPE: "f32",
      ACCUMULATE: false,
      BIAS: false,
    };
    pipelines.get("matmul_register", { ...product, ROWS: 4, X: "nothing", Y: 8 });
    await expect(broken.gpu.recorder.drain()).rejects.toThrow(/'nothing'/);
    broken.gpu.device.destroy();
  });
});
