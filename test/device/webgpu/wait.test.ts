import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { WaitEstimates } from "../../../src/device/webgpu/wait.ts";

/** Milliseconds that one wait takes for work that is done `ms` after it was asked for. */
async function timed(waits: WaitEstimates, ms: number, cold = false): Promise<number> {
  const started = performance.now();
  const work = delay(ms);
  await waits.wait("step", cold, () => work);
  return performance.now() - started;
}

describe("waiting for the device", () => {
  it("forgets one slow wait: the next of the kind are not slept away", async () => {
    const waits = new WaitEstimates();
    await timed(waits, 5);
    await timed(waits, 400);
    expect(await timed(waits, 5)).toBeLessThan(200);
  });

  it("does not take work that was compiled on the way for what is to be expected", async () => {
    const waits = new WaitEstimates();
    await timed(waits, 400, true);
    expect(await timed(waits, 5)).toBeLessThan(200);
  });

  it("comes down at once where the work became shorter", async () => {
    const waits = new WaitEstimates();
    for (let i = 0; i < 4; i++) await timed(waits, 160);
    const times = [];
    for (let i = 0; i < 4; i++) times.push(await timed(waits, 1));
    // Halved each time: 128 ms slept, then 64 and so on.
    expect(times[3]!).toBeLessThan(80);
  });
});
