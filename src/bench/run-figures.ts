/** What the metrics of a training run say of its speed: rates of a part of it, and shares of its time over its course. */
import type { RunStep } from "../pipeline/train.ts";

/** What is read of a line of metrics.jsonl. */
export type TimedStep = Pick<
  RunStep,
  "step" | "elapsed" | "sampledTokens" | "trainedTokens" | "meanLag" | "maxLag" | "utilisation"
>;

/** Steps after `from` up to and including `to`: from the end of one to the end of the other. */
export interface Window {
  from: number;
  to: number;
}

export interface Figures {
  window: Window;
  /** Of all sampled tokens in the batches that were trained, those of groups without a signal included. */
  tokensPerSecond: number;
  /** Of those that carried gradient. */
  gradientTokensPerSecond: number;
  secondsPerStep: number;
  /** Mean over the steps, weighted by tokens; the largest of any token. */
  lag: { mean: number; max: number };
  /** Share of the window's time in which learner and engines computed. */
  utilisation: { learner: number; engine: number };
}

/** @param steps of one session, from the first. */
export function figuresOf(steps: readonly TimedStep[], window: Window): Figures {
  const inside = steps.filter(({ step }) => step > window.from && step <= window.to);
  const seconds = endOf(steps, window.to) - endOf(steps, window.from);
  const sum = (of: (step: TimedStep) => number) => inside.reduce((total, step) => total + of(step), 0);
  const tokens = sum(({ sampledTokens }) => sampledTokens);
  return {
    window,
    tokensPerSecond: tokens / seconds,
    gradientTokensPerSecond: sum(({ trainedTokens }) => trainedTokens) / seconds,
    secondsPerStep: seconds / inside.length,
    lag: {
      mean: sum(({ meanLag, sampledTokens }) => meanLag * sampledTokens) / tokens,
      max: Math.max(...inside.map(({ maxLag }) => maxLag)),
    },
    utilisation: {
      learner: shareBetween(steps, endOf(steps, window.from), endOf(steps, window.to), learnerOf),
      engine: shareBetween(steps, endOf(steps, window.from), endOf(steps, window.to), engineOf),
    },
  };
}

/** Shares of the time in which learner and engines computed, in so many equal parts of the run's time. */
export function courseOf(steps: readonly TimedStep[], parts = 10): { learner: number[]; engine: number[] } {
  const end = steps.at(-1)?.elapsed ?? 0;
  const course = (of: (step: TimedStep) => number | null) =>
    Array.from({ length: parts }, (_, i) => shareBetween(steps, (end * i) / parts, (end * (i + 1)) / parts, of));
  return { learner: course(learnerOf), engine: course(engineOf) };
}

/** Shares as bars of eighths: 0 is a blank of its own kind, so that a row keeps its width. */
export function bars(shares: readonly number[]): string {
  return shares.map((share) => "▁▂▃▄▅▆▇█"[Math.min(7, Math.floor(share * 8))]).join("");
}

function learnerOf({ utilisation }: TimedStep): number {
  return utilisation.learner;
}

function engineOf({ utilisation }: TimedStep): number | null {
  return utilisation.engine;
}

/** Mean over the time from `begin` to `end`, in which every step has its share; one that is not known has the next one's. */
function shareBetween(
  steps: readonly TimedStep[],
  begin: number,
  end: number,
  of: (step: TimedStep) => number | null,
): number {
  let busy = 0;
  let share = 0;
  for (const [i, { elapsed }] of [...steps.entries()].reverse()) {
    share = of(steps[i]!) ?? share;
    const started = steps[i - 1]?.elapsed ?? 0;
    busy += share * Math.max(0, Math.min(end, elapsed) - Math.max(begin, started));
  }
  return busy / (end - begin);
}

/** Seconds from the run's start to the end of the step; 0 is the start. */
function endOf(steps: readonly TimedStep[], step: number): number {
  return step === 0 ? 0 : steps.find((one) => one.step === step)!.elapsed;
}
