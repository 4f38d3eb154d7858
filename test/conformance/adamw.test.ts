import fc from "fast-check";
import { expect, it } from "vitest";
import * as reference from "./reference-linear.ts";
import { expectClose, expectSameBits, onEveryDevice, randomF32, upload } from "./support.ts";

const lengths = fc.oneof(fc.integer({ min: 1, max: 70 }), fc.constantFrom(4095, 4096, 4097, 20_001));

onEveryDevice("adamw", (target) => {
  it("agrees with float64 over several steps, in place and into another tensor", async () => {
    const settings = fc.record({
      lr: fc.constantFrom(0, 1e-3, 0.1),
      beta1: fc.constantFrom(0, 0.9),
      beta2: fc.constantFrom(0.95, 0.999),
      eps: fc.constantFrom(1e-8, 1e-5),
      weightDecay: fc.constantFrom(0, 0.1),
      step: fc.constantFrom(1, 2, 1000),
      gradScale: fc.constantFrom(1, 0.25),
    });
    await fc.assert(
      fc.asyncProperty(lengths, fc.nat(1e6), settings, async (length, seed, s) => {
        const [param, grad, m] = [
          randomF32(length, seed),
          randomF32(length, seed + 1),
          randomF32(length, seed + 2, 0.1),
        ];
        // v from gradients like these: no smaller than m suggests.
        const v = randomF32(length, seed + 3).map((x) => 0.02 + 0.1 * x * x);
        const [out, newM, newV, inPlace, untouched] = await target.inEverySetting(async (device) => {
          const tensors = { grad: upload(device, grad), m: upload(device, m), v: upload(device, v) };
          const [from, to] = [upload(device, param), device.alloc(length)];
          device.adamw({ ...tensors, param: from, out: to, length, ...s });
          const here = upload(device, param);
          device.adamw({
            ...tensors,
            m: upload(device, m),
            v: upload(device, v),
            param: here,
            out: here,
            length,
            ...s,
          });
          return Promise.all([to, tensors.m, tensors.v, here, from].map((tensor) => device.readF32(tensor)));
        });
        const expected = reference.adamw(param, grad, m, v, s);
        expectClose(out!, expected.out, 1e-6, "out");
        expectClose(newM!, expected.m, 1e-6, "m");
        expectClose(newV!, expected.v, 1e-6, "v");
        expectSameBits(inPlace!, out!, "in place");
        expectSameBits(untouched!, param, "param");
        if (s.lr === 0) expectSameBits(out!, param, "learning rate 0");
      }),
      target.runs(40),
    );
  });

  it("moves by the learning rate against the sign of the gradient in the first step", async () => {
    const [out] = await target.inEverySetting(async (device) => {
      const [m, v, to] = [device.alloc(3), device.alloc(3), device.alloc(3)];
      const grad = upload(device, Float32Array.of(5, -0.001, 0));
      const param = upload(device, Float32Array.of(1, 1, 1));
      const s = { lr: 0.5, beta1: 0.9, beta2: 0.999, eps: 1e-12, weightDecay: 0, step: 1, gradScale: 1 };
      device.adamw({ param, out: to, grad, m, v, length: 3, ...s });
      return [await device.readF32(to)];
    });
    expectClose(out!, [0.5, 1.5, 1], 1e-5, "out");
  });
});

onEveryDevice("sumSquares", (target) => {
  it("agrees with float64 to 1e-6, and to the bit in every setting", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(lengths, fc.constant(300_000)), fc.nat(1e6), async (length, seed) => {
        const x = randomF32(length + 5, seed, 3);
        const [got] = await target.inEverySetting(async (device) => [
          Float32Array.of(await device.sumSquares(upload(device, x), length)),
        ]);
        const expected = x.subarray(0, length).reduce((sum, value) => sum + value * value, 0);
        expect(Math.abs(got![0]! - expected)).toBeLessThanOrEqual(1e-6 * expected);
      }),
      target.runs(20),
    );
  });

  it("rejects more elements than there are", async () => {
    await target.withDevice(async (device) => {
      await expect(device.sumSquares(device.alloc(4), 5)).rejects.toThrow(/sumSquares.*tensor.*at least 5/s);
    });
  });
});
