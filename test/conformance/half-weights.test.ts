/** Weights in 16 bits, as every operator that takes them reads them: the bits of the same numbers in float32. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Device, HalfType, Tensor } from "../../src/device/device.ts";
import { NativeDevice } from "../../src/device/native.ts";
import type { WebGpuDevice } from "../../src/device/webgpu/webgpu-device.ts";
import { roundAll } from "./reference-half.ts";
import { expectSameBits, onEveryDevice, randomF32, randomU32, type Target, upload } from "./support.ts";

/** Whether the device has tensors of this type: an adapter without shader-f16 has no f16. */
function has(device: Device, type: HalfType): boolean {
  return type === "bf16" || device.kind === "native" || (device as WebGpuDevice).gpu.features.has("shader-f16");
}

/** Runs once with the weight in float32 and once in each type of 16 bits, of the same rounded numbers. */
async function compare(
  target: Target,
  values: Float32Array,
  run: (device: Device, weight: Tensor) => Promise<(Float32Array | Uint32Array)[]>,
  what: string,
): Promise<void> {
  for (const type of ["f16", "bf16"] as const) {
    const rounded = roundAll(values, type);
    const results = await target.inEverySetting(async (device) => {
      const expected = await run(device, upload(device, rounded));
      if (!has(device, type)) return expected;
      const weight = device.alloc(values.length, type);
      device.write(weight, values);
      const got = await run(device, weight);
      got.forEach((result, i) => void expectSameBits(result, expected[i]!, `output ${i} of ${what} in ${type}`));
      return got;
    });
    expect(results.length).toBeGreaterThan(0);
  }
}

// Below, at and above what a kernel computes one at a time, transposed, in place, and packed.
const rows = fc.oneof(
  fc.constantFrom(1, 2, 3, 6, 7, 8, 14, 15, 16, 17, 31, 32, 33, 64, 65),
  fc.integer({ min: 1, max: 90 }),
);
const size = fc.oneof(fc.constantFrom(1, 7, 8, 16, 31, 32, 33, 64, 127, 128, 129), fc.integer({ min: 1, max: 200 }));

interface Product {
  layout: "nn" | "nt";
  m: number;
  n: number;
  k: number;
  accumulate?: boolean;
  biased?: boolean;
  seed?: number;
}

async function compareProducts(target: Target, x: Product): Promise<void> {
  const { layout, m, n, k, accumulate = false, biased = false, seed = 1 } = x;
  const [a, start, bias] = [randomF32(m * k, seed), randomF32(m * n, seed + 1), randomF32(n, seed + 2)];
  const product = async (device: Device, b: Tensor) => {
    const out = upload(device, start);
    const operands = { a: upload(device, a), b, out, ...(biased && { bias: upload(device, bias) }) };
    device.matmul({ layout, ...operands, m, n, k, accumulate });
    return [await device.readF32(out)];
  };
  await compare(target, randomF32(k * n, seed + 3, 4), product, JSON.stringify(x));
}

onEveryDevice("A weight in 16 bits", (target) => {
  it("gives a product the bits of its numbers in float32", async () => {
    // Where every kind of product is a shader to be compiled: one that is read four numbers at a time, one that is not.
    if (target.kind === "webgpu") {
      await compareProducts(target, { layout: "nn", m: 9, n: 40, k: 24 });
      await compareProducts(target, { layout: "nt", m: 5, n: 33, k: 17 });
      return;
    }
    const cases: fc.Arbitrary<Product> = fc.record({
      layout: fc.constantFrom("nn", "nt"),
      m: rows,
      n: size,
      k: size,
      accumulate: fc.boolean(),
      biased: fc.boolean(),
      seed: fc.nat(1e6),
    });
    await fc.assert(
      fc.asyncProperty(cases, (x) => compareProducts(target, x)),
      target.runs(40),
    );
    // k and b are cut into blocks.
    for (const layout of ["nn", "nt"] as const) {
      for (const m of [2, 9, 30, 70]) await compareProducts(target, { layout, m, n: 560, k: 780 });
    }
  });

  it("gives the head the same scores, gradients and samples", async () => {
    for (const [tied, count, dim, vocab] of [
      [true, 5, 24, 1030],
      [true, 40, 33, 70],
      [false, 5, 24, 1030],
      [false, 40, 7, 65],
    ] as const) {
      const hidden = randomF32(count * dim, 1, 2);
      const [targets, seeds] = [randomU32(count, 2, vocab), randomU32(4 * count, 3, 2 ** 32)];
      const [dLogProbs, dEntropies] = [randomF32(count, 4), randomF32(count, 5)];
      const head = async (device: Device, weight: Tensor) => {
        const vector = () => device.alloc(count);
        const shape = { hidden: upload(device, hidden), weight, tied, rows: count, dim, vocab };
        const temperatures = upload(device, new Float32Array(count).fill(0.8));
        const scores = { logProbs: vector(), entropies: vector(), lse: vector() };
        const given = { ...shape, targets: upload(device, targets), temperatures };
        device.headLogProb({ ...given, ...scores });
        const dHidden = device.alloc(count * dim);
        const derivatives = { dLogProbs: upload(device, dLogProbs), dEntropies: upload(device, dEntropies) };
        device.headBackward({ ...given, ...scores, ...derivatives, dHidden });
        const cut = { topK: device.alloc(count, "u32"), topP: upload(device, new Float32Array(count).fill(0.9)) };
        const drawn = { tokens: device.alloc(count, "u32"), logProbs: vector(), keptMass: vector() };
        device.headSample({ ...shape, temperatures, ...cut, minP: vector(), seeds: upload(device, seeds), ...drawn });
        const floats = [scores.logProbs, scores.entropies, scores.lse, dHidden, drawn.logProbs, drawn.keptMass];
        return Promise.all([device.readU32(drawn.tokens), ...floats.map((tensor) => device.readF32(tensor))]);
      };
      await compare(target, randomF32(vocab * dim, 6), head, `head, ${tied ? "tied" : "untied"}`);
    }
  });

  it("gives embed its rows", async () => {
    for (const [vocab, dim] of [
      [40, 64],
      [9, 13],
    ] as const) {
      const ids = randomU32(70, 7, vocab);
      const look = async (device: Device, table: Tensor) => {
        const out = device.alloc(70 * dim);
        device.embed({ table, ids: upload(device, ids), out, rows: 70, dim, vocab });
        return [await device.readF32(out)];
      };
      await compare(target, randomF32(vocab * dim, 8, 5), look, "embed");
    }
  });
});

describe("Memory of others in 16 bits", () => {
  it("is a weight of the native device as it stands, subnormal numbers and infinities too", async () => {
    const device = new NativeDevice({ threads: 1 });
    const ids = upload(device, Uint32Array.of(0));
    const look = async (bits: number[], type: HalfType) => {
      const shared = new Uint16Array(new SharedArrayBuffer(2 * bits.length));
      shared.set(bits);
      const out = device.alloc(bits.length);
      const table = NativeDevice.wrap(shared, "base", type);
      device.embed({ table, ids, out, rows: 1, dim: bits.length, vocab: 1 });
      return Array.from(await device.readF32(out));
    };
    expect(await look([0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0x3555], "f16")).toEqual([
      1,
      -2,
      2 ** -24,
      65504,
      Number.POSITIVE_INFINITY,
      0.333251953125,
    ]);
    expect(await look([0x3f80, 0xc000, 0x0001, 0xff80, 0x3eab], "bf16")).toEqual([
      1,
      -2,
      2 ** -133,
      Number.NEGATIVE_INFINITY,
      0.333984375,
    ]);
    device.destroy();
  });

  it("is refused where an operator computes in float32 only", () => {
    const device = new NativeDevice({ threads: 1 });
    const [half, x] = [device.alloc(8, "bf16", "weight"), device.alloc(8)];
    expect(() => device.add({ a: half, b: x, out: x, length: 8 })).toThrow(
      /add: argument a .*another kind.*Float32Array/s,
    );
    expect(() => device.matmul({ layout: "nn", a: half, b: x, out: x, m: 2, n: 2, k: 2 })).toThrow(/argument a /);
    expect(() => device.roundHalf({ x, out: half, length: 8, dtype: "f16" })).toThrow(/argument dtype/);
    expect(() => device.write(half, new Uint32Array(2))).toThrow(/write to weight/);
    device.destroy();
  });
});
