/** How long a step may take: the environment's own word counts, whoever plays its episodes. */
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Environment, StepResult } from "../../src/env/environment.ts";
import { openOffLoop } from "../../src/env/off-loop.ts";
import { playEpisodes } from "../../src/pipeline/eval-episodes.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

const ended: StepResult = { messages: [], reward: 1, done: true, endReason: "completed" };

/** Each step takes this long. */
function slow(stepMs: number, stepTimeoutMs?: number): Environment {
  return {
    name: "slow",
    tools: [],
    maxTurns: 1,
    ...(stepTimeoutMs !== undefined && { stepTimeoutMs }),
    split: (name) => ({ name, indices: [0], hash: "" }),
    level: () => 0,
    start: async () => ({
      messages: [],
      step: () => new Promise((resolve) => setTimeout(() => resolve(ended), stepMs)),
      close: async () => {},
    }),
    close: async () => {},
  };
}

async function play(environment: Environment) {
  const playing = playEpisodes({
    environment,
    split: "eval",
    refs: [{ run: 0, position: 0, index: 0 }],
    player: {
      async play({ session }) {
        return { endReason: (await session.step({ text: "", calls: [] })).endReason! };
      },
    },
    maxTurns: 1,
    concurrency: 1,
    seed: 1,
    tries: 1,
  });
  await vi.advanceTimersByTimeAsync(200_000);
  const [episode] = await playing;
  return episode;
}

it("a step of 59 s is waited for, one of 61 s is a fault of the environment", async () => {
  expect(await play(slow(59_000))).toMatchObject({ type: "episode", reward: 1 });
  expect(await play(slow(61_000))).toMatchObject({ type: "fault", error: expect.stringContaining("within 60000 ms") });
});

it("an environment that allows itself more is waited for, until a little after its own deadline", async () => {
  expect(await play(slow(89_000, 90_000))).toMatchObject({ type: "episode", reward: 1 });
  expect(await play(slow(96_000, 90_000))).toMatchObject({ type: "fault", error: expect.stringContaining("95000 ms") });
});

it("a file's stepTimeoutMs is what its environment says", async () => {
  vi.useRealTimers();
  const guess = fileURLToPath(new URL("../env/fixtures/guess.ts", import.meta.url));
  const environment = await openOffLoop(guess, {});
  expect(environment.stepTimeoutMs).toBe(2500);
  await environment.close();
});
