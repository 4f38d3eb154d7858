/** What rollout processes sample with is what the learner published, or they do not sample. */
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { NativeDevice } from "../../src/device/native.ts";
import { AgentRLError } from "../../src/errors.ts";
import { Engine } from "../../src/generate/engine.ts";
import { initWeights } from "../../src/model/init.ts";
import { parameterLayout } from "../../src/model/parameters.ts";
import { boardWeights, staleWeights } from "../../src/pipeline/board-weights.ts";
import { WeightCheck } from "../../src/pipeline/weight-check.ts";
import { WeightBoard } from "../../src/shm/weight-board.ts";
import { tinyConfig, tinyTokens, tinyTurn } from "../generate/tiny-model.ts";

const device = new NativeDevice({ threads: 1 });
const boards: WeightBoard[] = [];
afterAll(() => {
  device.destroy();
  for (const board of boards) {
    board.close();
    board.unlink();
  }
});

const model = { config: tinyConfig, lora: null, base: null };
let board: WeightBoard;
let check: WeightCheck;
let name: string;

/** Publishes and returns the slot's memory, which nobody but this test may write to. */
function publish(version: number): Float32Array {
  const slot = board.beginWrite();
  slot.data.set(initWeights(tinyConfig, version + 1));
  board.publish(slot, version);
  return slot.data;
}

const source = () => boardWeights({ device, model, board: name, first: 0, timeoutMs: 1_000, check });

function errorOf(work: () => unknown): AgentRLError {
  try {
    work();
  } catch (error) {
    if (error instanceof AgentRLError) return error;
    throw error;
  }
  throw new Error("not refused");
}

beforeEach(() => {
  name = `/agentrl-test-${process.pid}-check${boards.length}`;
  board = WeightBoard.create({ name, slots: 4, bytes: 4 * parameterLayout(tinyConfig).length });
  boards.push(board);
  check = new WeightCheck();
});

describe("weights from the board", () => {
  it("are verified once a version, whoever takes them", async () => {
    publish(0);
    const newest = await source();
    const stale = staleWeights({ device, model, board: name, every: 2, check });
    for (let i = 0; i < 3; i++) newest.latest();
    expect(stale.latest().version).toBe(0);
    expect(check.verified).toBe(1);
    publish(1);
    expect([newest.latest().version, stale.latest().version]).toEqual([1, 0]);
    expect(check.verified).toBe(2);
    newest.close();
    stale.close();
  });

  it("that were overwritten by hand are found, by one bit of one of them", async () => {
    publish(0);
    const weights = await source();
    const slot = publish(1);
    const bits = new Uint32Array(slot.buffer, slot.byteOffset, slot.length);
    bits[bits.length - 7]! ^= 1;
    const error = errorOf(() => weights.latest());
    expect(error.code).toBe("SHARED_MEMORY");
    expect(error.message).toContain("not those that the learner published");
    expect(error.detail.where).toBe(`weight board ${name}, version 1`);
    // As it was, it is the learner's again.
    bits[bits.length - 7]! ^= 1;
    expect(weights.latest().version).toBe(1);
    expect(check.verified).toBe(2);
    weights.close();
  });

  it("that a stale copy stands at are checked as well", () => {
    const slot = publish(0);
    publish(1);
    slot[0]! += 1;
    const stale = staleWeights({ device, model, board: name, every: 2, check });
    expect(errorOf(() => stale.latest()).detail.where).toContain("version 0");
    stale.close();
  });

  it("that are not the learner's end what is being generated, with their cause", async () => {
    publish(0);
    const weights = await source();
    const engine = new Engine({ device, config: tinyConfig, weights, maxConversations: 1, contextLimit: 400 });
    const conversation = engine.open(tinyTokens(1, 9));
    await conversation.generate(tinyTurn(0, 5, []));
    publish(1)[3] = 0.5;
    await expect(conversation.generate(tinyTurn(0, 5, []))).rejects.toThrow(/not those that the learner published/);
    conversation.close();
    await engine.destroy();
  });
});
