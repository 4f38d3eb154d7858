import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { NativeDevice } from "../../src/device/native.ts";
import { type Conversation, Engine } from "../../src/generate/engine.ts";
import { fixedWeights, type WeightSource } from "../../src/generate/weight-source.ts";
import { recompute, recorded, tinyConfig, tinyTokens, tinyTurn, tinyWeights } from "./tiny-model.ts";

const device = new NativeDevice({ threads: 1 });
afterAll(() => device.destroy());

const first = tinyWeights(device, 1);
const second = tinyWeights(device, 2);

function engineOf(weights: WeightSource, maxRows = 64) {
  return new Engine({ device, config: tinyConfig, weights, maxConversations: 24, contextLimit: 200, maxRows });
}

function snapshot({ record }: Conversation) {
  const n = record.length;
  return { tokens: [...record.tokens.slice(0, n)], logProbs: [...record.logProbs.slice(0, n)] };
}

/** Two turns with a tool's answer in between. */
async function episode(conversation: Conversation, sample: number): Promise<void> {
  await conversation.generate(tinyTurn(sample));
  conversation.extend(tinyTokens(sample + 40, 3 + (sample % 37)));
  await conversation.generate(tinyTurn(sample));
}

describe("Engine", () => {
  it("records the log-probabilities that a full forward pass computes, bit for bit", async () => {
    const engine = engineOf(fixedWeights(first));
    const conversations = Array.from({ length: 9 }, (_, i) => engine.open(tinyTokens(i, 1 + i * 9)));
    await Promise.all(conversations.map(episode));
    for (const { record } of conversations) {
      expect(recorded(record)).toEqual(await recompute(device, record, first));
    }
    await engine.destroy();
  });

  it("gives an episode the same tokens whatever runs beside it and however prompts are chunked", async () => {
    const alone = await Promise.all(
      [0, 1, 2, 3].map(async (sample) => {
        const engine = engineOf(fixedWeights(first));
        const conversation = engine.open(tinyTokens(7, 45));
        await episode(conversation, sample);
        const got = snapshot(conversation);
        await engine.destroy();
        return got;
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 24, max: 130 }), fc.nat(12), async (maxRows, others) => {
        const engine = engineOf(fixedWeights(first), maxRows);
        const beside = Array.from({ length: others }, (_, i) => engine.open(tinyTokens(50 + i, 3 + 11 * i)));
        const noise = beside.map((conversation, i) => conversation.generate(tinyTurn(100 + i, 5 + i)));
        const root = engine.open(tinyTokens(7, 45));
        await root.prefill();
        const forks = [0, 1, 2, 3].map(() => root.fork());
        root.close();
        await Promise.all(forks.map(episode));
        await Promise.all(noise);
        expect(forks.map(snapshot)).toEqual(alone);
        await engine.destroy();
      }),
      { numRuns: 12 },
    );
  });

  it("takes new weights between steps without stopping an episode, and stamps what each token was made with", async () => {
    let current = { version: 4, weights: first };
    const engine = engineOf({ latest: () => current, close: () => {} });
    const conversation = engine.open(tinyTokens(1, 20));
    await conversation.generate({ ...tinyTurn(0, 6), stopTokens: [] });
    current = { version: 5, weights: second };
    await conversation.generate({ ...tinyTurn(0, 6), stopTokens: [] });
    const { record } = conversation;
    const stamps = [...record.version.subarray(20, 32)];
    expect(stamps).toEqual([4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5]);
    expect([...record.oldestVersion.subarray(20, 32)]).toEqual(Array(12).fill(4));
    expect(engine.stats.weightUpdates).toBe(1);
    expect(engine.stats.abortedTokens).toBe(0);
    // The first six compare under version 4; the others were made on its keys and values by version 5, and must not.
    const old = await recompute(device, record, first);
    expect(recorded(record).slice(0, 6)).toEqual(old.slice(0, 6));
    expect(recorded(record).slice(6)).not.toEqual(old.slice(6));
    await engine.destroy();
  });

  it("samples differently before and after an update: nothing of the old weights is left in a new conversation", async () => {
    let current = { version: 0, weights: first };
    const engine = engineOf({ latest: () => current, close: () => {} });
    const play = async () => {
      const conversation = engine.open(tinyTokens(3, 33));
      await conversation.generate({ ...tinyTurn(2, 10), stopTokens: [] });
      const { record } = conversation;
      conversation.close();
      return record;
    };
    await play();
    current = { version: 1, weights: second };
    const record = await play();
    expect(recorded(record)).toEqual(await recompute(device, record, second));
    await engine.destroy();
  });

  it("ends a turn at a stop token, at its budget, and at the context's end, and says which", async () => {
    const engine = new Engine({
      device,
      config: tinyConfig,
      weights: fixedWeights(first),
      maxConversations: 4,
      contextLimit: 40,
    });
    const any = [...Array(97).keys()];
    const stopped = engine.open(tinyTokens(1, 10));
    expect(await stopped.generate(tinyTurn(0, 20, any))).toBe("stop");
    expect(stopped.length).toBe(11);
    const budget = engine.open(tinyTokens(1, 10));
    expect(await budget.generate(tinyTurn(0, 7, []))).toBe("length");
    expect(budget.length).toBe(17);
    const full = engine.open(tinyTokens(1, 30));
    expect(await full.generate(tinyTurn(0, 50, []))).toBe("context");
    expect(full.length).toBe(40);
    expect(await full.generate(tinyTurn(0, 50, []))).toBe("context");
    expect(() => full.extend([1])).toThrow(/outgrow its context/);
    await engine.destroy();
  });

  it("gives every page back, though conversations are forked, cut off and closed at any time", async () => {
    const engine = new Engine({
      device,
      config: tinyConfig,
      weights: fixedWeights(first),
      maxConversations: 6,
      contextLimit: 96,
    });
    for (let round = 0; round < 30; round++) {
      const root = engine.open(tinyTokens(round, 20 + (round % 30)));
      if (round % 3 !== 0) await root.prefill();
      const forks = [0, 1, 2, 3, 4].map(() => root.fork());
      const turns = forks.map((fork, i) => fork.generate(tinyTurn(i, 10, [])).catch((error: Error) => error.message));
      root.close();
      if (round % 2 === 0) forks[round % 5]!.close();
      const ends = await Promise.all(turns);
      expect(ends.filter((end) => end === "length").length).toBe(round % 2 === 0 ? 4 : 5);
      for (const fork of forks) fork.close();
      expect(engine.openConversations).toBe(0);
    }
    const whole = Array.from({ length: 6 }, (_, i) => engine.open(tinyTokens(i, 95)));
    await Promise.all(whole.map((conversation) => conversation.prefill()));
    expect(() => engine.open([1])).toThrow(/Too many conversations/);
    await engine.destroy();
  });
});
