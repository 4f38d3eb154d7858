import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Device } from "../../src/device/device.ts";
import { NativeDevice } from "../../src/device/native.ts";
import * as reference from "./reference-linear.ts";
import {
  expectClose,
  expectSameBits,
  finiteDifferences,
  generator,
  onEveryDevice,
  randomF32,
  randomU32,
  upload,
} from "./support.ts";

interface Case extends reference.HeadCase {
  hidden: Float32Array;
  weight: Float32Array;
  targets: Uint32Array;
  temperatures: Float32Array;
  dLogProbs: Float32Array;
  dEntropies: Float32Array;
}

function makeCase(rows: number, dim: number, vocab: number, tied: boolean, seed: number): Case {
  const next = generator(seed + 50);
  return {
    rows,
    dim,
    vocab,
    tied,
    hidden: randomF32(rows * dim, seed, 2),
    weight: randomF32(vocab * dim, seed + 1, 1),
    targets: randomU32(rows, seed + 2, vocab),
    temperatures: Float32Array.from({ length: rows }, () => [1, 0.7, 1.3][Math.floor(3 * next())]!),
    dLogProbs: randomF32(rows, seed + 3),
    dEntropies: randomF32(rows, seed + 4),
  };
}

/** Uploads what every head operator takes. */
function shape(device: Device, x: Case) {
  const { rows, dim, vocab, tied } = x;
  return { hidden: upload(device, x.hidden), weight: upload(device, x.weight), tied, rows, dim, vocab };
}

async function forward(device: Device, x: Case): Promise<Float32Array[]> {
  const [logProbs, entropies, lse] = [device.alloc(x.rows), device.alloc(x.rows), device.alloc(x.rows)];
  const targets = upload(device, x.targets);
  const temperatures = upload(device, x.temperatures);
  device.headLogProb({ ...shape(device, x), targets, temperatures, logProbs, entropies, lse });
  return [await device.readF32(logProbs), await device.readF32(entropies), await device.readF32(lse)];
}

/** dHidden, and where it starts from something dWeight. */
async function backward(device: Device, x: Case, dWeightStart?: Float32Array): Promise<Float32Array[]> {
  const [, entropies, lse] = await forward(device, x);
  // dHidden is overwritten: what it held must not matter.
  const dHidden = upload(device, new Float32Array(x.rows * x.dim).fill(7));
  const dWeight = dWeightStart === undefined ? undefined : upload(device, dWeightStart);
  device.headBackward({
    ...shape(device, x),
    targets: upload(device, x.targets),
    temperatures: upload(device, x.temperatures),
    lse: upload(device, lse!),
    entropies: upload(device, entropies!),
    dLogProbs: upload(device, x.dLogProbs),
    dEntropies: upload(device, x.dEntropies),
    dHidden,
    ...(dWeight && { dWeight }),
  });
  return [await device.readF32(dHidden), ...(dWeight === undefined ? [] : [await device.readF32(dWeight)])];
}

/** Greedy-free sampling with nothing cut. */
async function sample(device: Device, x: Case, seeds: Uint32Array) {
  const tokens = device.alloc(x.rows, "u32");
  const [logProbs, keptMass] = [device.alloc(x.rows), device.alloc(x.rows)];
  device.headSample({
    ...shape(device, x),
    temperatures: upload(device, x.temperatures),
    topK: device.alloc(x.rows, "u32"),
    topP: upload(device, new Float32Array(x.rows).fill(1)),
    minP: device.alloc(x.rows),
    seeds: upload(device, seeds),
    tokens,
    logProbs,
    keptMass,
  });
  return {
    tokens: await device.readU32(tokens),
    logProbs: await device.readF32(logProbs),
    keptMass: await device.readF32(keptMass),
  };
}

/** The rows [from, to) of a case. */
function rowsOf(x: Case, from: number, to: number): Case {
  return {
    ...x,
    rows: to - from,
    hidden: x.hidden.slice(from * x.dim, to * x.dim),
    targets: x.targets.slice(from, to),
    temperatures: x.temperatures.slice(from, to),
    dLogProbs: x.dLogProbs.slice(from, to),
    dEntropies: x.dEntropies.slice(from, to),
  };
}

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

onEveryDevice("headLogProb", (target) => {
  it("gives log-probability, entropy and log-sum-exp of float64, to the same bits in every setting", async () => {
    await fc.assert(
      fc.asyncProperty(cases, async (x) => {
        const [logProbs, entropies, lse] = await target.inEverySetting((device) => forward(device, x));
        const expected = reference.headLogProb(x, x.targets, x.temperatures);
        expectClose(lse!, expected.lse, 2e-5, "lse");
        expectClose(logProbs!, expected.logProbs, 4e-5, "logProbs");
        expectClose(entropies!, expected.entropies, 4e-5, "entropies");
      }),
      target.runs(40),
    );
  });

  it("stands logits far from 0 and a vocabulary of one", async () => {
    const x = makeCase(4, 8, 600, true, 3);
    x.hidden = x.hidden.map((v) => 100 * v);
    const [logProbs, entropies] = await target.inEverySetting((device) => forward(device, x));
    const expected = reference.headLogProb(x, x.targets, x.temperatures);
    const size = Math.max(...expected.logProbs.map(Math.abs));
    expectClose(logProbs!, expected.logProbs, 1e-5 * size, "logProbs");
    expectClose(entropies!, expected.entropies, 2e-4, "entropies");
    const [one] = await target.inEverySetting((device) => forward(device, makeCase(3, 5, 1, false, 4)));
    expectClose(one!, [0, 0, 0], 1e-6, "the only token");
  });

  it("gives a row the same bits in any batch", async () => {
    await target.withDevice(async (device) => {
      const x = makeCase(700, 16, 1100, true, 11);
      const whole = await forward(device, x);
      for (const [from, to] of [
        [0, 1],
        [3, 20],
        [511, 514],
        [600, 700],
      ] as const) {
        const some = await forward(device, rowsOf(x, from, to));
        some.forEach(
          (values, i) => void expectSameBits(values, whole[i]!.slice(from, to), `output ${i}, rows from ${from}`),
        );
      }
    });
  });

  it("agrees to the bit with headSample for the token that was sampled", async () => {
    await fc.assert(
      fc.asyncProperty(cases, fc.nat(1e6), async (x, seed) => {
        const seeds = randomU32(4 * x.rows, seed, 2 ** 32);
        const [tokens, logProbs, again] = await target.inEverySetting(async (device) => {
          const sampled = await sample(device, x, seeds);
          const [recomputed] = await forward(device, { ...x, targets: sampled.tokens });
          return [sampled.tokens, sampled.logProbs, recomputed!];
        });
        expectSameBits(logProbs!, again as Float32Array, "log-probabilities");
        expect(tokens!.every((token) => token < x.vocab)).toBe(true);
      }),
      target.runs(40),
    );
  });
});

onEveryDevice("headBackward", (target) => {
  it("agrees with the float64 gradient and adds to dWeight, to the same bits in every setting", async () => {
    await fc.assert(
      fc.asyncProperty(cases, async (x) => {
        const start = randomF32(x.vocab * x.dim, 77, 0.1);
        const [dHidden, dWeight] = await target.inEverySetting((device) => backward(device, x, start));
        const expected = reference.headBackward(x, x.targets, x.temperatures, x.dLogProbs, x.dEntropies);
        expectClose(dHidden!, expected.dHidden, 1e-4, "dHidden");
        expectClose(
          dWeight!,
          expected.dWeight.map((value, i) => value + start[i]!),
          1e-4,
          "dWeight",
        );
      }),
      target.runs(40),
    );
  });

  it("agrees with finite differences of log-probability and entropy", async () => {
    const small = fc.record({
      rows: fc.integer({ min: 1, max: 4 }),
      dim: fc.integer({ min: 1, max: 6 }),
      vocab: fc.integer({ min: 2, max: 20 }),
      tied: fc.boolean(),
      seed: fc.nat(1e6),
    });
    await fc.assert(
      fc.asyncProperty(small, async ({ rows, dim, vocab, tied, seed }) => {
        const x = makeCase(rows, dim, vocab, tied, seed);
        const [dHidden, dWeight] = await target.inEverySetting((device) =>
          backward(device, x, new Float32Array(vocab * dim)),
        );
        const loss = (part: Partial<reference.HeadCase>) =>
          reference.headLoss({ ...x, ...part }, x.targets, x.temperatures, x.dLogProbs, x.dEntropies);
        expectClose(
          dHidden!,
          finiteDifferences((hidden) => loss({ hidden }), x.hidden),
          2e-5,
          "dHidden",
        );
        expectClose(
          dWeight!,
          finiteDifferences((weight) => loss({ weight }), x.weight),
          2e-5,
          "dWeight",
        );
      }),
      target.runs(20),
    );
  });

  it("gives dHidden alone, to the same bits, where there is no dWeight", async () => {
    for (const tied of [true, false]) {
      const x = makeCase(target.kind === "native" ? 600 : 70, 20, 530, tied, 22);
      const [dHidden, alone] = await target.inEverySetting(async (device) => [
        (await backward(device, x, new Float32Array(x.vocab * x.dim)))[0]!,
        (await backward(device, x))[0]!,
      ]);
      expectSameBits(alone!, dHidden!, "dHidden");
    }
  });

  it("accumulates rows in ascending order: two calls are one call of both", async () => {
    await target.withDevice(async (device) => {
      for (const tied of [true, false]) {
        const x = makeCase(600, 20, 530, tied, 21);
        const zero = new Float32Array(x.vocab * x.dim);
        const [dHidden, dWeight] = await backward(device, x, zero);
        const [firstHidden, firstWeight] = await backward(device, rowsOf(x, 0, 77), zero);
        const [restHidden, restWeight] = await backward(device, rowsOf(x, 77, 600), firstWeight!);
        expectSameBits(restWeight!, dWeight!, "dWeight");
        expectSameBits(firstHidden!, dHidden!.slice(0, 77 * x.dim), "dHidden, first rows");
        expectSameBits(restHidden!, dHidden!.slice(77 * x.dim), "dHidden, other rows");
      }
    });
  });
});

onEveryDevice("The head over a vocabulary of a real model", (target) => {
  // Llama 3, and Qwen2.5 without the padding of its table.
  it.each([128_256, 151_665])("scores, samples and differentiates: %i", async (vocab) => {
    const x = makeCase(3, 4, vocab, vocab % 2 === 0, 31);
    x.targets.set([0, vocab - 1, 4095]);
    const seeds = randomU32(4 * x.rows, 5, 2 ** 32);
    const [logProbs, entropies, lse, dHidden, tokens, sampled, again] = await target.inEverySetting(async (device) => {
      const drawn = await sample(device, x, seeds);
      const [recomputed] = await forward(device, { ...x, targets: drawn.tokens });
      const [gradient] = await backward(device, x);
      return [...(await forward(device, x)), gradient!, drawn.tokens, drawn.logProbs, recomputed!];
    });
    const expected = reference.headLogProb(x, x.targets, x.temperatures);
    expectClose(lse!, expected.lse, 2e-5, "lse");
    expectClose(logProbs!, expected.logProbs, 4e-5, "logProbs");
    expectClose(entropies!, expected.entropies, 1e-4, "entropies");
    const gradient = reference.headBackward(x, x.targets, x.temperatures, x.dLogProbs, x.dEntropies);
    expectClose(dHidden!, gradient.dHidden, 1e-4, "dHidden");
    expectSameBits(sampled!, again as Float32Array, "log-probabilities of what was sampled");
    expect(tokens!.every((token) => token < vocab)).toBe(true);
  });
});

describe("headLogProb of the native device", () => {
  it("rejects a target outside the vocabulary and a temperature of 0", async () => {
    const device = new NativeDevice({ threads: 1 });
    const x = makeCase(3, 4, 10, true, 1);
    x.targets[1] = 10;
    await expect(forward(device, x)).rejects.toThrow(
      /headLogProb: argument targets\[1\].*\n.*\n.*10\n.*below vocab 10/,
    );
    x.targets[1] = 9;
    x.temperatures[2] = 0;
    await expect(forward(device, x)).rejects.toThrow(/temperatures\[2\]/);
    device.destroy();
  });
});
