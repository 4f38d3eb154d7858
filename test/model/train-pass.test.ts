/**
 * Laws of the training pass. How a batch is cut, ordered and filled up changes no log-probability by a bit. Cutting it
 * into micro-batches, and other sequences beside it, change no gradient by a bit either, since every gradient is one
 * chain over rows in ascending order; the one exception is a tied embedding under a cut, which two operators add to in
 * turn. Packing in another order changes the order of the chain, and so does sharing the rows of common prefixes.
 */
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import type { Device } from "../../src/device/device.ts";
import type { ModelConfig } from "../../src/model/config.ts";
import type { PackedBatch } from "../../src/model/packed-batch.ts";
import { parameterLayout, unpackTensors } from "../../src/model/parameters.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { Weights } from "../../src/model/weights.ts";
import {
  anyConfig,
  makeDevice,
  packSequences,
  randomSequence,
  randomWeights,
  sameBits,
  type TestSequence,
  testRandom,
} from "./support.ts";

const device = makeDevice(2);
const oneThread = makeDevice(1);
afterAll(() => {
  device.destroy();
  oneThread.destroy();
});

/** Runs micro-batches one after another into one gradient arena. Sequences are told apart by identity. */
async function run<Sequence extends TestSequence>(
  on: Device,
  config: ModelConfig,
  seed: number,
  microBatches: Sequence[][],
  pack: (sequences: Sequence[]) => ReturnType<typeof packSequences> = packSequences,
) {
  const weights = randomWeights(on, config, seed);
  const grads = Weights.allocate(on, config, "grads");
  const outputs = new Map<TestSequence, { logProbs: Float32Array; entropies: Float32Array }>();
  for (const sequences of microBatches) {
    const batch = pack(sequences);
    const rows = batch.tokens.length;
    const shared = (batch.source?.length ?? rows) - rows;
    const limits = { maxRows: rows + 3, maxScored: batch.scoredRows.length + 1, maxSpread: rows + 3 + shared };
    const pass = new TrainPass(on, config, limits);
    const { logProbs, entropies } = await pass.forward(weights, batch);
    await pass.backward(weights, batch, grads);
    pass.destroy();
    let start = 0;
    for (const sequence of sequences) {
      const end = start + sequence.scored.length;
      outputs.set(sequence, { logProbs: logProbs.slice(start, end), entropies: entropies.slice(start, end) });
      start = end;
    }
  }
  const result = { outputs, grads: await on.readF32(grads.arena) };
  on.free(weights.arena);
  on.free(grads.arena);
  return result;
}

/**
 * Another order of a sum of n terms moves it by at most n * 2^-24 * sum|terms|. Over 400 random batches the largest
 * difference seen was 2e-6 of the tensor's largest gradient, over 1500 with shared prefixes 6e-6. A tensor whose terms
 * cancel (a query's under attention that is all but even) has gradients far below those terms, and differences that are
 * larger beside them: what it is measured by then is the largest gradient of all, of which none came to more than 3e-7.
 */
function expectSameGradients(config: ModelConfig, got: Float32Array, expected: Float32Array): void {
  const reference = unpackTensors(parameterLayout(config), expected);
  const largest = largestOf(expected);
  for (const [name, { data }] of unpackTensors(parameterLayout(config), got)) {
    const { data: other } = reference.get(name)!;
    const allowed = Math.max(2e-5 * largestOf(other), 2e-6 * largest);
    expect(largestOf(data.map((value, i) => value - other[i]!)), name).toBeLessThanOrEqual(allowed);
  }
}

function largestOf(values: Float32Array): number {
  return values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
}

const anyBatch = fc
  .record({
    config: anyConfig,
    seed: fc.nat(),
    lengths: fc.array(fc.oneof(fc.constantFrom(1, 2, 31, 32, 33), fc.integer({ min: 1, max: 100 })), {
      minLength: 2,
      maxLength: 5,
    }),
  })
  .map(({ config, seed, lengths }) => {
    const random = testRandom(seed);
    return { config, seed, sequences: lengths.map((length) => randomSequence(config, length, random)) };
  });

/** A sequence that continues the first `prefix` tokens of an earlier one and scores none of their rows. */
type Branch = TestSequence & { parent?: Branch; prefix: number };

/** Packs as packSequences does, with the rows that a branch has in common with its parent held once. */
function packBranches(branches: Branch[]): ReturnType<typeof packSequences> & Required<PackedBatch> {
  const whole = packSequences(branches);
  const rowsOf = new Map<TestSequence, number[]>();
  const tokens: number[] = [];
  for (const branch of branches) {
    const inherited = branch.parent === undefined ? [] : rowsOf.get(branch.parent)!.slice(0, branch.prefix);
    const own = branch.tokens.slice(branch.prefix);
    rowsOf.set(branch, [...inherited, ...own.map((_, i) => tokens.length + i)]);
    tokens.push(...own);
  }
  const source = Uint32Array.from(branches.flatMap((branch) => rowsOf.get(branch)!));
  return { ...whole, tokens: Uint32Array.from(tokens), source, scoredRows: whole.scoredRows.map((at) => source[at]!) };
}

/**
 * Trees of sequences: prompts with several continuations, continuations of continuations, and whole repeats. Not with
 * one channel: its norm is its sign, and the gradients before it are 0 but for rounding.
 */
const anyTree = fc
  .record({
    config: anyConfig.filter(({ hiddenSize }) => hiddenSize > 1),
    seed: fc.nat(),
    branches: fc.array(
      fc.record({
        parent: fc.nat(),
        share: fc.constantFrom(0, 0.3, 0.8, 1),
        own: fc.oneof(fc.constantFrom(0, 1, 32), fc.integer({ min: 1, max: 50 })),
      }),
      { minLength: 2, maxLength: 7 },
    ),
  })
  .map(({ config, seed, branches }) => {
    const random = testRandom(seed);
    const tree: Branch[] = [{ ...randomSequence(config, 33 + random.below(30), random), prefix: 0 }];
    for (const { parent: index, share, own } of branches) {
      const parent = tree[index % tree.length]!;
      const prefix = Math.floor(share * Math.min(parent.tokens.length, config.maxPositions - own));
      const length = Math.max(prefix + own, 1);
      const { tokens, scored } = randomSequence(config, length, random);
      tokens.splice(0, prefix, ...parent.tokens.slice(0, prefix));
      tree.push({ tokens, scored: scored.filter(({ row }) => row >= prefix), parent, prefix });
    }
    return { config, seed, tree };
  });

describe("TrainPass", () => {
  it("gives the same under micro-batch split, packing order, thread count, and beside other sequences", async () => {
    await fc.assert(
      fc.asyncProperty(anyBatch, fc.nat(), async ({ config, seed, sequences }, shuffle) => {
        const whole = await run(device, config, seed, [sequences]);

        const split = await run(
          device,
          config,
          seed,
          sequences.map((sequence) => [sequence]),
        );
        const random = testRandom(shuffle);
        const order = [...sequences];
        for (let i = order.length - 1; i > 0; i--) {
          const j = random.below(i + 1);
          [order[i], order[j]] = [order[j]!, order[i]!];
        }
        const shuffled = await run(oneThread, config, seed, [order]);
        const silent = { ...randomSequence(config, 40, random), scored: [] };
        const beside = await run(device, config, seed, [[silent, ...sequences, silent]]);
        for (const other of [split, shuffled, beside]) {
          for (const sequence of sequences) expect(other.outputs.get(sequence)).toEqual(whole.outputs.get(sequence));
        }
        expect(sameBits(beside.grads, whole.grads)).toBe(true);
        expectSameGradients(config, shuffled.grads, whole.grads);
        expectSameGradients(config, split.grads, whole.grads);
        const afterEmbedding = parameterLayout(config).entries[config.tieWordEmbeddings ? 1 : 0]!.offset;
        expect(sameBits(split.grads.subarray(afterEmbedding), whole.grads.subarray(afterEmbedding))).toBe(true);
      }),
      { numRuns: 12 },
    );
  });

  it("gives the same bits with one thread and with two", async () => {
    await fc.assert(
      fc.asyncProperty(anyBatch, async ({ config, seed, sequences }) => {
        const two = await run(device, config, seed, [sequences]);
        const one = await run(oneThread, config, seed, [sequences]);
        expect(sameBits(one.grads, two.grads)).toBe(true);
      }),
      { numRuns: 6 },
    );
  });

  it("gives the same bits out, and the same gradients up to their order of summing, with shared prefixes", async () => {
    let saved = 0;
    await fc.assert(
      fc.asyncProperty(anyTree, async ({ config, seed, tree }) => {
        const whole = await run(device, config, seed, [tree]);
        const shared = await run(device, config, seed, [tree], packBranches);
        for (const sequence of tree) expect(shared.outputs.get(sequence)).toEqual(whole.outputs.get(sequence));
        expectSameGradients(config, shared.grads, whole.grads);
        const again = await run(oneThread, config, seed, [tree], packBranches);
        expect(sameBits(again.grads, shared.grads)).toBe(true);
        const { tokens, source } = packBranches(tree);
        saved += source.length - tokens.length;
      }),
      { numRuns: 25 },
    );
    expect(saved).toBeGreaterThan(0);
  });

  it("gives the same gradient bits when a sequence is repeated whole and nothing of the repeat is scored", async () => {
    const config = fc.sample(anyConfig, { numRuns: 1, seed: 8 })[0]!;
    const first: Branch = { ...randomSequence(config, 40, testRandom(3)), prefix: 0 };
    const repeat: Branch = { tokens: first.tokens, scored: [], parent: first, prefix: 40 };
    const alone = await run(device, config, 1, [[first]]);
    const shared = await run(device, config, 1, [[first, repeat, repeat]], packBranches);
    expect(shared.outputs.get(first)).toEqual(alone.outputs.get(first));
    expect(sameBits(shared.grads, alone.grads)).toBe(true);
  });

  it("gives no gradient to what cannot change a scored token", async () => {
    const config = { ...fc.sample(anyConfig, { numRuns: 1, seed: 5 })[0]!, vocabSize: 40, tieWordEmbeddings: false };
    const random = testRandom(1);
    const sequence = randomSequence({ ...config, vocabSize: 30 }, 20, random);
    // Token 35 comes after the last scored row, 36 in a sequence of its own.
    sequence.scored = sequence.scored.filter(({ row }) => row < 15);
    sequence.tokens[18] = 35;
    const { grads } = await run(device, config, 1, [[sequence, { tokens: [36, 36], scored: [] }]]);
    const { shape, data } = unpackTensors(parameterLayout(config), grads).get("model.embed_tokens.weight")!;
    const row = (token: number) => data.subarray(token * shape[1]!, (token + 1) * shape[1]!);
    expect(row(35).every((value) => value === 0)).toBe(true);
    expect(row(36).every((value) => value === 0)).toBe(true);
    expect(row(sequence.tokens[0]!).some((value) => value !== 0)).toBe(true);
  });

  it("accepts a batch in which nothing is scored", async () => {
    const config = fc.sample(anyConfig, { numRuns: 1, seed: 6 })[0]!;
    const sequence = { ...randomSequence(config, 9, testRandom(2)), scored: [] };
    const { grads, outputs } = await run(device, config, 1, [[sequence]]);
    expect(outputs.get(sequence)!.logProbs.length).toBe(0);
    expect(grads.every((value) => value === 0)).toBe(true);
  });

  it("refuses malformed batches with the place", async () => {
    const config = { ...fc.sample(anyConfig, { numRuns: 1, seed: 7 })[0]!, vocabSize: 50, maxPositions: 16 };
    const weights = randomWeights(device, config, 1);
    const pass = new TrainPass(device, config, { maxRows: 32, maxScored: 8 });
    const batch = packSequences([
      { tokens: [1, 2, 3], scored: [{ row: 0, target: 2, temperature: 1, dLogProb: 1, dEntropy: 0 }] },
    ]);
    const refused = (change: Partial<typeof batch>, message: RegExp) =>
      expect(pass.forward(weights, { ...batch, ...change })).rejects.toThrow(message);
    await refused({ tokens: Uint32Array.from([1, 50, 3]) }, /token of row 1[\s\S]*50/);
    await refused({ targets: Uint32Array.from([77]) }, /target of row 0[\s\S]*77/);
    await refused({ temperatures: Float32Array.from([0]) }, /temperature of row 0/);
    await refused({ scoredRows: Uint32Array.from([3]) }, /scored row 0/);
    await refused({ offsets: Uint32Array.from([0, 2]) }, /sequence offsets/);
    await refused({ offsets: Uint32Array.from([0, 3, 3]) }, /length of sequence 1/);
    await refused({ tokens: new Uint32Array(17), offsets: Uint32Array.from([0, 17]) }, /max_position_embeddings = 16/);
    await refused({ tokens: new Uint32Array(33), offsets: Uint32Array.from([0, 33]) }, /number of rows/);
    await expect(pass.backward(weights, batch, weights)).rejects.toThrow(/no forward pass/);
    await pass.forward(weights, batch);
    await expect(pass.backward(weights, { ...batch, dLogProbs: new Float32Array(2) }, weights)).rejects.toThrow(/fit/);
    pass.destroy();
    expect(() => new TrainPass(device, config, { maxRows: 4, maxScored: 5 })).toThrow(/maxScored/);
    expect(() => new TrainPass(device, config, { maxRows: 4, maxScored: 4, maxSpread: 3 })).toThrow(/maxSpread/);
  });

  it("refuses rows shared wrongly", async () => {
    const config = { ...fc.sample(anyConfig, { numRuns: 1, seed: 7 })[0]!, vocabSize: 50 };
    const weights = randomWeights(device, config, 1);
    // Rows 0 to 3 hold 1 2 3 and 1 2 4.
    const batch = {
      tokens: Uint32Array.of(1, 2, 3, 4),
      offsets: Uint32Array.of(0, 3, 6),
      source: Uint32Array.of(0, 1, 2, 0, 1, 3),
      scoredRows: Uint32Array.of(3),
      targets: Uint32Array.of(5),
      temperatures: Float32Array.of(1),
    };
    const sharing = new TrainPass(device, config, { maxRows: 8, maxScored: 8, maxSpread: 9 });
    const refused = (source: number[], message: RegExp) =>
      expect(sharing.forward(weights, { ...batch, source: Uint32Array.from(source) })).rejects.toThrow(message);
    await sharing.forward(weights, batch);
    await refused([0, 1, 2, 0, 1], /sequence offsets/);
    await refused([0, 1, 2, 0, 1, 2], /rows that no sequence holds/);
    await refused([0, 1, 3, 0, 1, 2], /source of attention row 2/);
    await refused([0, 1, 2, 0, 1, 4], /source of attention row 5/);
    // Token 3 stands at place 2 in the first sequence, not at place 1.
    await refused([0, 1, 2, 0, 2, 3], /source of attention row 4[\s\S]*another prefix/);
    // Row 1 follows row 0, not row 3.
    await refused([0, 1, 2, 3, 1, 2], /source of attention row 4[\s\S]*another prefix/);
    await refused(Array(10).fill(0), /number of attention rows/);
    const whole = new TrainPass(device, config, { maxRows: 8, maxScored: 8 });
    await expect(whole.forward(weights, batch)).rejects.toThrow(/shared rows[\s\S]*maxSpread/);
    sharing.destroy();
    whole.destroy();
  });
});
