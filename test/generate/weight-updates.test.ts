/** Weights that change while turns are in flight: what is sampled, on which keys and values, and what the record says. */
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { NativeDevice } from "../../src/device/native.ts";
import { type Conversation, Engine, type EngineOptions } from "../../src/generate/engine.ts";
import type { TokenRecord } from "../../src/generate/token-record.ts";
import { fixedWeights, type WeightSource } from "../../src/generate/weight-source.ts";
import { ofSampled, recompute, recorded, tinyConfig, tinyTokens, tinyTurn, tinyWeights } from "./tiny-model.ts";

const device = new NativeDevice({ threads: 1 });
afterAll(() => device.destroy());

const weights = [1, 2, 3].map((seed) => tinyWeights(device, seed));
const weightsOf = (version: number) => weights[version % weights.length]!;

/** A source whose version is what `next` says, asked once a step. */
function changing(next: (step: number) => number): WeightSource {
  let step = 0;
  return {
    latest: () => {
      const version = next(step++);
      return { version, weights: weightsOf(version) };
    },
    close: () => {},
  };
}

function engineOf(source: WeightSource, more: Partial<EngineOptions> = {}) {
  const sizes = { maxConversations: 8, contextLimit: 400, maxRows: 256 };
  return new Engine({ device, config: tinyConfig, weights: source, ...sizes, ...more });
}

const endless = (sample: number, maxTokens: number) => tinyTurn(sample, maxTokens, []);

/** Whether each sampled token's log-probability is that of its own version on the whole context. */
async function ofOwnVersion(record: TokenRecord): Promise<boolean[]> {
  const byWeights = await Promise.all(weights.map((one) => recompute(device, record, one)));
  const logProbs = recorded(record);
  return ofSampled(record, record.version).map((version, i) => byWeights[version % 3]![i] === logProbs[i]);
}

describe("an update in mid-turn", () => {
  /** Twelve tokens, the weights changing after the first `old`. */
  async function play(kvOnUpdate: "keep" | "recompute", old: number) {
    // The prompt and the first token take one step.
    const engine = engineOf(
      changing((step) => (step < old ? 0 : 1)),
      { kvOnUpdate },
    );
    const conversation = engine.open(tinyTokens(1, 50));
    await conversation.generate(endless(0, 12));
    const { stats } = engine;
    await engine.destroy();
    return { record: conversation.record, stats };
  }

  it("with recompute goes on as a new conversation fed the same tokens under the new weights, bit for bit", async () => {
    const { record, stats } = await play("recompute", 5);
    const fresh = engineOf(fixedWeights(weightsOf(1), 1));
    const other = fresh.open(record.tokens.slice(0, 55));
    await other.generate(endless(0, 7));
    await fresh.destroy();
    expect([...record.tokens.slice(55, 62)]).toEqual([...other.record.tokens.slice(55, 62)]);
    expect(recorded(record).slice(5)).toEqual(recorded(other.record));
    expect(ofSampled(record, record.version)).toEqual([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
    expect(ofSampled(record, record.oldestVersion)).toEqual(ofSampled(record, record.version));
    // Given tokens say what first computed them.
    expect([...record.version.slice(0, 50)]).toEqual(Array(50).fill(0));
    // All but the fifth sampled token, which had not been fed yet.
    expect(stats.recomputedRows).toBe(54);
    expect(await ofOwnVersion(record)).toEqual(Array(12).fill(true));
  });

  it("with keep goes on with the old keys and values, and stamps both versions", async () => {
    const { record, stats } = await play("keep", 5);
    expect(ofSampled(record, record.version)).toEqual([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
    expect(ofSampled(record, record.oldestVersion)).toEqual(Array(12).fill(0));
    expect(await ofOwnVersion(record)).toEqual([...Array(5).fill(true), ...Array(7).fill(false)]);
    expect(stats.recomputedRows).toBe(0);
  });
});

it("a prompt sampled just before and just after an update differs as the weights do, in either way", async () => {
  for (const kvOnUpdate of ["keep", "recompute"] as const) {
    let version = 0;
    const engine = engineOf(
      changing(() => version),
      { kvOnUpdate },
    );
    const sample = async () => {
      const conversation = engine.open(tinyTokens(3, 70));
      await conversation.generate(endless(2, 1));
      conversation.close();
      return conversation.record;
    };
    const before = await sample();
    version = 1;
    const after = await sample();
    await engine.destroy();
    expect(recorded(before)).toEqual(await recompute(device, before, weightsOf(0)));
    expect(recorded(after)).toEqual(await recompute(device, after, weightsOf(1)));
    // The same token of the same prompt, under the other weights: it is told apart.
    expect(recorded(before)).not.toEqual(await recompute(device, before, weightsOf(1)));
    expect(recorded(after)).not.toEqual(await recompute(device, after, weightsOf(0)));
  }
});

describe("recompute", () => {
  it("computes a prompt that was prefilled under old weights once for all forks that begin under new ones", async () => {
    let version = 0;
    const engine = engineOf(
      changing(() => version),
      { kvOnUpdate: "recompute" },
    );
    const root = engine.open(tinyTokens(4, 70));
    await root.prefill();
    const forks = [0, 1, 2, 3].map(() => root.fork());
    version = 1;
    await Promise.all(forks.map((fork, i) => fork.generate(endless(i, 6))));
    expect(engine.stats.recomputedRows).toBe(69);
    for (const { record } of forks) {
      expect(ofSampled(record, record.oldestVersion)).toEqual(Array(6).fill(1));
      expect(recorded(record)).toEqual(await recompute(device, record, weightsOf(1)));
    }
    // Two updates later, without the root: each on its own, 70 of the prompt and 5 of the first turn.
    root.close();
    version = 3;
    await Promise.all(forks.map((fork, i) => fork.generate(endless(i, 6))));
    expect(engine.stats.recomputedRows).toBe(69 + 4 * 75);
    for (const { record } of forks) expect(await ofOwnVersion(record)).toEqual(Array(12).fill(true));
    await engine.destroy();
  });

  it("gives every token a context of its own version, whoever shares pages, is closed or waits for rows", async () => {
    const schedules = fc.record({
      maxRows: fc.integer({ min: 12, max: 120 }),
      /** Steps between updates. */
      gaps: fc.array(fc.integer({ min: 1, max: 14 }), { minLength: 1, maxLength: 12 }),
      prompts: fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 2, maxLength: 2 }),
      prefill: fc.boolean(),
      /** Step at which the root of the forks is closed, and one of them. */
      closeRoot: fc.nat(30),
      closeFork: fc.nat(30),
    });
    await fc.assert(
      fc.asyncProperty(schedules, async ({ maxRows, gaps, prompts, prefill, closeRoot, closeFork }) => {
        const updates = gaps.map((_, i) => gaps.slice(0, i + 1).reduce((sum, gap) => sum + gap, 0));
        let atStep: (step: number) => void = () => {};
        const source = changing((step) => {
          atStep(step);
          return updates.filter((update) => update <= step).length;
        });
        const sizes = { maxConversations: 6, contextLimit: 160, maxRows };
        const engine = engineOf(source, { ...sizes, kvOnUpdate: "recompute" });
        const root = engine.open(tinyTokens(prompts[0]!, prompts[0]!));
        if (prefill) await root.prefill();
        const forks = [0, 1, 2].map(() => root.fork());
        const conversations = [...forks, engine.open(tinyTokens(prompts[1]!, prompts[1]!))];
        atStep = (step) => {
          if (step === closeRoot) root.close();
          if (step === closeFork) forks[2]!.close();
        };
        const play = async (conversation: Conversation, i: number) => {
          await conversation.generate(endless(i, 9));
          conversation.extend(tinyTokens(i, 5 + 7 * i));
          await conversation.generate(endless(i, 9));
        };
        const ends = await Promise.allSettled(conversations.map(play));
        for (const [i, { record, closed }] of conversations.entries()) {
          if (!closed) expect(ends[i]!.status).toBe("fulfilled");
          if (record.length < 2) continue;
          expect(ofSampled(record, record.oldestVersion)).toEqual(ofSampled(record, record.version));
          expect(await ofOwnVersion(record)).not.toContain(false);
        }
        root.close();
        for (const conversation of conversations) conversation.close();
        // Every page is back.
        const whole = Array.from({ length: 6 }, (_, i) => engine.open(tinyTokens(i, 160)));
        await Promise.all(whole.map((conversation) => conversation.prefill()));
        await engine.destroy();
      }),
      { numRuns: 20 },
    );
  });
});

describe("200 updates with long turns in flight", () => {
  const tokens = 300;

  /** Turns of 300 tokens, a token a step; two of three steps have new weights. */
  async function play(kvOnUpdate: "keep" | "recompute", turns: number) {
    const engine = engineOf(
      changing((step) => step - Math.floor(step / 3)),
      { kvOnUpdate, maxRows: turns * 400 },
    );
    const conversations = Array.from({ length: turns }, (_, i) => engine.open(tinyTokens(i, 20 + 9 * i)));
    const ends = await Promise.all(conversations.map((one, i) => one.generate(endless(i, tokens))));
    const { stats } = engine;
    await engine.destroy();
    expect(ends).toEqual(Array(turns).fill("length"));
    expect(stats.abortedTokens).toBe(0);
    expect(stats.sampledTokens).toBe(turns * tokens);
    expect(stats.weightUpdates).toBe(200);
    for (const [i, { record }] of conversations.entries()) {
      // Each token has the version of the step that sampled it. The first turn begins a step before the others.
      const steps = Array.from({ length: tokens }, (_, token) => token + Math.min(i, 1));
      expect(ofSampled(record, record.version)).toEqual(steps.map((step) => step - Math.floor(step / 3)));
    }
    return conversations.map(({ record }) => record);
  }

  it("abort no token, and stamps rise with the weights", async () => {
    for (const record of await play("keep", 4)) {
      const [began] = ofSampled(record, record.version);
      expect(ofSampled(record, record.oldestVersion)).toEqual(Array(tokens).fill(began));
    }
  });

  it("abort no token where contexts are recomputed at each", async () => {
    for (const record of await play("recompute", 2)) {
      expect(ofSampled(record, record.oldestVersion)).toEqual(ofSampled(record, record.version));
      expect(await ofOwnVersion(record)).not.toContain(false);
    }
  });
});
