import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sleep, within } from "../../src/pipeline/clock.ts";
import { VirtualClock } from "../../src/simulator/virtual-clock.ts";

const never = new Promise<never>(() => {});

describe("VirtualClock", () => {
  it("brings events to pass in the order of their moments, equal ones in the order they were asked for", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.record({ ms: fc.nat(20), cancelled: fc.boolean() })), async (asked) => {
        const clock = new VirtualClock();
        const got: [number, number][] = [];
        const timers = asked.map(({ ms }, i) => clock.after(ms, () => got.push([clock.now(), i])));
        for (const [i, { cancelled }] of asked.entries()) if (cancelled) timers[i]!.cancel();
        expect(await clock.run(never)).toBe("nothing");
        const expected = asked
          .map(({ ms, cancelled }, i) => ({ at: ms, i, cancelled }))
          .filter(({ cancelled }) => !cancelled)
          .sort((a, b) => a.at - b.at || a.i - b.i);
        expect(got).toEqual(expected.map(({ at, i }) => [at, i]));
      }),
      { numRuns: 30 },
    );
  });

  it("lets what an event sets going come to its end before the next", async () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    const work = (async () => {
      await sleep(clock, 10);
      for (let i = 0; i < 50; i++) await null;
      seen.push("first");
      await sleep(clock, 1);
    })();
    clock.after(10, () => seen.push("second"));
    expect(await clock.run(work)).toBe("settled");
    expect(seen).toEqual(["first", "second"]);
    expect(clock.now()).toBe(11);
  });

  it("makes due at once what a leap of all clocks has passed over", async () => {
    const clock = new VirtualClock();
    const late = within(clock, 500, never, () => new Error("late")).catch((error: Error) => error.message);
    clock.after(100, () => clock.jump(3_600_000));
    expect(await clock.run(late)).toBe("settled");
    expect(await late).toBe("late");
    expect(clock.now()).toBe(3_600_100);
  });
});
