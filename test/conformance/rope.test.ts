import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NativeDevice } from "../../src/device/native.ts";
import * as reference from "./reference-attention.ts";
import { expectClose, expectSameBits, onEveryDevice, randomF32, randomU32, upload } from "./support.ts";

interface Case {
  rows: number;
  heads: number;
  headDim: number;
  seed: number;
}

const caseOf: fc.Arbitrary<Case> = fc.record({
  rows: fc.integer({ min: 1, max: 60 }),
  heads: fc.integer({ min: 1, max: 5 }),
  headDim: fc.constantFrom(8, 16, 24, 32, 40, 64, 128),
  seed: fc.nat(),
});

const positionLimit = 200;

function inputs({ rows, heads, headDim, seed }: Case) {
  return { x: randomF32(rows * heads * headDim, seed), positions: randomU32(rows, seed + 1, positionLimit) };
}

onEveryDevice("rope", (target) => {
  it("agrees with float64, and to the bit between instruction sets and thread counts", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf, async (c) => {
        const data = inputs(c);
        const [out] = await target.inEverySetting(async (device) => {
          const x = upload(device, data.x);
          const cosSin = upload(device, reference.ropeTable(positionLimit, c.headDim));
          device.rope({ ...c, x, cosSin, positions: upload(device, data.positions) });
          return [await device.readF32(x)];
        });
        expectClose(out!, reference.rope(data.x, data.positions, c.heads, c.headDim), 4e-7, "out");
      }),
      target.runs(25),
    );
  });

  it("is undone by its inverse, keeps the length of every head, and gives a row the same bits alone", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf, (c) =>
        target.withDevice(async (device) => {
          const data = inputs(c);
          const { rows, heads, headDim } = c;
          const x = upload(device, data.x);
          const cosSin = upload(device, reference.ropeTable(positionLimit, headDim));
          const positions = upload(device, data.positions);
          device.rope({ x, cosSin, positions, rows, heads, headDim });
          const turned = await device.readF32(x);
          for (let head = 0; head < rows * heads; head++) {
            const norm = (v: Float32Array) => Math.hypot(...v.subarray(head * headDim, (head + 1) * headDim));
            expect(norm(turned) / norm(data.x)).toBeCloseTo(1, 5);
          }
          device.rope({ x, cosSin, positions, rows, heads, headDim, inverse: true });
          expectClose(await device.readF32(x), data.x, 1e-6, "there and back");

          const last = rows - 1;
          const width = heads * headDim;
          const alone = upload(device, data.x.slice(last * width));
          device.rope({
            x: alone,
            cosSin,
            positions: upload(device, data.positions.slice(last)),
            rows: 1,
            heads,
            headDim,
          });
          expectSameBits(await device.readF32(alone), turned.slice(last * width), "last row alone");
        }),
      ),
      target.runs(30),
    );
  });

  it("makes the product of a query and a key depend on their distance only", async () => {
    await target.withDevice(async (device) => {
      const headDim = 32;
      const [q, k] = [randomF32(headDim, 1), randomF32(headDim, 2)];
      const cosSin = upload(device, reference.ropeTable(positionLimit, headDim));
      const product = async (queryAt: number, keyAt: number) => {
        const x = upload(device, Float32Array.of(...q, ...k));
        const positions = upload(device, Uint32Array.of(queryAt, keyAt));
        device.rope({ x, cosSin, positions, rows: 2, heads: 1, headDim });
        const turned = await device.readF32(x);
        return turned.subarray(0, headDim).reduce((sum, value, i) => sum + value * turned[headDim + i]!, 0);
      };
      for (const distance of [0, 1, 7, 50]) {
        const expected = await product(distance, 0);
        for (const shift of [1, 64, 149]) expect(await product(distance + shift, shift)).toBeCloseTo(expected, 4);
      }
    });
  });
});

describe("rope of the native device", () => {
  it("refuses a position outside the table, by name", () => {
    const device = new NativeDevice({ threads: 1 });
    const cosSin = upload(device, reference.ropeTable(4, 8));
    const positions = upload(device, Uint32Array.of(0, 4));
    const call = () => device.rope({ x: device.alloc(16), cosSin, positions, rows: 2, heads: 1, headDim: 8 });
    expect(call).toThrow(/rope.*positions\[1\]/s);
    device.destroy();
  });
});
