import fc from "fast-check";
import { it } from "vitest";
import type { Device } from "../../src/device/device.ts";
import * as reference from "./reference-linear.ts";
import { expectClose, expectSameBits, finiteDifferences, onEveryDevice, randomF32, upload } from "./support.ts";

const lengths = fc.oneof(fc.integer({ min: 1, max: 70 }), fc.constantFrom(2047, 2048, 2049, 8193, 20_000));

onEveryDevice("add", (target) => {
  it("is float32 addition, also in place", async () => {
    await fc.assert(
      fc.asyncProperty(lengths, fc.nat(1e6), async (length, seed) => {
        const a = randomF32(length, seed, 10);
        const b = randomF32(length, seed + 1, 10);
        const [out, inPlace] = await target.inEverySetting(async (device) => {
          const [ta, tb, to] = [upload(device, a), upload(device, b), device.alloc(length)];
          device.add({ a: ta, b: tb, out: to, length });
          device.add({ a: ta, b: tb, out: tb, length });
          return [await device.readF32(to), await device.readF32(tb)];
        });
        const expected = a.map((x, i) => Math.fround(x + b[i]!));
        expectSameBits(out!, expected, "out");
        expectSameBits(inPlace!, expected, "in place");
      }),
      target.runs(30),
    );
  });
});

onEveryDevice("scale", (target) => {
  it("is float32 multiplication by the factor as a float32, also in place", async () => {
    await fc.assert(
      fc.asyncProperty(lengths, fc.nat(1e6), fc.constantFrom(0, -1, 0.1, 2.5, 1 / 3), async (length, seed, factor) => {
        const x = randomF32(length + 1, seed, 10);
        const [out, inPlace] = await target.inEverySetting(async (device) => {
          const [from, to] = [upload(device, x), upload(device, x)];
          device.scale({ x: from, out: to, factor, length });
          device.scale({ x: from, out: from, factor, length });
          return [await device.readF32(to), await device.readF32(from)];
        });
        // What lies behind the length is left alone.
        const expected = x.map((value, i) => (i < length ? value * Math.fround(factor) : value));
        expectSameBits(out!, expected, "out");
        expectSameBits(inPlace!, expected, "in place");
      }),
      target.runs(20),
    );
  });
});

onEveryDevice("swiglu", (target) => {
  it("agrees with float64, from the flat to the steep end of the sigmoid", async () => {
    await fc.assert(
      fc.asyncProperty(lengths, fc.nat(1e6), fc.constantFrom(1, 10, 100), async (length, seed, scale) => {
        const gate = randomF32(length, seed, scale);
        const up = randomF32(length, seed + 1, 2);
        const [out] = await target.inEverySetting(async (device) => {
          const to = device.alloc(length);
          device.swiglu({ gate: upload(device, gate), up: upload(device, up), out: to, length });
          return [await device.readF32(to)];
        });
        const expected = reference.swiglu(gate, up);
        // A few roundings of each factor and the error of exp; below 2^-120 float32 runs out of exponents.
        expectClose(
          out!,
          expected,
          expected.map((x, i) => (8 * 2 ** -24 + target.expError(gate[i]!)) * Math.abs(x) + 4e-36),
          "out",
        );
      }),
      target.runs(30),
    );
  });

  it("has the gradient of finite differences", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 50 }), fc.nat(1e6), async (length, seed) => {
        const [gate, up, dOut] = [
          randomF32(length, seed, 4),
          randomF32(length, seed + 1, 2),
          randomF32(length, seed + 2),
        ];
        const [dGate, dUp] = await target.inEverySetting(async (device) => {
          const [tGate, tUp] = [device.alloc(length), device.alloc(length)];
          device.swigluBackward({
            gate: upload(device, gate),
            up: upload(device, up),
            dOut: upload(device, dOut),
            dGate: tGate,
            dUp: tUp,
            length,
          });
          return [await device.readF32(tGate), await device.readF32(tUp)];
        });
        const loss = (g: ArrayLike<number>, u: ArrayLike<number>) =>
          reference.swiglu(g, u).reduce((sum, value, i) => sum + dOut[i]! * value, 0);
        expectClose(
          dGate!,
          finiteDifferences((g) => loss(g, up), gate),
          5e-6,
          "dGate",
        );
        expectClose(
          dUp!,
          finiteDifferences((u) => loss(gate, u), up),
          5e-6,
          "dUp",
        );
      }),
      target.runs(30),
    );
  });

  it("gives an element the same bits wherever it lies", async () => {
    const [gate, up] = [randomF32(5000, 1, 5), randomF32(5000, 2, 5)];
    const run = async (device: Device, from: number, to: number) => {
      const out = device.alloc(to - from);
      const part = { gate: upload(device, gate.slice(from, to)), up: upload(device, up.slice(from, to)) };
      device.swiglu({ ...part, out, length: to - from });
      return device.readF32(out);
    };
    await target.withDevice(async (device) => {
      const whole = await run(device, 0, 5000);
      for (const [from, to] of [
        [0, 1],
        [7, 30],
        [4090, 4999],
      ] as const) {
        expectSameBits(await run(device, from, to), whole.slice(from, to), `${from} to ${to}`);
      }
    });
  });
});
