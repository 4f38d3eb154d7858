import fc from "fast-check";
import { it } from "vitest";
import type { Device } from "../../src/device/device.ts";
import * as reference from "./reference-attention.ts";
import { expectClose, expectSameBits, finiteDifferences, onEveryDevice, randomF32, upload } from "./support.ts";

interface Case {
  rows: number;
  dim: number;
  eps: number;
  seed: number;
}

const caseOf: fc.Arbitrary<Case> = fc.record({
  rows: fc.oneof(fc.constantFrom(1, 2, 3), fc.integer({ min: 1, max: 80 })),
  // Around one vector, the four of a round, and a panel of columns.
  dim: fc.oneof(fc.constantFrom(1, 8, 15, 16, 17, 63, 64, 65, 128, 129), fc.integer({ min: 1, max: 300 })),
  eps: fc.constantFrom(1e-6, 1e-5, 0.1),
  seed: fc.nat(),
});

function inputs({ rows, dim, seed }: Case) {
  return {
    x: randomF32(rows * dim, seed, 3),
    weight: randomF32(dim, seed + 1, 2),
    dOut: randomF32(rows * dim, seed + 2),
    dX: randomF32(rows * dim, seed + 3),
    dWeight: randomF32(dim, seed + 4),
  };
}

async function forward(device: Device, { rows, dim, eps }: Case, data: ReturnType<typeof inputs>) {
  const out = device.alloc(rows * dim);
  const invRms = device.alloc(rows);
  device.rmsNorm({ x: upload(device, data.x), weight: upload(device, data.weight), out, invRms, rows, dim, eps });
  return [await device.readF32(out), await device.readF32(invRms)] as const;
}

/** dX and dWeight, from what is in them in `data`. */
async function backward(
  device: Device,
  { rows, dim }: Case,
  data: ReturnType<typeof inputs>,
  invRms: Float32Array,
  options: { accumulate?: boolean; inPlace?: boolean; frozen?: boolean } = {},
) {
  const dOut = upload(device, data.dOut);
  const dX = options.inPlace ? dOut : upload(device, data.dX);
  const dWeight = upload(device, data.dWeight);
  const [x, weight] = [upload(device, data.x), upload(device, data.weight)];
  const accumulate = options.accumulate ?? false;
  const gradients = { dX, ...(options.frozen !== true && { dWeight }) };
  device.rmsNormBackward({ x, weight, invRms: upload(device, invRms), dOut, ...gradients, rows, dim, accumulate });
  return [await device.readF32(dX), await device.readF32(dWeight)] as const;
}

function slice(data: ReturnType<typeof inputs>, dim: number, from: number, to: number) {
  const rows = (x: Float32Array) => x.slice(from * dim, to * dim);
  return { ...data, x: rows(data.x), dOut: rows(data.dOut), dX: rows(data.dX) };
}

onEveryDevice("rmsNorm", (target) => {
  it("agrees with float64, and to the bit between instruction sets and thread counts", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf, async (x) => {
        const data = inputs(x);
        const [out, invRms] = await target.inEverySetting(async (device) => [...(await forward(device, x, data))]);
        const expected = reference.rmsNorm(data.x, data.weight, x.rows, x.dim, x.eps);
        expectClose(out!, expected.out.value, expected.out.bound, "out");
        expectClose(invRms!, expected.invRms.value, expected.invRms.bound, "invRms");
      }),
      target.runs(25),
    );
  });

  it("has the float64 gradient, which the finite differences of the forward pass confirm", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf, fc.boolean(), async (x, accumulate) => {
        const data = inputs(x);
        const { rows, dim, eps } = x;
        const [dX, dWeight] = await target.inEverySetting(async (device) => {
          const [, invRms] = await forward(device, x, data);
          return [...(await backward(device, x, data, invRms, { accumulate }))];
        });
        const expected = reference.rmsNormBackward(data.x, data.weight, data.dOut, rows, dim, eps);
        const old = (i: number) => (accumulate ? data.dX[i]! : 0);
        const sum = (from: (i: number) => number, value: Float64Array) => value.map((d, i) => d + from(i));
        expectClose(
          dX!,
          sum(old, expected.dX.value),
          sum((i) => 1e-6 + 1e-6 * Math.abs(old(i)), expected.dX.bound),
          "dX",
        );
        const before = (i: number) => data.dWeight[i]!;
        const limit = sum((i) => 1e-6 * rows * Math.abs(before(i)), expected.dWeight.bound);
        expectClose(dWeight!, sum(before, expected.dWeight.value), limit, "dWeight");

        if (rows * dim > 200) return;
        const loss = (values: ArrayLike<number>, weight: ArrayLike<number>) =>
          reference.rmsNorm(values, weight, rows, dim, eps).out.value.reduce((a, y, i) => a + y * data.dOut[i]!, 0);
        const byX = finiteDifferences((values) => loss(values, data.weight), data.x);
        const byWeight = finiteDifferences((weight) => loss(data.x, weight), data.weight);
        const scale = 1e-5 * (1 + Math.max(...byX.map(Math.abs)));
        expectClose(dX!, sum(old, byX), scale, "dX by differences");
        expectClose(dWeight!, sum(before, byWeight), 1e-5 * (rows + 1), "dWeight by differences");
      }),
      target.runs(40),
    );
  });

  it("gives a row the same bits alone as among others, and dWeight the same in one call as in two", async () => {
    await fc.assert(
      fc.asyncProperty(caseOf, fc.nat(), (x, n) =>
        target.withDevice(async (device) => {
          const data = inputs(x);
          const { rows, dim } = x;
          const cut = n % (rows + 1);
          const [out, invRms] = await forward(device, x, data);
          const [dX, dWeight] = await backward(device, x, data, invRms);

          const upper = { ...x, rows: cut };
          const lower = { ...x, rows: rows - cut };
          const upperData = slice(data, dim, 0, cut);
          const lowerData = slice(data, dim, cut, rows);
          const [lowerOut] = await forward(device, lower, lowerData);
          expectSameBits(lowerOut, out.slice(cut * dim), "rows behind the cut");
          const [upperDX, middle] = await backward(device, upper, upperData, invRms.slice(0, cut));
          const [lowerDX, last] = await backward(device, lower, { ...lowerData, dWeight: middle }, invRms.slice(cut));
          expectSameBits(upperDX, dX.slice(0, cut * dim), "dX before the cut");
          expectSameBits(lowerDX, dX.slice(cut * dim), "dX behind the cut");
          expectSameBits(last, dWeight, "dWeight");
        }),
      ),
      target.runs(30),
    );
  });

  it("computes dX alone, to the same bits, where there is no dWeight", async () => {
    // Heads of queries as rows, too: normalised by themselves as Qwen3 does.
    for (const x of [
      { rows: 37, dim: 129, eps: 1e-6, seed: 6 },
      { rows: 500, dim: 64, eps: 1e-6, seed: 7 },
      { rows: 90, dim: 128, eps: 1e-6, seed: 8 },
    ]) {
      const data = inputs(x);
      const [dX, dWeight, alone, untouched] = await target.inEverySetting(async (device) => {
        const [, invRms] = await forward(device, x, data);
        const both = await backward(device, x, data, invRms);
        return [...both, ...(await backward(device, x, data, invRms, { frozen: true }))];
      });
      expectSameBits(alone!, dX!, "dX");
      expectSameBits(untouched!, data.dWeight, "dWeight");
      const expected = reference.rmsNormBackward(data.x, data.weight, data.dOut, x.rows, x.dim, x.eps);
      const limit = expected.dWeight.bound.map((bound, i) => bound + 1e-6 * x.rows * Math.abs(data.dWeight[i]!));
      const sum = expected.dWeight.value.map((value, i) => value + data.dWeight[i]!);
      expectClose(dWeight!, sum, limit, "dWeight of the trained weight");
    }
  });

  it("may write dX over dOut", async () => {
    const x = { rows: 37, dim: 129, eps: 1e-6, seed: 5 };
    const data = inputs(x);
    await target.withDevice(async (device) => {
      const [, invRms] = await forward(device, x, data);
      const apart = await backward(device, x, data, invRms);
      const inPlace = await backward(device, x, data, invRms, { inPlace: true });
      for (const i of [0, 1] as const) expectSameBits(inPlace[i], apart[i], i === 0 ? "dX" : "dWeight");
    });
  });
});
