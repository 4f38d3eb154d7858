import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Device, HalfType } from "../../src/device/device.ts";
import { roundAll, roundHalf } from "./reference-half.ts";
import { expectSameBits, onEveryDevice, upload } from "./support.ts";

const types: HalfType[] = ["f16", "bf16"];

/** Ties, neighbours of ties, both ends of the ranges. */
const edges = [
  0,
  1,
  2048,
  2049,
  2050,
  2051,
  2049.0002,
  65503,
  65504,
  65519.99,
  65520,
  1e6,
  3.38e38,
  3.3895e38,
  3.39e38,
  3.4e38,
  2 ** -14,
  6.1e-5,
  2 ** -126,
  1.18e-38,
  1e-40,
  257,
  258,
  259,
  257.0001,
]
  .flatMap((x) => [x, -x])
  .map(Math.fround);

onEveryDevice("roundHalf", (target) => {
  it.each(types)("rounds to the nearest number, ties to even, inside the range: %s", async (dtype) => {
    const numbers = fc.oneof(
      fc.float({ noNaN: true, noDefaultInfinity: true }),
      fc.float({ noNaN: true, min: Math.fround(-70_000), max: Math.fround(70_000) }),
      fc.float({ noNaN: true, min: Math.fround(-2), max: Math.fround(2) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(numbers, { minLength: 1, maxLength: 9000, size: "max" }), async (values) => {
        const x = Float32Array.from([...edges, ...values]);
        const [out, inPlace] = await target.inEverySetting(async (device) => {
          const [from, to] = [upload(device, x), device.alloc(x.length)];
          device.roundHalf({ x: from, out: to, length: x.length, dtype });
          device.roundHalf({ x: from, out: from, length: x.length, ...(dtype === "bf16" && { dtype }) });
          return [await device.readF32(to), await device.readF32(from)];
        });
        expectSameBits(out!, roundAll(x, dtype), "out");
        expectSameBits(inPlace!, roundAll(x, dtype), "in place");
      }),
      target.runs(12),
    );
  });

  it.each([
    ["f16", 65504],
    ["bf16", (2 - 2 ** -7) * 2 ** 127],
  ] as const)("hides no NaN, makes no infinity, and touches nothing behind its length: %s", async (dtype, largest) => {
    const x = Float32Array.of(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0.1);
    // A NaN whose upper half alone would be an infinity.
    new Uint32Array(x.buffer)[0] = 0x7f800001;
    const [out] = await target.inEverySetting(async (device) => {
      const tensor = upload(device, x);
      device.roundHalf({ x: tensor, out: tensor, length: 3, dtype });
      return [await device.readF32(tensor)];
    });
    expect([...out!]).toEqual([Number.NaN, largest, -largest, Math.fround(0.1)]);
  });
});

/** A tensor of 16 bits is read by looking its rows up. */
async function rowsOf(device: Device, table: ReturnType<Device["alloc"]>, rows: number, dim: number) {
  const out = device.alloc(rows * dim);
  const ids = upload(
    device,
    Uint32Array.from({ length: rows }, (_, i) => i),
  );
  device.embed({ table, ids, out, rows, dim, vocab: rows });
  return device.readF32(out);
}

onEveryDevice("bf16 tensors", (target) => {
  it.each([
    [50, 24],
    [31, 7],
  ])("hold what roundHalf gives, written by the host or by the device: %i x %i", async (rows, dim) => {
    const values = Float32Array.from({ length: rows * dim }, (_, i) => edges[i % edges.length]! * (1 + i / 1000));
    const [written, converted, part] = await target.inEverySetting(async (device) => {
      const [one, other] = [device.alloc(rows * dim, "bf16"), device.alloc(rows * dim, "bf16")];
      device.write(one, values);
      device.roundHalf({ x: upload(device, values), out: other, length: rows * dim });
      const some = device.alloc(rows * dim, "bf16");
      device.write(some, values);
      // An odd length: the number behind it stays.
      device.write(some, new Float32Array(dim - 1 + (dim % 2)).fill(1));
      return [
        await rowsOf(device, one, rows, dim),
        await rowsOf(device, other, rows, dim),
        await rowsOf(device, some, rows, dim),
      ];
    });
    const expected = roundAll(values, "bf16");
    expectSameBits(written!, expected, "written");
    expectSameBits(converted!, expected, "converted");
    expected.fill(1, 0, dim - 1 + (dim % 2));
    expectSameBits(part!, expected, "written in part");
  });

  it("are copied, zeroed, and filled with nothing else", async () => {
    const values = Float32Array.from({ length: 512 }, (_, i) => i - 100);
    const [copied, zeroed] = await target.inEverySetting(async (device) => {
      const [one, other] = [device.alloc(512, "bf16"), device.alloc(512, "bf16")];
      device.write(one, values);
      device.copy(device.view(one, 128, 64), device.view(other, 256, 64), 64);
      const result = [await rowsOf(device, other, 8, 64)];
      device.fill(one, 0);
      expect(() => device.fill(one, 1)).toThrow(/bf16 is filled with zeros only/);
      return [...result, await rowsOf(device, one, 8, 64)];
    });
    const expected = new Float32Array(512);
    expected.set(roundAll(values.slice(128, 192), "bf16"), 256);
    expectSameBits(copied!, expected, "copied");
    expectSameBits(zeroed!, new Float32Array(512), "zeroed");
  });
});

describe("The reference", () => {
  it("rounds to f16 as numbers worked out by hand do", () => {
    // 2048 to 4096 go by twos, 1 to 2 by 2^-10.
    expect([2049, 2050, 2051, 2053, 1 + 2 ** -11, 1 + 3 * 2 ** -11, 0.1].map((x) => roundHalf(x))).toEqual([
      2048,
      2050,
      2052,
      2052,
      1,
      1 + 2 ** -9,
      0.0999755859375,
    ]);
  });

  it("rounds to bf16 as numbers worked out by hand do", () => {
    // 256 to 512 go by twos, 1 to 2 by 2^-7.
    expect([257, 258, 259, 261, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 0.1].map((x) => roundHalf(x, "bf16"))).toEqual([
      256,
      258,
      260,
      260,
      1,
      1 + 2 ** -6,
      0.10009765625,
    ]);
  });
});
