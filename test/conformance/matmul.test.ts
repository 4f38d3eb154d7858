import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { addon } from "../../src/device/addon.ts";
import type { Device, MatmulLayout } from "../../src/device/device.ts";
import { NativeDevice } from "../../src/device/native.ts";
import * as reference from "./reference-linear.ts";
import { expectClose, expectSameBits, onEveryDevice, randomF32, type Target, upload } from "./support.ts";

const layouts: MatmulLayout[] = ["nn", "nt", "tn"];
const layoutOf = fc.constantFrom(...layouts);
// One below, at and above the heights and widths of tiles on any instruction set, and of a packed panel.
const size = fc.oneof(
  fc.constantFrom(1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16, 17, 28, 29, 31, 32, 33, 47, 48, 49, 63, 64, 65),
  fc.integer({ min: 1, max: 130 }),
);

interface Case {
  layout: MatmulLayout;
  m: number;
  n: number;
  k: number;
  bias: boolean;
  accumulate: boolean;
  seed: number;
}

function inputs(x: Case) {
  return {
    a: randomF32(x.m * x.k, x.seed),
    b: randomF32(x.k * x.n, x.seed + 1),
    bias: randomF32(x.n, x.seed + 2),
    out: randomF32(x.m * x.n, x.seed + 3),
  };
}

async function run(device: Device, x: Case, data = inputs(x)): Promise<Float32Array> {
  const out = upload(device, data.out);
  const { layout, m, n, k, accumulate } = x;
  const operands = { layout, a: upload(device, data.a), b: upload(device, data.b), out, m, n, k, accumulate };
  device.matmul(x.bias ? { ...operands, bias: upload(device, data.bias) } : operands);
  return device.readF32(out);
}

async function check(target: Target, x: Case): Promise<void> {
  const data = inputs(x);
  const [got] = await target.inEverySetting(async (device) => [await run(device, x, data)]);
  const start: { out?: Float32Array; bias?: Float32Array } = {};
  if (x.accumulate) start.out = data.out;
  if (x.bias) start.bias = data.bias;
  const { out, bound } = reference.matmul(x.layout, data.a, data.b, x.m, x.n, x.k, start);
  expectClose(got!, out, bound, JSON.stringify(x));
}

onEveryDevice("matmul", (target) => {
  it("agrees with float64 in every layout, and to the bit between instruction sets and thread counts", async () => {
    const cases = fc.record({
      layout: layoutOf,
      m: size,
      n: size,
      k: fc.oneof(fc.constantFrom(1, 2, 7, 8, 9, 16, 17), fc.integer({ min: 1, max: 100 })),
      bias: fc.boolean(),
      accumulate: fc.boolean(),
      seed: fc.nat(1e6),
    });
    await fc.assert(
      fc.asyncProperty(cases, (x) => check(target, x)),
      target.runs(150),
    );
  });

  it("agrees when k is cut into blocks, b into packed blocks, and rows into tasks", async () => {
    for (const layout of layouts) {
      await check(target, { layout, m: 70, n: 530, k: 780, bias: true, accumulate: false, seed: 5 });
      await check(target, { layout, m: 300, n: 64, k: 385, bias: false, accumulate: true, seed: 6 });
      await check(target, { layout, m: 9, n: 1100, k: 40, bias: true, accumulate: true, seed: 7 });
    }
  });

  it("agrees at the shapes of low-rank adapters, where n, k or m is a rank", async () => {
    const [rows, width, inner] = [90, 576, 192];
    for (const rank of [4, 16, 64]) {
      // Down, up added to the layer's own output, and the gradients of the two factors and of what lies between.
      for (const product of [
        { layout: "nn", m: rows, n: rank, k: width },
        { layout: "nn", m: rows, n: inner, k: rank },
        { layout: "tn", m: width, n: rank, k: rows },
        { layout: "tn", m: rank, n: inner, k: rows },
        { layout: "nt", m: rows, n: rank, k: inner },
        { layout: "nt", m: rows, n: width, k: rank },
      ] as const) {
        await check(target, { ...product, bias: false, accumulate: rank !== 16, seed: rank });
      }
    }
  });

  it("gives bias, or what out held, when k is 0", async () => {
    await check(target, { layout: "nn", m: 3, n: 20, k: 0, bias: true, accumulate: true, seed: 8 });
    await check(target, { layout: "nt", m: 3, n: 20, k: 0, bias: false, accumulate: false, seed: 9 });
  });

  it("gives a row the same bits however many rows are computed with it", async () => {
    const cases = fc.record({
      layout: layoutOf,
      m: fc.integer({ min: 2, max: 200 }),
      n: size,
      k: fc.integer({ min: 1, max: 500 }),
      from: fc.nat(),
      rows: fc.nat(),
      seed: fc.nat(1e6),
    });
    await fc.assert(
      fc.asyncProperty(cases, ({ layout, m, n, k, seed, ...part }) =>
        target.withDevice(async (device) => {
          const from = part.from % m;
          const rows = 1 + (part.rows % (m - from));
          const x = { layout, m, n, k, bias: true, accumulate: false, seed };
          const data = inputs(x);
          const whole = await run(device, x, data);
          const a =
            layout === "tn"
              ? Float32Array.from({ length: k * rows }, (_, i) => data.a[Math.floor(i / rows) * m + from + (i % rows)]!)
              : data.a.slice(from * k, (from + rows) * k);
          const some = await run(device, { ...x, m: rows }, { ...data, a, out: new Float32Array(rows * n) });
          expectSameBits(
            some,
            whole.slice(from * n, (from + rows) * n),
            `rows ${from}+${rows} of ${JSON.stringify(x)}`,
          );
        }),
      ),
      target.runs(100),
    );
  });

  it("continues the chain: two products accumulated are one longer product", async () => {
    const cases = fc.record({
      layout: layoutOf,
      m: size,
      n: size,
      k1: fc.integer({ min: 0, max: 450 }),
      k2: fc.integer({ min: 1, max: 450 }),
      seed: fc.nat(1e6),
    });
    await fc.assert(
      fc.asyncProperty(cases, ({ layout, m, n, k1, k2, seed }) =>
        target.withDevice(async (device) => {
          const k = k1 + k2;
          const x = { layout, m, n, k, bias: true, accumulate: false, seed };
          const data = inputs(x);
          const whole = await run(device, x, data);
          // Part [from, to) of the k axis of an operand stored with k as its rows, or as its columns.
          const part = (t: Float32Array, kIsRow: boolean, width: number, from: number, to: number) =>
            kIsRow
              ? t.slice(from * width, to * width)
              : Float32Array.from({ length: width * (to - from) }, (_, i) => {
                  const length = to - from;
                  return t[Math.floor(i / length) * k + from + (i % length)]!;
                });
          const a = (from: number, to: number) => part(data.a, layout === "tn", m, from, to);
          const b = (from: number, to: number) => part(data.b, layout !== "nt", n, from, to);
          const half = await run(device, { ...x, k: k1 }, { ...data, a: a(0, k1), b: b(0, k1) });
          const rest = { ...x, k: k2, bias: false, accumulate: true };
          const both = await run(device, rest, { ...data, a: a(k1, k), b: b(k1, k), out: half });
          expectSameBits(both, whole, JSON.stringify(x));
        }),
      ),
      target.runs(60),
    );
  });

  it("adds in ascending k with one rounding per step", async () => {
    // 2^25 + 1 and 2^25 + 1 + 1 round back to 2^25 one at a time; any other order or a pairwise sum gives 1 or 2.
    const order = Float32Array.of(2 ** 25, 1, 1, -(2 ** 25));
    // (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 in a fused step and 0 when the product is rounded first.
    const e = 1 + 2 ** -12;
    const [ordered, fused] = await target.inEverySetting(async (device) => {
      const x = { layout: "nn" as const, m: 1, n: 1, bias: false, accumulate: false, seed: 1 };
      const start = { bias: new Float32Array(1), out: new Float32Array(1) };
      const ones = new Float32Array(4).fill(1);
      return [
        await run(device, { ...x, k: 4 }, { ...start, a: order, b: ones }),
        await run(
          device,
          { ...x, k: 2 },
          { ...start, a: Float32Array.of(-(1 + 2 ** -11), e), b: Float32Array.of(1, e) },
        ),
      ];
    });
    expect(ordered![0]).toBe(0);
    // WGSL lets an adapter compute fma in two roundings.
    expect(target.kind === "native" ? [2 ** -24] : [2 ** -24, 0]).toContain(fused![0]);
  });

  it("reads and writes nothing outside its tensors", async () => {
    const guard = 1e9;
    for (const [m, n, k] of [
      [1, 1, 1],
      [5, 17, 3],
      [15, 33, 9],
      [66, 65, 5],
    ] as const) {
      for (const layout of layouts) {
        const results = await target.inEverySetting(async (device) => {
          const data = inputs({ layout, m, n, k, bias: true, accumulate: false, seed: 3 });
          const out = device.alloc(m * n + 128);
          device.fill(out, guard);
          const nan = (t: Float32Array) => {
            const padded = upload(device, new Float32Array(t.length + 128).fill(Number.NaN));
            device.write(padded, t, 64);
            return device.view(padded, 64, t.length);
          };
          const view = device.view(out, 64, m * n);
          device.matmul({ layout, a: nan(data.a), b: nan(data.b), bias: nan(data.bias), out: view, m, n, k });
          return [await device.readF32(out)];
        });
        const all = results[0]!;
        expect(all.slice(0, 64).every((x) => x === guard) && all.slice(64 + m * n).every((x) => x === guard)).toBe(
          true,
        );
        expect(all.slice(64, 64 + m * n).every((x) => Math.abs(x) < 100)).toBe(true);
      }
    }
  });
});

describe("matmul of the native device", () => {
  it("names operator, argument, got and expected when a tensor is too short", () => {
    const device = new NativeDevice({ threads: 1 });
    const t = (n: number) => device.alloc(n);
    const x = { layout: "nn" as const, a: t(6), b: t(12), out: t(7), m: 2, n: 4, k: 3 };
    expect(() => device.matmul(x)).toThrow(/matmul: argument out .*\n.*\n.*7 elements\n.*at least 8 \(m \* n\)/);
    expect(() => device.matmul({ ...x, bias: device.alloc(4, "u32"), out: t(8) })).toThrow(/argument bias/);
    expect(() => device.matmul({ ...x, m: -1 })).toThrow(/argument m /);
    device.destroy();
    expect(() => device.matmul(x)).toThrow(/argument a .*\n.*\n.*0 elements/);
  });

  it("knows the instruction sets of this machine", () => {
    expect(addon.simdLevels()).toContain("plain");
    expect(() => addon.setSimd("mmx")).toThrow(/argument name/);
  });
});
