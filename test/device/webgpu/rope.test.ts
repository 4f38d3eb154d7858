import { expect, it } from "vitest";
import * as reference from "../../conformance/reference-attention.ts";
import { expectClose, expectSameBits, randomF32, randomU32, upload } from "../../conformance/support.ts";
import { onEveryAdapter } from "./adapters.ts";

const positionLimit = 200;

const cases = [
  { rows: 1, heads: 1, headDim: 8, seed: 1 },
  { rows: 37, heads: 3, headDim: 24, seed: 2 },
  { rows: 60, heads: 4, headDim: 64, seed: 3 },
  { rows: 5, heads: 2, headDim: 256, seed: 4 },
];

onEveryAdapter("rope", (device) => {
  it("agrees with float64, is undone by its inverse, and gives a row the same bits alone", async () => {
    const gpu = device();
    for (const { rows, heads, headDim, seed } of cases) {
      const data = randomF32(rows * heads * headDim, seed);
      const places = randomU32(rows, seed + 1, positionLimit);
      const x = upload(gpu, data);
      const cosSin = upload(gpu, reference.ropeTable(positionLimit, headDim));
      const positions = upload(gpu, places);
      gpu.rope({ x, cosSin, positions, rows, heads, headDim });
      const turned = await gpu.readF32(x);
      expectClose(turned, reference.rope(data, places, heads, headDim), 4e-7, "out");

      gpu.rope({ x, cosSin, positions, rows, heads, headDim, inverse: true });
      expectClose(await gpu.readF32(x), data, 1e-6, "there and back");

      const last = (rows - 1) * heads * headDim;
      const alone = upload(gpu, data.slice(last));
      gpu.rope({ x: alone, cosSin, positions: upload(gpu, places.slice(rows - 1)), rows: 1, heads, headDim });
      expectSameBits(await gpu.readF32(alone), turned.slice(last), "last row alone");
    }
  });

  it("leaves the rows behind the last one alone", async () => {
    const gpu = device();
    const data = randomF32(4 * 16, 5);
    const x = upload(gpu, data);
    const cosSin = upload(gpu, reference.ropeTable(positionLimit, 16));
    gpu.rope({ x, cosSin, positions: upload(gpu, Uint32Array.of(7, 8, 9, 10)), rows: 3, heads: 1, headDim: 16 });
    const turned = await gpu.readF32(x);
    expectSameBits(turned.slice(48), data.slice(48), "row 3");
    expect(turned[0]).not.toBe(data[0]);
  });

  it("refuses arguments that do not fit, by name", () => {
    const gpu = device();
    const call = (change: object) => () =>
      gpu.rope({
        x: gpu.alloc(16),
        cosSin: gpu.alloc(32),
        positions: gpu.alloc(2, "u32"),
        rows: 2,
        heads: 1,
        headDim: 8,
        ...change,
      });
    expect(call({})).not.toThrow();
    expect(call({ headDim: 7 })).toThrow(/rope.*headDim.*7.*even/s);
    expect(call({ rows: 3 })).toThrow(/rope.*x.*16 elements.*24 elements/s);
    expect(call({ positions: gpu.alloc(2) })).toThrow(/rope.*positions.*f32.*u32/s);
  });
});
