import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ATTENTION_BLOCK, type AttentionShape, type Device } from "../../src/device/device.ts";
import { NativeDevice } from "../../src/device/native.ts";
import * as reference from "./reference-attention.ts";
import {
  expectClose,
  expectSameBits,
  finiteDifferences,
  generator,
  onEveryDevice,
  randomF32,
  type Target,
  upload,
} from "./support.ts";

interface Case extends AttentionShape {
  lengths: number[];
  seed: number;
  /** Size of queries and keys: large ones make the softmax sharp. */
  size: number;
}

interface Data {
  q: Float32Array;
  k: Float32Array;
  v: Float32Array;
  dOut: Float32Array;
}

/** Around the blocks of 32 keys, and around the runs of 64 rows that the CPU kernel takes together. */
const length = fc.oneof(fc.constantFrom(1, 2, 15, 31, 32, 33, 63, 64, 65, 96, 97), fc.integer({ min: 1, max: 100 }));

function caseOf(limits: { sequences: number; length?: fc.Arbitrary<number>; headDims?: number[] }): fc.Arbitrary<Case> {
  return fc
    .record({
      lengths: fc.array(limits.length ?? length, { minLength: 1, maxLength: limits.sequences }),
      kvHeads: fc.constantFrom(1, 2, 3),
      group: fc.constantFrom(1, 2, 4),
      headDim: fc.constantFrom(...(limits.headDims ?? [8, 16, 24, 32, 64])),
      size: fc.constantFrom(1, 1, 4),
      seed: fc.nat(),
    })
    .map(({ group, ...x }) => ({ ...x, heads: group * x.kvHeads, scale: 1 / Math.sqrt(x.headDim) }));
}

const rowsOf = (x: Case) => x.lengths.reduce((a, b) => a + b, 0);

function offsetsOf(lengths: number[]): Uint32Array {
  const offsets = Uint32Array.from([0, ...lengths]);
  for (let i = 1; i < offsets.length; i++) offsets[i]! += offsets[i - 1]!;
  return offsets;
}

function inputs(x: Case): Data {
  const rows = rowsOf(x);
  const [queries, keys] = [rows * x.heads * x.headDim, rows * x.kvHeads * x.headDim];
  return {
    q: randomF32(queries, x.seed, x.size),
    k: randomF32(keys, x.seed + 1, x.size),
    v: randomF32(keys, x.seed + 2),
    dOut: randomF32(queries, x.seed + 3),
  };
}

async function forward(device: Device, x: Case, data: Data) {
  const { lengths, seed, size, ...shape } = x;
  const [q, k, v] = [upload(device, data.q), upload(device, data.k), upload(device, data.v)];
  const out = device.alloc(q.length);
  const lse = device.alloc(rowsOf(x) * x.heads);
  const packing = { offsets: upload(device, offsetsOf(lengths)), sequences: lengths.length, rows: rowsOf(x) };
  const args = { ...shape, q, k, v, out, lse, ...packing };
  device.attention(args);
  return { args, out: await device.readF32(out), lse: await device.readF32(lse) };
}

interface Gradients {
  dQ: Float32Array;
  dK: Float32Array;
  dV: Float32Array;
}

async function backward(device: Device, x: Case, data: Data): Promise<Gradients> {
  const { args } = await forward(device, x, data);
  // Whatever was there must be overwritten.
  const dirty = (length: number) => upload(device, new Float32Array(length).fill(Number.NaN));
  const [dQ, dK, dV] = [dirty(data.q.length), dirty(data.k.length), dirty(data.v.length)];
  device.attentionBackward({ ...args, dOut: upload(device, data.dOut), dQ, dK, dV });
  return { dQ: await device.readF32(dQ), dK: await device.readF32(dK), dV: await device.readF32(dV) };
}

/** What no kernel may let into its result. WGSL does not promise that a NaN stays one. */
function poison(device: Device): number {
  return device.kind === "native" ? Number.NaN : 1e4;
}

function expectBounded(
  target: Target,
  got: Float32Array,
  expected: { value: Float64Array; bound: Float64Array },
  label: string,
): void {
  const limits = expected.bound.map((bound) => bound * target.looseness);
  expectClose(got, expected.value, limits, label);
}

/** The rows of one sequence, as a case of its own. */
function only(x: Case, data: Data, sequence: number): { x: Case; data: Data; from: number; to: number } {
  const offsets = offsetsOf(x.lengths);
  const [from, to] = [offsets[sequence]!, offsets[sequence + 1]!];
  const queries = (a: Float32Array) => a.slice(from * x.heads * x.headDim, to * x.heads * x.headDim);
  const keys = (a: Float32Array) => a.slice(from * x.kvHeads * x.headDim, to * x.kvHeads * x.headDim);
  const part = { q: queries(data.q), k: keys(data.k), v: keys(data.v), dOut: queries(data.dOut) };
  return { x: { ...x, lengths: [to - from] }, data: part, from, to };
}

/**
 * The same rows through the cache: in steps, each of which writes the next few rows of some sequences and lets them
 * attend. Pages are dealt in random order and the cache starts full of poison.
 */
async function throughCache(
  device: Device,
  x: Case,
  data: Data,
  /** Rows that a sequence takes forward when it is its turn. */
  rowsAtOnce: (left: number, random: () => number) => number,
): Promise<Float32Array> {
  const { lengths, seed, size, ...shape } = x;
  const random = generator(seed + 99);
  const width = x.kvHeads * x.headDim;
  const stride = Math.max(...lengths.map((n) => Math.ceil(n / ATTENTION_BLOCK))) + 1;
  const pages = stride * lengths.length + 3;
  const deck = Array.from({ length: pages }, (_, i) => ({ page: i, key: random() })).sort((a, b) => a.key - b.key);
  const table = Uint32Array.from({ length: stride * lengths.length }, (_, i) => deck[i]!.page);
  const pageTable = upload(device, table);
  const cache = () => upload(device, new Float32Array(pages * ATTENTION_BLOCK * width).fill(poison(device)));
  const [kCache, vCache] = [cache(), cache()];
  const offsets = offsetsOf(lengths);
  const done = lengths.map(() => 0);
  const out = new Float32Array(data.q.length);
  const queryWidth = x.heads * x.headDim;

  while (done.some((n, s) => n < lengths[s]!)) {
    const step: { sequence: number; position: number }[] = [];
    for (const s of lengths.keys()) {
      if (done[s]! >= lengths[s]! || (lengths.length > 1 && random() < 0.3)) continue;
      const take = rowsAtOnce(lengths[s]! - done[s]!, random);
      for (let i = 0; i < take; i++) step.push({ sequence: s, position: done[s]!++ });
    }
    if (step.length === 0) continue;
    const rows = step.length;
    const pick = (from: Float32Array, w: number) => {
      const picked = new Float32Array(rows * w);
      for (const [i, { sequence, position }] of step.entries()) {
        const row = offsets[sequence]! + position;
        picked.set(from.subarray(row * w, (row + 1) * w), i * w);
      }
      return upload(device, picked);
    };
    const slots = Uint32Array.from(step, ({ sequence, position }) => {
      const page = table[sequence * stride + Math.floor(position / ATTENTION_BLOCK)]!;
      return page * ATTENTION_BLOCK + (position % ATTENTION_BLOCK);
    });
    const written = { k: pick(data.k, width), v: pick(data.v, width), slots: upload(device, slots) };
    device.kvWrite({ ...written, kCache, vCache, rows, width });
    const result = device.alloc(rows * queryWidth);
    device.attentionCached({
      ...shape,
      q: pick(data.q, queryWidth),
      kCache,
      vCache,
      out: result,
      positions: upload(
        device,
        Uint32Array.from(step, (r) => r.position),
      ),
      sequenceOf: upload(
        device,
        Uint32Array.from(step, (r) => r.sequence),
      ),
      pageTable,
      pageTableStride: stride,
      rows,
    });
    const values = await device.readF32(result);
    for (const [i, { sequence, position }] of step.entries()) {
      const row = offsets[sequence]! + position;
      out.set(values.subarray(i * queryWidth, (i + 1) * queryWidth), row * queryWidth);
    }
  }
  return out;
}

onEveryDevice("attention", (target) => {
  it("agrees with float64, and to the bit between instruction sets and thread counts", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf({ sequences: 3 }), async (x) => {
        const data = inputs(x);
        const [out, lse] = await target.inEverySetting(async (device) => {
          const result = await forward(device, x, data);
          return [result.out, result.lse];
        });
        const expected = reference.attention({ ...x, ...data });
        expectBounded(target, out!, expected.out, "out");
        expectBounded(target, lse!, expected.lse, "lse");
      }),
      target.runs(20),
    );
  });

  it("takes heads of 128 and 256 dimensions, and an empty sequence", async () => {
    for (const headDim of [128, 256]) {
      const x = { lengths: [33, 0, 1], heads: 2, kvHeads: 1, headDim, scale: 1 / Math.sqrt(headDim), seed: 3, size: 1 };
      const data = inputs(x);
      const [out, dQ, dK, dV] = await target.inEverySetting(async (device) => {
        const { dQ, dK, dV } = await backward(device, x, data);
        return [(await forward(device, x, data)).out, dQ, dK, dV];
      });
      const expected = reference.attention({ ...x, ...data });
      expectBounded(target, out!, expected.out, "out");
      const gradient = reference.attentionBackward({ ...x, ...data }, data.dOut);
      expectBounded(target, dQ!, gradient.dQ, "dQ");
      expectBounded(target, dK!, gradient.dK, "dK");
      expectBounded(target, dV!, gradient.dV, "dV");
    }
  });

  it("survives scores of hundreds", async () => {
    const x = { lengths: [70], heads: 2, kvHeads: 2, headDim: 32, scale: 1, seed: 8, size: 12 };
    const data = inputs(x);
    await target.withDevice(async (device) => {
      const { out, lse } = await forward(device, x, data);
      const expected = reference.attention({ ...x, ...data });
      expect(Math.max(...expected.lse.value)).toBeGreaterThan(300);
      expectBounded(target, out, expected.out, "out");
      expectBounded(target, lse, expected.lse, "lse");
    });
  });

  it("gives a sequence the same bits, values and gradients, whatever else is packed", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf({ sequences: 5 }), fc.nat(), (x, n) =>
        target.withDevice(async (device) => {
          const data = inputs(x);
          const alone = only(x, data, n % x.lengths.length);
          const { from, to } = alone;
          const packed = { ...(await forward(device, x, data)), ...(await backward(device, x, data)) };
          const single = {
            ...(await forward(device, alone.x, alone.data)),
            ...(await backward(device, alone.x, alone.data)),
          };
          const widths = {
            out: x.heads * x.headDim,
            lse: x.heads,
            dQ: x.heads * x.headDim,
            dK: x.kvHeads * x.headDim,
            dV: x.kvHeads * x.headDim,
          };
          for (const name of ["out", "lse", "dQ", "dK", "dV"] as const) {
            const width = widths[name];
            expectSameBits(single[name], packed[name].slice(from * width, to * width), name);
          }
        }),
      ),
      target.runs(40),
    );
  });

  it("reads no key that comes later", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf({ sequences: 1 }), fc.nat(), (x, n) =>
        target.withDevice(async (device) => {
          const data = inputs(x);
          const cut = n % (x.lengths[0]! + 1);
          const spoilt = (a: Float32Array) => a.slice().fill(poison(device), cut * x.kvHeads * x.headDim);
          const before = await forward(device, x, data);
          const after = await forward(device, x, { ...data, k: spoilt(data.k), v: spoilt(data.v) });
          const width = x.heads * x.headDim;
          expectSameBits(after.out.slice(0, cut * width), before.out.slice(0, cut * width), "rows before the cut");
        }),
      ),
      target.runs(30),
    );
  });
});

onEveryDevice("attentionBackward", (target) => {
  it("agrees with float64, and to the bit between instruction sets and thread counts", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf({ sequences: 4, headDims: [8, 16, 24, 32] }), async (x) => {
        const data = inputs(x);
        const [dQ, dK, dV] = await target.inEverySetting(async (device) => {
          const { dQ, dK, dV } = await backward(device, x, data);
          return [dQ, dK, dV];
        });
        const expected = reference.attentionBackward({ ...x, ...data }, data.dOut);
        expectBounded(target, dQ!, expected.dQ, "dQ");
        expectBounded(target, dK!, expected.dK, "dK");
        expectBounded(target, dV!, expected.dV, "dV");
      }),
      target.runs(20),
    );
  });

  it("agrees with finite differences of the float64 forward pass", async () => {
    const small = caseOf({ sequences: 2, length: fc.integer({ min: 1, max: 7 }), headDims: [8] });
    await fc.assert(
      fc.asyncProperty(small, (x) =>
        target.withDevice(async (device) => {
          const data = inputs(x);
          const got = await backward(device, x, data);
          const loss = (change: Partial<Record<"q" | "k" | "v", ArrayLike<number>>>) =>
            reference
              .attention({ ...x, ...data, ...change })
              .out.value.reduce((sum, o, i) => sum + o * data.dOut[i]!, 0);
          for (const [name, gradient] of [
            ["q", "dQ"],
            ["k", "dK"],
            ["v", "dV"],
          ] as const) {
            const expected = finiteDifferences((values) => loss({ [name]: values }), data[name]);
            const scale = 1 + Math.max(...expected.map(Math.abs));
            expectClose(got[gradient], expected, 2e-5 * scale, gradient);
          }
        }),
      ),
      target.runs(12),
    );
  });
});

onEveryDevice("attentionCached", (target) => {
  it("gives the bits of attention, decoding one token at a time over scattered pages", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf({ sequences: 4 }), (x) =>
        target.withDevice(async (device) => {
          const data = inputs(x);
          const { out } = await forward(device, x, data);
          expectSameBits(await throughCache(device, x, data, () => 1), out, "decoded");
        }),
      ),
      target.runs(12),
    );
  });

  it("gives the bits of attention when prompts are read in pieces, in every setting", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf({ sequences: 4 }), async (x) => {
        const data = inputs(x);
        await target.inEverySetting(async (device) => {
          const { out } = await forward(device, x, data);
          const pieces = (left: number, random: () => number) => 1 + Math.floor(random() * Math.min(left, 90));
          const read = await throughCache(device, x, data, pieces);
          expectSameBits(read, out, "read in pieces");
          return [read];
        });
      }),
      target.runs(12),
    );
  });
});

describe("attention of the native device", () => {
  it("refuses arguments that do not fit, by name", () => {
    const device = new NativeDevice({ threads: 1 });
    const call = (change: object, offsets = [0, 4]) => {
      const [q, out] = [device.alloc(4 * 16), device.alloc(4 * 16)];
      const [k, v, lse] = [device.alloc(4 * 8), device.alloc(4 * 8), device.alloc(8)];
      const shape = { heads: 2, kvHeads: 1, headDim: 8, scale: 1 };
      const sequences = offsets.length - 1;
      const packing = { offsets: upload(device, Uint32Array.from(offsets)), sequences, rows: offsets[sequences]! };
      return () => device.attention({ ...shape, q, k, v, out, lse, ...packing, ...change });
    };
    expect(call({})).not.toThrow();
    expect(call({ headDim: 12 })).toThrow(/attention.*headDim.*12.*multiple of 8/s);
    expect(call({ kvHeads: 3 })).toThrow(/attention.*heads.*multiple of kvHeads = 3/s);
    expect(call({}, [0, 3, 2])).toThrow(/attention.*offsets\[2\]/s);
    expect(call({}, [0, 5])).toThrow(/attention.*argument q/s);
    expect(call({ rows: 3 })).toThrow(/attention.*rows.*3.*offsets\[1\] = 4/s);
    device.destroy();
  });

  it("refuses pages, lines and positions outside their tables, by name", () => {
    const device = new NativeDevice({ threads: 1 });
    const cache = () => device.alloc(2 * ATTENTION_BLOCK * 8);
    const u32 = (...values: number[]) => upload(device, Uint32Array.from(values));
    const call = (change: object) => () =>
      device.attentionCached({
        heads: 1,
        kvHeads: 1,
        headDim: 8,
        scale: 1,
        q: device.alloc(8),
        kCache: cache(),
        vCache: cache(),
        out: device.alloc(8),
        positions: u32(32),
        sequenceOf: u32(0),
        pageTable: u32(1, 0),
        pageTableStride: 2,
        rows: 1,
        ...change,
      });
    expect(call({})).not.toThrow();
    expect(call({ pageTable: u32(1, 2) })).toThrow(/attentionCached.*pageTable\[1\].*number of pages/s);
    expect(call({ positions: u32(64) })).toThrow(/attentionCached.*positions\[0\]/s);
    expect(call({ sequenceOf: u32(1) })).toThrow(/attentionCached.*sequenceOf\[0\]/s);
    device.destroy();
  });
});
