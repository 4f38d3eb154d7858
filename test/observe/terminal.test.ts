import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../src/observe/events.ts";
import { formatCount, formatDuration, formatProgress, type Progress, Terminal } from "../../src/observe/terminal.ts";

const progress: Progress = {
  step: 7,
  steps: 120,
  rewards: { dbbench: 0.4249, kg: -0.05 },
  maxLag: 2,
  tokensPerSecond: 3149,
  etaSeconds: 754,
  mismatch: 0,
};

const step = (n: number, reward = 0.5, sampledTokens = 1000): RunEvent => ({
  type: "step",
  metrics: { step: n, tasks: { kg: { reward } }, maxLag: 1, sampledTokens, mismatch: 0 },
});

/** A terminal with a clock set by hand. */
function watch(isTTY: boolean, columns = 80) {
  let text = "";
  let time = 0;
  const terminal = new Terminal({
    out: { isTTY, columns, write: (more: string) => (text += more) },
    now: () => time,
  });
  return {
    terminal,
    at: (ms: number, event: RunEvent) => {
      time = ms;
      terminal.handle(event);
    },
    text: () => text,
  };
}

describe("the progress line", () => {
  it("shows step, reward per task, lag, speed and time left", () => {
    expect(formatProgress(progress)).toBe("step   7/120  dbbench 0.42  kg -0.05  lag 2  3.1k tok/s  ETA 12:34");
  });

  it("shows a mismatch only when there is one", () => {
    expect(formatProgress({ ...progress, mismatch: 0.00012 })).toContain("MISMATCH 1.2e-4");
  });

  it("says nothing of what is not known yet", () => {
    const fresh = { ...progress, rewards: {}, tokensPerSecond: null, etaSeconds: null };
    expect(formatProgress(fresh)).toBe("step   7/120  lag 2");
  });

  it("leaves out what matters least, and fits any width", () => {
    expect(formatProgress(progress, 55)).toBe("step   7/120  dbbench 0.42  kg -0.05  lag 2  ETA 12:34");
    expect(formatProgress(progress, 45)).toBe("step   7/120  dbbench 0.42  kg -0.05");
    fc.assert(
      fc.property(
        fc.record({
          step: fc.nat(),
          steps: fc.nat(),
          rewards: fc.dictionary(fc.string({ maxLength: 12 }), fc.double({ min: -9, max: 9, noNaN: true })),
          maxLag: fc.nat(99),
          tokensPerSecond: fc.option(fc.double({ min: 0, max: 1e9, noNaN: true })),
          etaSeconds: fc.option(fc.double({ min: 0, max: 1e7, noNaN: true })),
          mismatch: fc.double({ min: 0, max: 1, noNaN: true }),
        }),
        fc.integer({ min: 1, max: 200 }),
        (any, width) => {
          const line = formatProgress(any, width);
          expect(line.length).toBeLessThanOrEqual(width);
          const head = `step ${String(any.step).padStart(String(any.steps).length)}/${any.steps}`.slice(0, width);
          expect(line.slice(0, head.length)).toBe(head);
        },
      ),
    );
  });

  it.each([
    [0, "0:00"],
    [59.6, "1:00"],
    [754, "12:34"],
    [3599.4, "59:59"],
    [10_800, "3:00:00"],
  ])("%d seconds are %s", (seconds, text) => expect(formatDuration(seconds)).toBe(text));

  it.each([
    [0, "0"],
    [999, "999"],
    [1000, "1.0k"],
    [999_949, "999.9k"],
    [999_950, "1.0M"],
  ])("%d tokens are %s", (value, text) => expect(formatCount(value)).toBe(text));
});

describe("on a terminal", () => {
  it("redraws one line, of at most the terminal's width, and ends it once", () => {
    const { terminal, at, text } = watch(true, 40);
    at(0, { type: "started", step: 0, steps: 3 });
    for (const n of [1, 2, 3]) at(n * 1000, step(n));
    at(3000, { type: "finished" });
    terminal.close();
    const lines = text().split("\r\x1b[2K");
    expect(lines).toHaveLength(5);
    expect(lines.slice(0, -1).join("")).not.toContain("\n");
    expect(lines.at(-1)).toBe("step 3/3  kg 0.50  lag 1  ETA 0:00\n");
    for (const line of lines) expect(line.trimEnd().length).toBeLessThan(40);
  });

  it("prints notices above the live line", () => {
    const { at, text } = watch(true);
    at(0, { type: "started", step: 0, steps: 3 });
    at(1000, step(1));
    at(1500, { type: "notice", message: "rollout 0 is restarted" });
    expect(text()).toContain("\r\x1b[2Krollout 0 is restarted\n\r\x1b[2Kstep 1/3");
  });

  it("derives speed and time left from the last ten steps", () => {
    const { at, text } = watch(true, 200);
    at(0, { type: "started", step: 0, steps: 100 });
    // Ten slow steps, then ten of 2 s and 3000 tokens each: only those count.
    for (let n = 1; n <= 10; n++) at(n * 30_000, step(n, 0));
    for (let n = 1; n <= 10; n++) at(300_000 + n * 2000, step(10 + n, 1, 3000));
    expect(text().split("\r\x1b[2K").at(-1)).toBe("step  20/100  kg 1.00  lag 1  1.5k tok/s  ETA 2:40");
  });

  it("of a resumed run counts from where it resumed", () => {
    const { at, text } = watch(true, 200);
    at(0, { type: "started", step: 50, steps: 60 });
    at(2000, step(51, 0.25, 100));
    expect(text()).toMatch(/step 51\/60 {2}kg 0.25 {2}lag 1 {2}50 tok\/s {2}ETA 0:18$/);
  });
});

describe("without a terminal", () => {
  it("prints a plain line every few seconds, and the last one always", () => {
    const { terminal, at, text } = watch(false);
    at(0, { type: "started", step: 0, steps: 4 });
    at(1000, step(1));
    at(2000, step(2));
    at(6500, step(3));
    at(7000, step(4));
    at(7000, { type: "checkpoint", step: 4, folder: "run/checkpoints/4" });
    at(7000, { type: "finished" });
    terminal.close();
    expect(
      text()
        .split("\n")
        .map((line) => line.slice(0, 8)),
    ).toEqual(["step 1/4", "step 3/4", "step 4: ", "step 4/4", ""]);
    expect(text()).not.toContain("\r");
    expect(text()).not.toContain("\x1b");
  });

  it("prints evaluations", () => {
    const { at, text } = watch(false);
    at(0, { type: "evaluated", step: 10, reports: [{ task: "kg", success: 0.625, episodes: 8 }] });
    expect(text()).toBe("step 10: held-out success kg 62.5 %\n");
  });
});
