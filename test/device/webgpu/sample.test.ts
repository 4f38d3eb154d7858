/** Sampling: its random numbers, the sets it keeps, its frequencies, and its agreement with scoring and the native device. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { addon } from "../../../src/device/addon.ts";
import { NativeDevice } from "../../../src/device/native.ts";
import { type Cut, keptSet, scaledLogits, softmax } from "../../conformance/reference-linear.ts";
import { expectClose, expectSameBits, generator, randomU32 } from "../../conformance/support.ts";
import { onEveryAdapter } from "./adapters.ts";
import { caseOfLogits, forward, makeCase, rowsOf, sample, uncut, withBindingLimit } from "./head-case.ts";

/** Counters 0, 1, 2 ... under one key. */
function counters(rows: number, key: number): Uint32Array {
  const seeds = new Uint32Array(4 * rows);
  for (let r = 0; r < rows; r++) seeds.set([r, 0, 0, key], 4 * r);
  return seeds;
}

/** The row's random number: first word of Philox / 2^32, by the native implementation, which has the known answers. */
function uniform(seeds: Uint32Array, row: number): number {
  const [c0, c1, c2, key] = seeds.subarray(4 * row, 4 * row + 4);
  return addon.philox(c0!, c1!, c2!, 0, key!, 0)[0]! / 2 ** 32;
}

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

/** Probabilities within the kept set, 0 outside, and the set's mass. */
function afterCut(p: Float64Array, cut: Cut): { p: Float64Array; mass: number } {
  const kept = new Set(keptSet(p, cut));
  const mass = [...kept].reduce((sum, id) => sum + p[id]!, 0);
  return { p: p.map((value, id) => (kept.has(id) ? value / mass : 0)), mass };
}

function isCut(cut: Cut, vocab: number): boolean {
  return (cut.topK > 0 && cut.topK < vocab) || cut.topP < 1 || cut.minP > 0;
}

/** The token that inverse transform in ascending ids gives; undefined where `u` is too near an edge to tell in float32. */
function tokenAt(p: Float64Array, u: number, tolerance: number): number | undefined {
  let sum = 0;
  for (const [id, value] of p.entries()) {
    sum += value;
    if (Math.abs(sum - u) < tolerance && value > 0) return undefined;
    if (sum > u) return id;
  }
  return undefined;
}

onEveryAdapter("headSample", (device) => {
  it("chooses by inverse transform in ascending ids, and as the native device does", async () => {
    const native = new NativeDevice({ threads: 1 });
    for (const [tied, vocab] of [
      [true, 40],
      [true, 1300],
      [false, 700],
    ] as const) {
      const x = makeCase(120, 6, vocab, tied, vocab);
      const seeds = randomU32(4 * x.rows, 9, 2 ** 32);
      const { tokens, keptMass } = await sample(device(), x, seeds);
      const other = await sample(native, x, seeds);
      let compared = 0;
      for (let r = 0; r < x.rows; r++) {
        const { p } = softmax(scaledLogits(x, r, x.temperatures[r]!));
        const expected = tokenAt(p, uniform(seeds, r), 2e-6);
        if (expected === undefined) continue;
        compared++;
        expect(tokens[r], `row ${r}`).toBe(expected);
        expect(other.tokens[r], `row ${r}, native`).toBe(expected);
      }
      expect(compared).toBeGreaterThan(0.95 * x.rows);
      expect(new Set(keptMass)).toEqual(new Set([1]));
    }
    native.destroy();
  });

  it("agrees to the bit with headLogProb for the token that was sampled", async () => {
    const cases = fc.record({
      rows: fc.integer({ min: 1, max: 20 }),
      dim: fc.integer({ min: 1, max: 24 }),
      vocab: fc.oneof(fc.integer({ min: 1, max: 70 }), fc.constantFrom(511, 512, 513, 1025)),
      tied: fc.boolean(),
      seed: fc.nat(1e6),
    });
    const check = fc.asyncProperty(cases, async ({ rows, dim, vocab, tied, seed }) => {
      const x = makeCase(rows, dim, vocab, tied, seed);
      const { tokens, logProbs } = await sample(device(), x, randomU32(4 * rows, seed, 2 ** 32));
      expect(tokens.every((token) => token < vocab)).toBe(true);
      const [again] = await forward(device(), { ...x, targets: tokens });
      expectSameBits(logProbs, again!, "log-probabilities");
    });
    await fc.assert(check, { numRuns: 20 });
  });

  it("draws with the exact probabilities, cut or not (chi-square at 5 standard deviations)", async () => {
    const settings: (Cut & { temperature: number })[] = [
      { ...uncut, temperature: 1 },
      { ...uncut, temperature: 0.6 },
      { ...uncut, temperature: 1, topK: 7 },
      { ...uncut, temperature: 1, topP: 0.8 },
      { ...uncut, temperature: 1, minP: 0.1 },
      { temperature: 1.4, topK: 20, topP: 0.9, minP: 0.02 },
    ];
    for (const [i, setting] of settings.entries()) {
      const logits = ladder(60, i, 0.11);
      const whole = probabilities(logits, setting.temperature);
      const { p, mass } = afterCut(whole, setting);
      const rows = 1500;
      const x = caseOfLogits(logits, rows, setting.temperature);
      const { tokens, logProbs, keptMass } = await sample(device(), x, counters(rows, i), setting);
      const { statistic, freedom } = chiSquare(tokens, p);
      expect(statistic, JSON.stringify(setting)).toBeLessThan(freedom + 5 * Math.sqrt(2 * freedom));
      expect(tokens.every((token) => p[token]! > 0)).toBe(true);
      // log-probabilities are of the whole vocabulary, whatever was cut.
      const expected = Array.from(tokens, (token) => Math.log(whole[token]!));
      expectClose(logProbs, expected, 1e-5, "logProbs");
      expectClose(keptMass, new Float64Array(rows).fill(isCut(setting, 60) ? mass : 1), 1e-5, "keptMass");
    }
  });

  it("keeps exactly the set that top-k, top-p and min-p leave, and chooses from it by inverse transform", async () => {
    const cuts = fc.record({
      vocab: fc.constantFrom(1, 2, 5, 40, 65, 300, 520, 1300),
      step: fc.constantFrom(0.005, 0.05, 0.3),
      temperature: fc.constantFrom(0.5, 1, 2),
      topK: fc.constantFrom(0, 1, 2, 10, 64, 65, 1000),
      topP: fc.constantFrom(1, 0.01, 0.5, 0.9, 0.99),
      minP: fc.constantFrom(0, 0.01, 0.5, 1),
      seed: fc.nat(1e6),
    });
    const check = fc.asyncProperty(cuts, async ({ vocab, step, temperature, seed, ...cut }) => {
      const rows = 32;
      const logits = ladder(vocab, seed, step);
      const { p, mass } = afterCut(probabilities(logits, temperature), cut);
      const seeds = counters(rows, seed);
      const { tokens, keptMass } = await sample(device(), caseOfLogits(logits, rows, temperature), seeds, cut);
      for (let r = 0; r < rows; r++) {
        expect(p[tokens[r]!], `token ${tokens[r]} of row ${r}`).toBeGreaterThan(0);
        const expected = tokenAt(p, uniform(seeds, r), 4e-6);
        if (expected !== undefined) expect(tokens[r]).toBe(expected);
      }
      expectClose(keptMass, new Float64Array(rows).fill(isCut(cut, vocab) ? mass : 1), 1e-5, "keptMass");
    });
    await fc.assert(check, { numRuns: 40 });
  });

  it("takes lower ids first on a tie, by count, by mass and at temperature 0", async () => {
    const x = caseOfLogits(Float32Array.from([1, 3, 3, 3, 2]), 100, 1);
    const p = probabilities(x.weight, 1);
    const byCount = await sample(device(), x, counters(100, 1), { ...uncut, topK: 2 });
    expect(new Set(byCount.tokens)).toEqual(new Set([1, 2]));
    expect(byCount.keptMass[0]).toBeCloseTo(p[1]! + p[2]!, 6);
    const byMass = await sample(device(), x, counters(100, 1), { ...uncut, topP: 1.5 * p[1]! });
    expect(new Set(byMass.tokens)).toEqual(new Set([1, 2]));
    const greedy = await sample(device(), { ...x, temperatures: new Float32Array(100) }, counters(100, 1));
    expect(new Set(greedy.tokens)).toEqual(new Set([1]));

    // Zeros of both signs tie as well, over several chunks.
    const zeros = Float32Array.from({ length: 1200 }, (_, id) => (id < 600 ? -1 : id % 2 === 0 ? 0 : -0));
    const even = await sample(device(), caseOfLogits(zeros, 200, 1), counters(200, 2), { ...uncut, topK: 5 });
    expect(new Set(even.tokens)).toEqual(new Set([600, 601, 602, 603, 604]));
  });

  it("at temperature 0 gives the arg-max with its log-probability at temperature 1, whatever the cut", async () => {
    const logits = ladder(1300, 5, 0.01);
    const best = logits.indexOf(0);
    const x = caseOfLogits(logits, 8, 0);
    const { tokens, logProbs, keptMass } = await sample(device(), x, counters(8, 3), { topK: 3, topP: 0.5, minP: 0.1 });
    expect(Array.from(tokens)).toEqual(new Array(8).fill(best));
    expectClose(logProbs, new Float64Array(8).fill(Math.log(probabilities(logits, 1)[best]!)), 1e-5, "logProbs");
    expect(Array.from(keptMass)).toEqual(new Array(8).fill(1));
  });

  it("never draws a token of probability 0", async () => {
    const logits = Float32Array.from({ length: 1100 }, (_, id) => (id % 100 === 7 ? 0 : -200));
    const { tokens } = await sample(device(), caseOfLogits(logits, 500, 1), counters(500, 4));
    expect(Array.from(tokens).filter((token) => token % 100 !== 7)).toEqual([]);
    expect(new Set(tokens).size).toBe(11);
  });

  it("gives a row the same bits in any batch, in blocks and with the weight in windows", async () => {
    const cut = { topK: 40, topP: 0.95, minP: 0 };
    for (const tied of [true, false]) {
      const x = makeCase(30, 20, 1130, tied, 6);
      const seeds = counters(30, 8);
      const whole = await sample(device(), x, seeds, cut);
      const expectWhole = (got: typeof whole, from: number, to: number, label: string) => {
        for (const name of ["tokens", "logProbs", "keptMass"] as const) {
          expectSameBits(got[name], whole[name].slice(from, to), `${name}, ${label}`);
        }
      };
      expectWhole(await sample(device(), rowsOf(x, 7, 19), seeds.slice(28, 76), cut), 7, 19, "some rows");
      expectWhole(await sample(device(), x, seeds, cut, 4 * 1130), 0, 30, "four rows at a time");
      const windows = () => sample(device(), x, seeds, cut);
      expectWhole(await withBindingLimit(device(), 6000, windows), 0, 30, "in windows");
    }
  });
});

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
