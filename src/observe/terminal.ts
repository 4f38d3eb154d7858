/**
 * The run as a person watches it: one live line on a terminal, and plain lines, a few seconds apart, where the output
 * goes to a file or a pipe.
 */
import type { RunEvent } from "./events.ts";

export interface Progress {
  step: number;
  steps: number;
  /** Mean reward over the last steps, by task. */
  rewards: Record<string, number>;
  maxLag: number;
  tokensPerSecond: number | null;
  etaSeconds: number | null;
  /** Shown only when it is not 0. */
  mismatch: number;
}

/** Steps over which rewards, speed and time per step are averaged. */
const windowSteps = 10;
const plainIntervalMs = 5000;

/** One line of at most `width` columns; what matters least is left out first. */
export function formatProgress(progress: Progress, width = Number.POSITIVE_INFINITY): string {
  const { step, steps, rewards, maxLag, tokensPerSecond, etaSeconds, mismatch } = progress;
  // In the order of display; `rank` 0 is never left out.
  const parts = [
    { rank: 0, text: `step ${String(step).padStart(String(steps).length)}/${steps}` },
    ...(mismatch === 0 ? [] : [{ rank: 1, text: `MISMATCH ${mismatch.toExponential(1)}` }]),
    ...Object.entries(rewards).map(([task, reward]) => ({ rank: 2, text: `${task} ${signed(reward)}` })),
    { rank: 4, text: `lag ${maxLag}` },
    ...(tokensPerSecond === null ? [] : [{ rank: 5, text: `${formatCount(tokensPerSecond)} tok/s` }]),
    ...(etaSeconds === null ? [] : [{ rank: 3, text: `ETA ${formatDuration(etaSeconds)}` }]),
  ];
  const line = () => parts.map((part) => part.text).join("  ");
  while (line().length > width && parts.some((part) => part.rank > 0)) {
    const least = parts.reduce((a, b) => (b.rank >= a.rank ? b : a));
    parts.splice(parts.indexOf(least), 1);
  }
  return line().slice(0, width);
}

/** 950, 3.1k, 12.0M. */
export function formatCount(value: number): string {
  if (value < 1000) return value.toFixed(0);
  return value < 999_950 ? `${(value / 1e3).toFixed(1)}k` : `${(value / 1e6).toFixed(1)}M`;
}

/** 0:07, 12:30, 3:00:00. */
export function formatDuration(seconds: number): string {
  const total = Math.round(seconds);
  const two = (n: number) => String(n).padStart(2, "0");
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

function signed(reward: number): string {
  const text = reward.toFixed(2);
  return text === "-0.00" ? "0.00" : text;
}

export interface TerminalOptions {
  out: { write(text: string): unknown; isTTY?: boolean; columns?: number };
  /** Milliseconds. */
  now?: () => number;
}

export class Terminal {
  readonly #out: TerminalOptions["out"];
  readonly #now: () => number;
  readonly #live: boolean;
  /** When each of the last steps ended, and the tokens it trained. */
  readonly #ends: { at: number; tokens: number }[] = [];
  readonly #rewards = new Map<string, number[]>();
  #progress: Progress = {
    step: 0,
    steps: 0,
    rewards: {},
    maxLag: 0,
    tokensPerSecond: null,
    etaSeconds: null,
    mismatch: 0,
  };
  #lastPlain = Number.NEGATIVE_INFINITY;
  /** Step of the last line printed without a terminal. */
  #printed = -1;
  #drawn = false;

  constructor({ out, now = () => performance.now() }: TerminalOptions) {
    this.#out = out;
    this.#now = now;
    this.#live = out.isTTY === true;
  }

  handle(event: RunEvent): void {
    switch (event.type) {
      case "started":
        this.#progress = { ...this.#progress, step: event.step, steps: event.steps };
        this.#ends.push({ at: this.#now(), tokens: 0 });
        this.#draw();
        break;
      case "step":
        this.#step(event.metrics);
        break;
      case "evaluated": {
        const results = event.reports.map(
          ({ task, success }) =>
            `${task} ${success === null ? "could not be played" : `${(100 * success).toFixed(1)} %`}`,
        );
        this.#say(`step ${event.step}: held-out success ${results.join(", ")}`);
        break;
      }
      case "checkpoint":
        // On the live line a checkpoint is routine; in a log it is what one looks for.
        if (!this.#live) this.#say(`step ${event.step}: checkpoint ${event.folder}`);
        break;
      case "notice":
        this.#say(event.message);
        break;
      case "finished":
        this.close();
        break;
    }
  }

  /** Leaves the last line standing; safe to call twice. */
  close(): void {
    if (this.#drawn) this.#out.write("\n");
    else if (!this.#live && this.#progress.step > 0 && this.#printed < this.#progress.step) this.#plain();
    this.#drawn = false;
  }

  #step(metrics: Extract<RunEvent, { type: "step" }>["metrics"]): void {
    this.#ends.push({ at: this.#now(), tokens: metrics.sampledTokens });
    if (this.#ends.length > windowSteps + 1) this.#ends.shift();
    for (const [task, { reward }] of Object.entries(metrics.tasks)) {
      const recent = this.#rewards.get(task) ?? [];
      recent.push(reward);
      if (recent.length > windowSteps) recent.shift();
      this.#rewards.set(task, recent);
    }
    const first = this.#ends[0]!;
    const seconds = (this.#ends.at(-1)!.at - first.at) / 1000;
    const tokens = this.#ends.reduce((sum, end) => sum + end.tokens, 0) - first.tokens;
    const timed = this.#ends.length > 1 && seconds > 0;
    const { steps, mismatch } = this.#progress;
    const average = ([task, list]: [string, number[]]) =>
      [task, list.reduce((a, b) => a + b, 0) / list.length] as const;
    this.#progress = {
      step: metrics.step,
      steps,
      rewards: Object.fromEntries([...this.#rewards].sort(([a], [b]) => (a < b ? -1 : 1)).map(average)),
      maxLag: metrics.maxLag,
      tokensPerSecond: timed ? tokens / seconds : null,
      etaSeconds: timed ? (seconds / (this.#ends.length - 1)) * Math.max(0, steps - metrics.step) : null,
      mismatch: Math.max(mismatch, metrics.mismatch ?? 0),
    };
    this.#draw();
  }

  #draw(): void {
    if (this.#live) {
      // The last column is left free: writing it wraps the cursor on some terminals.
      const width = (this.#out.columns ?? 80) - 1;
      this.#out.write(`\r\x1b[2K${formatProgress(this.#progress, width)}`);
      this.#drawn = true;
    } else if (this.#progress.step > 0 && this.#now() - this.#lastPlain >= plainIntervalMs) {
      this.#plain();
    }
  }

  #plain(): void {
    this.#out.write(`${formatProgress(this.#progress)}\n`);
    this.#lastPlain = this.#now();
    this.#printed = this.#progress.step;
  }

  #say(message: string): void {
    if (!this.#drawn) {
      this.#out.write(`${message}\n`);
      return;
    }
    this.#out.write(`\r\x1b[2K${message}\n`);
    this.#draw();
  }
}
