import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { addon } from "../../src/device/addon.ts";
import type { Device } from "../../src/device/device.ts";
import { type Cut, keptSet, softmax } from "./reference-linear.ts";
import { expectClose, generator, onEveryDevice, randomU32, upload } from "./support.ts";

interface Draw extends Cut {
  temperature: number;
}

/** One draw per line of seeds from given logits: the weight holds them, and hidden is the number 1. */
async function draw(device: Device, logits: Float32Array, x: Draw, seeds: Uint32Array) {
  const rows = seeds.length / 4;
  const vocab = logits.length;
  const tokens = device.alloc(rows, "u32");
  const [logProbs, keptMass] = [device.alloc(rows), device.alloc(rows)];
  const each = (value: number) => upload(device, new Float32Array(rows).fill(value));
  device.headSample({
    hidden: each(1),
    weight: upload(device, logits),
    tied: true,
    rows,
    dim: 1,
    vocab,
    temperatures: each(x.temperature),
    topK: upload(device, new Uint32Array(rows).fill(x.topK)),
    topP: each(x.topP),
    minP: each(x.minP),
    seeds: upload(device, seeds),
    tokens,
    logProbs,
    keptMass,
  });
  return [await device.readU32(tokens), await device.readF32(logProbs), await device.readF32(keptMass)] as const;
}

/** Counters 0, 1, 2 ... under one key. */
function counters(rows: number, key: number): Uint32Array {
  const seeds = new Uint32Array(4 * rows);
  for (let r = 0; r < rows; r++) seeds.set([r, 0, 0, key], 4 * r);
  return seeds;
}

const off: Draw = { temperature: 1, topK: 0, topP: 1, minP: 0 };

/** Logits without near ties, so that float32 and float64 order them alike: a shuffled ladder. */
function ladder(vocab: number, seed: number, step: number): Float32Array {
  const next = generator(seed);
  const order = Array.from({ length: vocab }, (_, i) => i);
  for (let i = vocab - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return Float32Array.from(order, (place) => -step * place);
}

function probabilities(logits: Float32Array, temperature: number): Float64Array {
  return softmax(Float64Array.from(logits, (z) => z / temperature)).p;
}

/** Pearson's statistic over cells of expected count >= 5, and its cell count less one. */
function chiSquare(tokens: Uint32Array, p: ArrayLike<number>): { statistic: number; freedom: number } {
  const counts = new Float64Array(p.length);
  for (const token of tokens) counts[token]!++;
  let [statistic, cells, restCount, restExpected] = [0, 0, 0, 0];
  for (let i = 0; i < p.length; i++) {
    const expected = p[i]! * tokens.length;
    if (expected < 5) {
      restCount += counts[i]!;
      restExpected += expected;
    } else {
      statistic += (counts[i]! - expected) ** 2 / expected;
      cells++;
    }
  }
  if (restExpected >= 5) {
    statistic += (restCount - restExpected) ** 2 / restExpected;
    cells++;
  }
  return { statistic, freedom: cells - 1 };
}

describe("random numbers of the native device", () => {
  it("are Philox 4x32-10: the known answers of Random123 (kat_vectors)", () => {
    expect(addon.philox(0, 0, 0, 0, 0, 0)).toEqual([0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    const ones = 0xffffffff;
    expect(addon.philox(ones, ones, ones, ones, ones, ones)).toEqual([0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
    expect(addon.philox(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0)).toEqual([
      0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1,
    ]);
  });
});

onEveryDevice("random numbers", (target) => {
  it("choose by inverse transform in ascending ids: the first word / 2^32 against the running sum", async () => {
    const logits = Float32Array.from([0.5, -1, 2, 0, 1]);
    const p = probabilities(logits, 1);
    const seeds = randomU32(4 * 500, 9, 2 ** 32);
    const [tokens] = await target.inEverySetting(async (device) => [...(await draw(device, logits, off, seeds))]);
    for (let r = 0; r < 500; r++) {
      const [c0, c1, c2, key] = seeds.slice(4 * r, 4 * r + 4) as unknown as [number, number, number, number];
      const u = addon.philox(c0, c1, c2, 0, key, 0)[0]! / 2 ** 32;
      let sum = 0;
      const edges = Array.from(p, (x) => (sum += x));
      if (edges.some((edge) => Math.abs(edge - u) < 1e-6)) continue;
      expect(tokens![r]).toBe(edges.findIndex((edge) => edge > u));
    }
  });
});

onEveryDevice("headSample", (target) => {
  it("draws with the exact probabilities, cut or not (chi-square at 5 standard deviations)", async () => {
    await target.withDevice(async (device) => {
      const settings: Draw[] = [
        off,
        { ...off, temperature: 0.6 },
        { ...off, topK: 7 },
        { ...off, topP: 0.8 },
        { ...off, minP: 0.1 },
        { temperature: 1.4, topK: 20, topP: 0.9, minP: 0.02 },
      ];
      // Software adapters draw a thousand times slower.
      const draws = target.kind === "native" ? 20_000 : 1_000;
      for (const [i, x] of settings.entries()) {
        const logits = ladder(60, i, 0.11);
        const p = probabilities(logits, x.temperature);
        const kept = new Set(keptSet(p, x));
        const mass = [...kept].reduce((sum, id) => sum + p[id]!, 0);
        const [tokens, logProbs, keptMass] = await draw(device, logits, x, counters(draws, i));
        const { statistic, freedom } = chiSquare(
          tokens,
          Array.from(p, (value, id) => (kept.has(id) ? value / mass : 0)),
        );
        expect(statistic, JSON.stringify(x)).toBeLessThan(freedom + 5 * Math.sqrt(2 * freedom));
        expect(tokens.every((token) => kept.has(token))).toBe(true);
        // log-probabilities are of the whole vocabulary, whatever was cut.
        expectClose(
          logProbs,
          Array.from(tokens, (token) => Math.log(p[token]!)),
          1e-5,
          "logProbs",
        );
        const cut = x.topK > 0 || x.topP < 1 || x.minP > 0;
        expectClose(keptMass, new Float64Array(draws).fill(cut ? mass : 1), 1e-5, "keptMass");
      }
    });
  });

  it("keeps exactly the set that top-k, top-p and min-p leave, in every setting", async () => {
    const cuts = fc.record({
      vocab: fc.constantFrom(1, 2, 5, 40, 65, 300, 520),
      step: fc.constantFrom(0.005, 0.05, 0.3),
      temperature: fc.constantFrom(0.5, 1, 2),
      topK: fc.constantFrom(0, 1, 2, 10, 64, 65, 1000),
      topP: fc.constantFrom(1, 0.01, 0.5, 0.9, 0.99),
      minP: fc.constantFrom(0, 0.01, 0.5, 1),
      seed: fc.nat(1e6),
    });
    await fc.assert(
      fc.asyncProperty(cuts, async ({ vocab, step, seed, ...x }) => {
        const logits = ladder(vocab, seed, step);
        const p = probabilities(logits, x.temperature);
        const kept = keptSet(p, x);
        const mass = kept.reduce((sum, id) => sum + p[id]!, 0);
        const [tokens, , keptMass] = await target.inEverySetting(async (device) => [
          ...(await draw(device, logits, x, counters(64, seed))),
        ]);
        const set = new Set(kept);
        expect(Array.from(tokens!).filter((token) => !set.has(token))).toEqual([]);
        const cut = (x.topK > 0 && x.topK < vocab) || x.topP < 1 || x.minP > 0;
        expectClose(keptMass!, new Float64Array(64).fill(cut ? mass : 1), 1e-5, "keptMass");
      }),
      target.runs(60),
    );
  });

  it("cuts and draws over a vocabulary of a real model", async () => {
    const vocab = 151_665;
    const logits = ladder(vocab, 8, 1e-4);
    const x: Draw = { temperature: 0.9, topK: 40_000, topP: 0.95, minP: 0.001 };
    const p = probabilities(logits, x.temperature);
    const kept = new Set(keptSet(p, x));
    const mass = [...kept].reduce((sum, id) => sum + p[id]!, 0);
    const [tokens, logProbs, keptMass] = await target.inEverySetting(async (device) => [
      ...(await draw(device, logits, x, counters(8, 21))),
    ]);
    expect(Array.from(tokens!).filter((token) => !kept.has(token))).toEqual([]);
    expectClose(
      logProbs!,
      Array.from(tokens!, (token) => Math.log(p[token]!)),
      1e-4,
      "logProbs",
    );
    expectClose(keptMass!, new Float64Array(8).fill(mass), 1e-4, "keptMass");
  });

  it("takes lower ids first on a tie", async () => {
    const logits = Float32Array.from([1, 3, 3, 3, 2]);
    const [topTwo, , mass, greedy] = await target.inEverySetting(async (device) => [
      ...(await draw(device, logits, { ...off, topK: 2 }, counters(200, 1))),
      (await draw(device, logits, { ...off, temperature: 0 }, counters(1, 1)))[0],
    ]);
    expect(new Set(topTwo)).toEqual(new Set([1, 2]));
    const p = probabilities(logits, 1);
    expect(mass![0]).toBeCloseTo(p[1]! + p[2]!, 6);
    expect(greedy![0]).toBe(1);
  });

  it("at temperature 0 gives the arg-max with its log-probability at temperature 1", async () => {
    const logits = ladder(700, 5, 0.01);
    const best = logits.indexOf(Math.max(...logits));
    const [tokens, logProbs, mass] = await target.inEverySetting(async (device) => [
      ...(await draw(device, logits, { ...off, temperature: 0 }, counters(20, 3))),
    ]);
    expect(Array.from(tokens!)).toEqual(new Array(20).fill(best));
    expectClose(logProbs!, new Float64Array(20).fill(Math.log(probabilities(logits, 1)[best]!)), 1e-5, "logProbs");
    expect(Array.from(mass!)).toEqual(new Array(20).fill(1));
  });
});
