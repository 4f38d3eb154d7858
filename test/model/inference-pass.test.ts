/**
 * The law that the whole trainer stands on: the log-probability recorded while sampling is, bit for bit, the one that
 * a full forward pass computes under the same weights, however the sequence was cut into steps, in whatever company,
 * on whichever pages, with however many threads.
 */
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { ATTENTION_BLOCK } from "../../src/device/device.ts";
import type { ModelConfig } from "../../src/model/config.ts";
import { InferencePass, type InferenceStep } from "../../src/model/inference-pass.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { anyConfig, makeDevice, packSequences, randomWeights, type TestSequence, testRandom } from "./support.ts";

const sampler = makeDevice(1);
const learner = makeDevice(2);
afterAll(() => {
  sampler.destroy();
  learner.destroy();
});

interface Live {
  tokens: number[];
  computed: number;
  pages: number[];
}

/** A step that feeds `take[i]` tokens of each live sequence and samples the rows that `sampled` picks. */
function makeStep(
  live: Live[],
  take: number[],
  sampled: (sequence: number, position: number, last: boolean) => boolean,
  random: ReturnType<typeof testRandom>,
): { step: InferenceStep; drawn: { sequence: number; position: number }[] } {
  const tokens: number[] = [];
  const positions: number[] = [];
  const sequenceOf: number[] = [];
  const slots: number[] = [];
  const sampleRows: number[] = [];
  const drawn: { sequence: number; position: number }[] = [];
  for (const [sequence, state] of live.entries()) {
    for (let i = 0; i < take[sequence]!; i++) {
      const position = state.computed++;
      const page = state.pages[Math.floor(position / ATTENTION_BLOCK)]!;
      if (sampled(sequence, position, i === take[sequence]! - 1)) {
        sampleRows.push(tokens.length);
        drawn.push({ sequence, position });
      }
      tokens.push(state.tokens[position]!);
      positions.push(position);
      sequenceOf.push(sequence);
      slots.push(page * ATTENTION_BLOCK + (position % ATTENTION_BLOCK));
    }
  }
  const stride = Math.max(...live.map(({ pages }) => pages.length));
  const pageTable = new Uint32Array(live.length * stride);
  for (const [sequence, { pages }] of live.entries()) pageTable.set(pages, sequence * stride);
  const samples = sampleRows.length;
  const step = {
    rows: tokens.length,
    tokens: Uint32Array.from(tokens),
    positions: Uint32Array.from(positions),
    sequenceOf: Uint32Array.from(sequenceOf),
    slots: Uint32Array.from(slots),
    pageTable,
    pageTableStride: stride,
    sampleRows: Uint32Array.from(sampleRows),
    sampling: {
      // 0 is greedy; its log-probability is taken at temperature 1.
      temperatures: Float32Array.from({ length: samples }, () => (random.unit() < 0.1 ? 0 : 0.5 + random.unit())),
      topK: Uint32Array.from({ length: samples }, () => (random.unit() < 0.5 ? 0 : 1 + random.below(20))),
      topP: Float32Array.from({ length: samples }, () => (random.unit() < 0.5 ? 1 : 0.3 + 0.7 * random.unit())),
      minP: Float32Array.from({ length: samples }, () => (random.unit() < 0.5 ? 0 : 0.2 * random.unit())),
      seeds: Uint32Array.from({ length: 4 * samples }, () => random.below(2 ** 32)),
    },
  };
  return { step, drawn };
}

/** The learner's log-probabilities of the scored tokens of each sequence, in order. */
async function score(config: ModelConfig, seed: number, sequences: TestSequence[]): Promise<Float32Array> {
  const weights = randomWeights(learner, config, seed);
  const batch = packSequences(sequences);
  const pass = new TrainPass(learner, config, { maxRows: batch.tokens.length, maxScored: batch.scoredRows.length });
  const { logProbs } = await pass.forward(weights, batch);
  pass.destroy();
  learner.free(weights.arena);
  return logProbs;
}

/**
 * Feeds random sequences in random steps over scattered pages, sampling on the way, and compares with the learner.
 * Returns how many tokens were compared.
 */
async function compare(config: ModelConfig, seed: number, lengths: number[]): Promise<number> {
  const random = testRandom(seed);
  const weights = randomWeights(sampler, config, seed);
  const live: Live[] = lengths.map((length) => ({
    tokens: Array.from({ length }, () => random.below(config.vocabSize)),
    computed: 0,
    pages: [],
  }));
  // Pages in no order, with some that nobody uses.
  const pageCount = lengths.reduce((sum, length) => sum + Math.ceil(length / ATTENTION_BLOCK), 0) + 3;
  const free = Array.from({ length: pageCount }, (_, page) => page);
  for (const [i, length] of lengths.entries()) {
    for (let page = 0; page < Math.ceil(length / ATTENTION_BLOCK); page++) {
      live[i]!.pages.push(free.splice(random.below(free.length), 1)[0]!);
    }
  }
  const pass = new InferencePass(sampler, config, { maxRows: 400, pages: pageCount });
  const recorded: TestSequence[] = live.map(({ tokens }) => ({ tokens, scored: [] }));
  const logProbs = live.map(() => new Map<number, number>());
  while (live.some(({ tokens, computed }) => computed < tokens.length)) {
    const take = live.map(({ tokens, computed }) => {
      const left = tokens.length - computed;
      const most = random.unit() < 0.4 ? 1 : random.unit() < 0.5 ? 7 : 70;
      return random.unit() < 0.3 ? 0 : Math.min(left, 1 + random.below(most));
    });
    if (take.every((rows) => rows === 0)) continue;
    const samplesAt = random.unit() < 0.2 ? 0.3 : 0;
    const picks = (_: number, __: number, last: boolean) => (last ? random.unit() < 0.9 : random.unit() < samplesAt);
    const { step, drawn } = makeStep(live, take, picks, random);
    const result = await pass.step(weights, step);
    expect(result.tokens.length).toBe(drawn.length);
    for (const [i, { sequence, position }] of drawn.entries()) {
      const temperature = step.sampling.temperatures[i]! || 1;
      const target = result.tokens[i]!;
      expect(result.keptMass[i]).toBeGreaterThan(0);
      expect(result.keptMass[i]).toBeLessThanOrEqual(1);
      recorded[sequence]!.scored.push({ row: position, target, temperature, dLogProb: 0, dEntropy: 0 });
      logProbs[sequence]!.set(position, result.logProbs[i]!);
    }
  }
  pass.destroy();
  sampler.free(weights.arena);
  if (recorded.every(({ scored }) => scored.length === 0)) return 0;
  const expected = await score(config, seed, recorded);
  const got = Float32Array.from(recorded.flatMap(({ scored }, i) => scored.map(({ row }) => logProbs[i]!.get(row)!)));
  expect(got).toEqual(expected);
  return got.length;
}

describe("InferencePass", () => {
  it("gives TrainPass's log-probabilities bit for bit under any cut into steps", async () => {
    let compared = 0;
    const anyCase = fc.record({
      config: anyConfig,
      seed: fc.nat(),
      lengths: fc.array(fc.oneof(fc.constantFrom(1, 32, 33, 64), fc.integer({ min: 1, max: 150 })), {
        minLength: 1,
        maxLength: 5,
      }),
    });
    await fc.assert(
      fc.asyncProperty(anyCase, async ({ config, seed, lengths }) => {
        compared += await compare(config, seed, lengths);
      }),
      { numRuns: 50 },
    );
    expect(compared).toBeGreaterThan(300);
  });

  it("does so for a model of the quick start's size and long contexts", async () => {
    const config = {
      vocabSize: 1024,
      hiddenSize: 128,
      intermediateSize: 384,
      layers: 4,
      heads: 4,
      kvHeads: 2,
      headDim: 32,
      family: "llama" as const,
      ropeTheta: 10000,
      rmsNormEps: 1e-5,
      maxPositions: 1024,
      tieWordEmbeddings: true,
      eosTokenIds: [],
    };
    expect(await compare(config, 1, [700, 33, 512, 256, 1, 90])).toBeGreaterThan(100);
  });

  it("goes on from a copied page as from the original", async () => {
    const config = fc.sample(anyConfig, { numRuns: 1, seed: 3 })[0]!;
    const random = testRandom(9);
    const weights = randomWeights(sampler, config, 4);
    const pass = new InferencePass(sampler, config, { maxRows: 64, pages: 4 });
    const tokens = Array.from({ length: 40 }, () => random.below(config.vocabSize));
    const never = () => false;
    const last = (_: number, __: number, isLast: boolean) => isLast;
    const first: Live = { tokens, computed: 0, pages: [2, 0] };
    await pass.step(weights, makeStep([first], [36], never, random).step);
    // The fork shares the full page 2 and writes into its own copy of page 0.
    pass.copyPage(0, 3);
    const forked = [...tokens.slice(0, 36), ...tokens.slice(0, 4).map((token) => (token + 1) % config.vocabSize)];
    const fork: Live = { tokens: forked, computed: 36, pages: [2, 3] };
    const { step, drawn } = makeStep([first, fork], [4, 4], last, random);
    const result = await pass.step(weights, step);
    const scored = drawn.map(({ position }, i) => ({
      row: position,
      target: result.tokens[i]!,
      temperature: step.sampling.temperatures[i]! || 1,
      dLogProb: 0,
      dEntropy: 0,
    }));
    const expected = await score(config, 4, [
      { tokens, scored: [scored[0]!] },
      { tokens: forked, scored: [scored[1]!] },
    ]);
    expect(result.logProbs).toEqual(expected);
    pass.destroy();
  });

  it("refuses malformed steps with the place", async () => {
    const config = { ...fc.sample(anyConfig, { numRuns: 1, seed: 8 })[0]!, vocabSize: 50 };
    const weights = randomWeights(sampler, config, 1);
    const pass = new InferencePass(sampler, config, { maxRows: 8, pages: 2 });
    const random = testRandom(1);
    const { step } = makeStep([{ tokens: [1, 2, 3], computed: 0, pages: [1] }], [3], (_, __, last) => last, random);
    const refused = (change: Partial<InferenceStep>, message: RegExp) =>
      expect(pass.step(weights, { ...step, ...change })).rejects.toThrow(message);
    await refused({ tokens: Uint32Array.from([1, 50, 3]) }, /token of row 1/);
    await refused({ positions: Uint32Array.from([0, 1, 32]) }, /position of row 2[\s\S]*below 32/);
    await refused({ sequenceOf: Uint32Array.from([0, 0, 1]) }, /page table line of row 2/);
    await refused({ slots: Uint32Array.from([0, 1, 64]) }, /slot of row 2/);
    await refused({ sampleRows: Uint32Array.from([3]) }, /sampled row 0/);
    await refused({ rows: 9 }, /number of rows/);
    await refused({ slots: new Uint32Array(2) }, /lengths/);
    await refused({ sampling: { ...step.sampling, seeds: new Uint32Array(3) } }, /sampling arrays/);
    pass.destroy();
  });
});
