/** Scoring and its gradient: against float64, and to the bit across all ways to cut the work into pieces. */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { WebGpuDevice } from "../../../src/device/webgpu/webgpu-device.ts";
import * as reference from "../../conformance/reference-linear.ts";
import { expectClose, expectSameBits, finiteDifferences, randomF32, upload } from "../../conformance/support.ts";
import { onEveryAdapter } from "./adapters.ts";
import { backward, forward, makeCase, rowsOf, withBindingLimit } from "./head-case.ts";

const cases = fc
  .record({
    rows: fc.integer({ min: 1, max: 20 }),
    dim: fc.integer({ min: 1, max: 24 }),
    // Around one and two chunks of the vocabulary as well.
    vocab: fc.oneof(fc.integer({ min: 1, max: 70 }), fc.constantFrom(511, 512, 513, 528, 1025)),
    tied: fc.boolean(),
    seed: fc.nat(1e6),
  })
  .map((x) => makeCase(x.rows, x.dim, x.vocab, x.tied, x.seed));

/** One chunk at a time. */
const leastBudget = 1;

function expectAllSameBits(got: Float32Array[], expected: Float32Array[], label: string): void {
  got.forEach((values, i) => void expectSameBits(values, expected[i]!, `${label}, output ${i}`));
}

onEveryAdapter("headLogProb", (device) => {
  it("gives log-probability, entropy and log-sum-exp of float64", async () => {
    const check = fc.asyncProperty(cases, async (x) => {
      const [logProbs, entropies, lse] = await forward(device(), x);
      const expected = reference.headLogProb(x, x.targets, x.temperatures);
      expectClose(lse!, expected.lse, 2e-5, "lse");
      expectClose(logProbs!, expected.logProbs, 4e-5, "logProbs");
      expectClose(entropies!, expected.entropies, 4e-5, "entropies");
    });
    await fc.assert(check, { numRuns: 20 });
  });

  it("stands logits far from 0 and a vocabulary of one", async () => {
    const x = makeCase(4, 8, 600, true, 3);
    x.hidden = x.hidden.map((value) => 100 * value);
    const [logProbs, entropies] = await forward(device(), x);
    const expected = reference.headLogProb(x, x.targets, x.temperatures);
    const size = Math.max(...expected.logProbs.map(Math.abs));
    expectClose(logProbs!, expected.logProbs, 1e-5 * size, "logProbs");
    expectClose(entropies!, expected.entropies, 2e-4, "entropies");
    const [one, none] = await forward(device(), makeCase(3, 5, 1, false, 4));
    expectClose(one!, [0, 0, 0], 1e-6, "log-probability of the only token");
    expectClose(none!, [0, 0, 0], 1e-6, "entropy of one token");
  });

  it("gives a row the same bits in any batch, across blocks of rows", async () => {
    const x = makeCase(1100, 4, 520, true, 11);
    const whole = await forward(device(), x);
    for (const [from, to] of [
      [0, 1],
      [3, 20],
      [1000, 1100],
    ] as const) {
      const expected = whole.map((values) => values.slice(from, to));
      expectAllSameBits(await forward(device(), rowsOf(x, from, to)), expected, `rows from ${from}`);
    }
  });

  it("refuses tensors that are too short", async () => {
    const x = makeCase(3, 4, 10, true, 1);
    await expect(forward(device(), { ...x, weight: x.weight.slice(1) })).rejects.toThrow(
      /headLogProb, weight.*\n.*39 elements.*\n.*at least 40/,
    );
    await expect(forward(device(), { ...x, targets: x.targets.slice(1) })).rejects.toThrow(/headLogProb, targets/);
  });
});

onEveryAdapter("headBackward", (device) => {
  it("agrees with the float64 gradient and adds to dWeight", async () => {
    const check = fc.asyncProperty(cases, async (x) => {
      const start = randomF32(x.vocab * x.dim, 77, 0.1);
      const [dHidden, dWeight] = await backward(device(), x, start);
      const expected = reference.headBackward(x, x.targets, x.temperatures, x.dLogProbs, x.dEntropies);
      expectClose(dHidden!, expected.dHidden, 1e-4, "dHidden");
      const sum = expected.dWeight.map((value, i) => value + start[i]!);
      expectClose(dWeight!, sum, 1e-4, "dWeight");
    });
    await fc.assert(check, { numRuns: 20 });
  });

  it("agrees with finite differences of log-probability and entropy", async () => {
    for (const tied of [true, false]) {
      const x = makeCase(3, 5, 17, tied, 8);
      const [dHidden, dWeight] = await backward(device(), x);
      const loss = (part: Partial<reference.HeadCase>) =>
        reference.headLoss({ ...x, ...part }, x.targets, x.temperatures, x.dLogProbs, x.dEntropies);
      const byHidden = finiteDifferences((hidden) => loss({ hidden }), x.hidden);
      const byWeight = finiteDifferences((weight) => loss({ weight }), x.weight);
      expectClose(dHidden!, byHidden, 2e-5, "dHidden");
      expectClose(dWeight!, byWeight, 2e-5, "dWeight");
    }
  });

  it("accumulates rows in ascending order: two calls are one call of both", async () => {
    for (const tied of [true, false]) {
      const x = makeCase(150, 12, 530, tied, 21);
      const [dHidden, dWeight] = await backward(device(), x);
      const [firstHidden, firstWeight] = await backward(device(), rowsOf(x, 0, 77));
      const [restHidden, restWeight] = await backward(device(), rowsOf(x, 77, 150), firstWeight!);
      expectSameBits(restWeight!, dWeight!, "dWeight");
      expectSameBits(firstHidden!, dHidden!.slice(0, 77 * x.dim), "dHidden, first rows");
      expectSameBits(restHidden!, dHidden!.slice(77 * x.dim), "dHidden, other rows");
    }
  });
});

onEveryAdapter("the head's pieces", (device) => {
  const both = async (gpu: WebGpuDevice, x: ReturnType<typeof makeCase>, budget?: number) => [
    ...(await forward(gpu, x, budget)),
    ...(await backward(gpu, x, undefined, budget)),
  ];

  for (const tied of [true, false]) {
    const name = tied ? "tied" : "untied";

    it(`leave the bits alone, however many chunks are computed at once (${name})`, async () => {
      const x = makeCase(37, 20, 2100, tied, 5);
      const whole = await both(device(), x);
      for (const budget of [leastBudget, 37 * 1024]) {
        expectAllSameBits(await both(device(), x, budget), whole, `budget ${budget}`);
      }
    });

    it(`leave the bits alone where the weight is worked on in windows (${name})`, async () => {
      const x = makeCase(9, 20, 1130, tied, 6);
      const whole = await both(device(), x);
      // Windows of a few hundred vocabulary entries, or of five features.
      const cut = await withBindingLimit(device(), 6000, () => both(device(), x));
      expectAllSameBits(cut, whole, "in windows");
    });
  }

  it("make no buffer and no bind group once they have run", async () => {
    const { gpu } = device();
    const x = makeCase(5, 8, 1200, true, 9);
    const [targets, temperatures] = [upload(device(), x.targets), upload(device(), x.temperatures)];
    const [hidden, weight] = [upload(device(), x.hidden), upload(device(), x.weight)];
    const [logProbs, entropies, lse] = [0, 0, 0].map(() => device().alloc(5));
    const [dLogProbs, dEntropies] = [upload(device(), x.dLogProbs), upload(device(), x.dEntropies)];
    const [dHidden, dWeight] = [device().alloc(40), device().alloc(9600)];
    const shape = { hidden, weight, tied: true, rows: 5, dim: 8, vocab: 1200, targets, temperatures };
    const outputs = { logProbs: logProbs!, entropies: entropies!, lse: lse! };
    const step = () => {
      device().headLogProb({ ...shape, ...outputs });
      device().headBackward({ ...shape, ...outputs, dLogProbs, dEntropies, dHidden, dWeight });
    };
    step();
    const before = [gpu.buffersCreated, gpu.recorder.bindGroups.created];
    step();
    expect([gpu.buffersCreated, gpu.recorder.bindGroups.created]).toEqual(before);
  });
});
