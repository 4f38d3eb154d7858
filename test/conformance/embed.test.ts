import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ATTENTION_BLOCK } from "../../src/device/device.ts";
import { NativeDevice } from "../../src/device/native.ts";
import { expectSameBits, generator, onEveryDevice, randomF32, randomU32, upload } from "./support.ts";

const shapes = fc.record({
  rows: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(300, 1000)),
  dim: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(64, 65, 130)),
  vocab: fc.integer({ min: 1, max: 50 }),
  seed: fc.nat(1e6),
});

/** Rows of `x` in the order of `index`. */
function pick(x: Float32Array, index: ArrayLike<number>, dim: number): Float32Array {
  return Float32Array.from({ length: index.length * dim }, (_, i) => x[index[Math.floor(i / dim)]! * dim + (i % dim)]!);
}

function shuffled(count: number, seed: number): Uint32Array {
  const next = generator(seed);
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}

onEveryDevice("embed", (target) => {
  it("looks rows up, and its gradient adds them in ascending order", async () => {
    await fc.assert(
      fc.asyncProperty(shapes, async ({ rows, dim, vocab, seed }) => {
        const table = randomF32(vocab * dim, seed);
        const ids = randomU32(rows, seed + 1, vocab);
        const dOut = randomF32(rows * dim, seed + 2);
        const [out, dTable] = await target.inEverySetting(async (device) => {
          const [to, gradient] = [device.alloc(rows * dim), upload(device, table)];
          device.embed({ table: upload(device, table), ids: upload(device, ids), out: to, rows, dim, vocab });
          device.embedBackward({
            ids: upload(device, ids),
            dOut: upload(device, dOut),
            dTable: gradient,
            rows,
            dim,
            vocab,
          });
          return [await device.readF32(to), await device.readF32(gradient)];
        });
        expectSameBits(out!, pick(table, ids, dim), "out");
        // One float32 addition per row, in order: the reference can be exact.
        const expected = table.slice();
        for (let r = 0; r < rows; r++) {
          for (let i = 0; i < dim; i++) expected[ids[r]! * dim + i]! += dOut[r * dim + i]!;
        }
        expectSameBits(dTable!, expected, "dTable");
      }),
      target.runs(40),
    );
  });
});

onEveryDevice("gatherRows and scatterRows", (target) => {
  it("move rows, and one undoes the other", async () => {
    await fc.assert(
      fc.asyncProperty(shapes, async ({ rows, dim, seed }) => {
        const x = randomF32(rows * dim, seed);
        const index = shuffled(rows, seed + 1).slice(0, 1 + Math.floor(rows / 2));
        const [gathered, scattered] = await target.inEverySetting(async (device) => {
          const [to, back] = [device.alloc(index.length * dim), device.alloc(rows * dim)];
          device.fill(back, 9);
          const at = { index: upload(device, index), rows: index.length, dim };
          device.gatherRows({ ...at, x: upload(device, x), out: to });
          device.scatterRows({ ...at, x: to, out: back });
          return [await device.readF32(to), await device.readF32(back)];
        });
        expectSameBits(gathered!, pick(x, index, dim), "gathered");
        const expected = new Float32Array(rows * dim).fill(9);
        for (const row of index) expected.set(x.subarray(row * dim, (row + 1) * dim), row * dim);
        expectSameBits(scattered!, expected, "scattered");
      }),
      target.runs(30),
    );
  });
});

onEveryDevice("kvWrite", (target) => {
  it("puts rows into their slots and leaves the others alone", async () => {
    const [rows, width, pages] = [50, 24, 3];
    const slots = shuffled(pages * ATTENTION_BLOCK, 4).slice(0, rows);
    const [k, v] = [randomF32(rows * width, 1), randomF32(rows * width, 2)];
    const [kCache, vCache] = await target.inEverySetting(async (device) => {
      const size = pages * ATTENTION_BLOCK * width;
      const [tk, tv] = [device.alloc(size), device.alloc(size)];
      device.kvWrite({
        k: upload(device, k),
        v: upload(device, v),
        kCache: tk,
        vCache: tv,
        slots: upload(device, slots),
        rows,
        width,
      });
      return [await device.readF32(tk), await device.readF32(tv)];
    });
    for (const [cache, source] of [
      [kCache!, k],
      [vCache!, v],
    ] as const) {
      const expected = new Float32Array(cache.length);
      slots.forEach((slot, r) => void expected.set(source.subarray(r * width, (r + 1) * width), slot * width));
      expectSameBits(cache, expected, "cache");
    }
  });
});

describe("an index out of range", () => {
  it("of embed is refused by the native device before anything is read", () => {
    const device = new NativeDevice({ threads: 1 });
    const ids = upload(device, Uint32Array.of(0, 1, 5));
    const x = { table: device.alloc(10), ids, out: device.alloc(6), rows: 3, dim: 2, vocab: 5 };
    expect(() => device.embed(x)).toThrow(/embed: argument ids\[2\].*\n.*\n.*5\n.*below vocab 5/);
    expect(() => device.embedBackward({ ids, dOut: x.out, dTable: x.table, rows: 3, dim: 2, vocab: 5 })).toThrow(
      /ids\[2\]/,
    );
    device.destroy();
  });

  it("of gatherRows and scatterRows is refused by the native device", () => {
    const device = new NativeDevice({ threads: 1 });
    const index = upload(device, Uint32Array.of(4));
    const [small, row] = [device.alloc(8), device.alloc(2)];
    expect(() => device.gatherRows({ x: small, index, out: row, rows: 1, dim: 2 })).toThrow(/below rows of x 4/);
    expect(() => device.scatterRows({ x: row, index, out: small, rows: 1, dim: 2 })).toThrow(/below rows of out 4/);
    device.destroy();
  });

  it("of kvWrite is refused by the native device", () => {
    const device = new NativeDevice({ threads: 1 });
    const t = device.alloc(32 * 4);
    const bad = { k: t, v: t, kCache: t, vCache: t, slots: upload(device, Uint32Array.of(32)), rows: 1, width: 4 };
    expect(() => device.kvWrite(bad)).toThrow(/slots\[0\].*\n.*\n.*32\n.*below slots of the cache 32/);
    device.destroy();
  });
});
