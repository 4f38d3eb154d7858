import { expect, it } from "vitest";
import { lengthOf } from "../../src/bench/async.ts";
import { bars, courseOf, figuresOf, type TimedStep } from "../../src/bench/run-figures.ts";

/** Ends at 2, 4, 5 and 10 seconds. */
const steps: TimedStep[] = [
  { step: 1, elapsed: 2, sampledTokens: 100, trainedTokens: 50, meanLag: 0, maxLag: 0, learner: 0.5, engine: null },
  { step: 2, elapsed: 4, sampledTokens: 100, trainedTokens: 60, meanLag: 1, maxLag: 2, learner: 1, engine: 0.25 },
  { step: 3, elapsed: 5, sampledTokens: 300, trainedTokens: 90, meanLag: 2, maxLag: 3, learner: 0, engine: 1 },
  { step: 4, elapsed: 10, sampledTokens: 200, trainedTokens: 40, meanLag: 4, maxLag: 4, learner: 0.4, engine: 0.2 },
].map(({ learner, engine, ...step }) => ({ ...step, utilisation: { learner, engine } }));

it("counts the tokens of the steps of a window over the time between their ends", () => {
  const { tokensPerSecond, gradientTokensPerSecond, secondsPerStep, lag, utilisation } = figuresOf(steps, {
    from: 1,
    to: 3,
  });
  // Steps 2 and 3, which took 3 seconds.
  expect(tokensPerSecond).toBeCloseTo(400 / 3, 12);
  expect(gradientTokensPerSecond).toBeCloseTo(150 / 3, 12);
  expect(secondsPerStep).toBe(1.5);
  expect(lag).toEqual({ mean: (100 * 1 + 300 * 2) / 400, max: 3 });
  expect(utilisation.learner).toBeCloseTo((2 * 1 + 1 * 0) / 3, 12);
  expect(utilisation.engine).toBeCloseTo((2 * 0.25 + 1 * 1) / 3, 12);
});

it("counts a window from the run's start", () => {
  expect(figuresOf(steps, { from: 0, to: 4 }).tokensPerSecond).toBe(70);
});

it("spreads the shares over equal parts of the run; what was not reported yet is the next step's", () => {
  const { learner, engine } = courseOf(steps, 5);
  expect(learner).toEqual([0.5, 1, expect.closeTo((0 * 1 + 0.4 * 1) / 2, 12), 0.4, 0.4]);
  expect(engine).toEqual([0.25, 0.25, expect.closeTo((1 + 0.2) / 2, 12), 0.2, 0.2]);
});

it("draws a share as one of eight bars", () => {
  expect(bars([0, 0.12, 0.13, 0.5, 0.99, 1])).toBe("▁▁▂▅██");
});

it("times a pipeline that runs ahead when it is full: not while it fills, not while it runs dry", () => {
  // Synchronous: all steps but the first.
  expect(lengthOf(16, 0)).toEqual({ steps: 16, window: { from: 1, to: 16 } });
  expect(lengthOf(1, 0)).toEqual({ steps: 2, window: { from: 1, to: 2 } });
  // 8 ahead: the 9 steps that were issued at once are left out, and so are the last 8.
  expect(lengthOf(16, 8)).toEqual({ steps: 35, window: { from: 9, to: 27 } });
  expect(lengthOf(40, 8)).toEqual({ steps: 48, window: { from: 9, to: 40 } });
});
