/** What a run tells of itself: lines of metrics.jsonl, events, and the sums of its summary. */
import type { EvalReport } from "../env/report.ts";
import type { AgentRLError } from "../errors.ts";
import type { RunEvent } from "../observe/events.ts";
import type { Clock } from "./clock.ts";
import type { FaultCounts } from "./faults.ts";
import type { StepMetrics } from "./step-metrics.ts";

/** A line of metrics.jsonl. */
export interface RunStep extends StepMetrics {
  /** Seconds since the run (or its resumption) began. */
  elapsed: number;
  /** Trained tokens per second of the last step's wall time, waiting included. */
  tokensPerSecond: number;
  /**
   * Share of the step's wall time in which the learner trained, and in which the engines computed (mean over the rollout
   * processes, between their last reports; null when none has reported since the step before).
   */
  utilisation: { learner: number; engine: number | null };
  /** Share of each task in the groups that are drawn next. */
  samplingWeights: Record<string, number>;
  abortedTokens: number;
  /** Groups thrown away as too old (staleness.overdue: drop), and the sampled tokens of theirs that had arrived. */
  droppedGroups: number;
  droppedTokens: number;
  /** Versions of the weights that rollout processes found to be what the learner published, summed over the processes. */
  weightsVerified: number;
  /** Bytes of the episodes that wait to be trained. */
  bufferBytes: number;
  /** What has gone wrong since the run (or its resumption) began, and was put right. */
  faults: FaultCounts;
  /** Present on steps that were evaluated. */
  evaluation?: EvalReport[];
}

/** What the supervisor adds to a step's metrics. */
export type StepContext = Omit<
  RunStep,
  keyof StepMetrics | "elapsed" | "tokensPerSecond" | "utilisation" | "evaluation"
> & { engineShare: number | null };

export interface LineSink {
  write(line: RunStep): void;
  /** Where lines may wait for room on the disk: why they still do, or null. */
  drain?(): AgentRLError | null;
}

export class RunLog {
  readonly #clock: Clock;
  readonly #sink: LineSink;
  readonly #emit: (event: RunEvent) => void;
  readonly #startedAt: number;
  #lastStepAt: number;
  /** Lines whose step is being evaluated, by step. */
  readonly #evaluating = new Map<number, RunStep>();
  readonly #said = new Set<string>();
  readonly totals = { sampledTokens: 0, mismatch: 0, mismatchTokens: 0, maxLag: 0 };

  constructor(options: { clock: Clock; sink: LineSink; emit: (event: RunEvent) => void }) {
    this.#clock = options.clock;
    this.#sink = options.sink;
    this.#emit = options.emit;
    this.#startedAt = this.#clock.now();
    this.#lastStepAt = this.#startedAt;
  }

  get seconds(): number {
    return (this.#clock.now() - this.#startedAt) / 1000;
  }

  /** Steps whose evaluations are under way. */
  get evaluating(): IterableIterator<number> {
    return this.#evaluating.keys();
  }

  notice(message: string): void {
    this.#emit({ type: "notice", message });
  }

  /** The first of what may come again and again. */
  noticeOnce(kind: string, message: string): void {
    if (this.#said.has(kind)) return;
    this.#said.add(kind);
    this.notice(message);
  }

  checkpoint(step: number, folder: string): void {
    this.#emit({ type: "checkpoint", step, folder });
  }

  /** @param evaluated The line is written again when its evaluation is in: of a step's lines the last one counts. */
  step(metrics: StepMetrics, { engineShare, ...context }: StepContext, evaluated: boolean): void {
    const now = this.#clock.now();
    const wallMs = now - this.#lastStepAt;
    const line: RunStep = {
      ...metrics,
      elapsed: this.seconds,
      tokensPerSecond: metrics.sampledTokens / (wallMs / 1000),
      // A message that came late makes the next step look shorter than it was.
      utilisation: { learner: Math.min(1, metrics.timings.step / wallMs), engine: engineShare },
      ...context,
    };
    this.#lastStepAt = now;
    const { totals } = this;
    totals.sampledTokens += metrics.sampledTokens;
    totals.mismatchTokens += metrics.mismatchTokens;
    totals.mismatch = Math.max(totals.mismatch, metrics.mismatch ?? 0);
    totals.maxLag = Math.max(totals.maxLag, metrics.maxLag);
    this.#sink.write(line);
    if (evaluated) this.#evaluating.set(metrics.step, line);
    this.#emit({ type: "step", metrics: line });
  }

  evaluated(step: number, reports: EvalReport[]): void {
    const line = this.#evaluating.get(step);
    if (line === undefined) return;
    this.#sink.write({ ...line, evaluation: reports });
    this.#evaluating.delete(step);
    this.#emit({ type: "evaluated", step, reports });
  }

  /** Why lines of steps are not in the file yet, if they are not. */
  unwritten(): AgentRLError | null {
    return this.#sink.drain?.() ?? null;
  }

  /** Evaluations that are under way will not come to an end. */
  cutEvaluations(): void {
    this.#evaluating.clear();
  }

  finished(): void {
    this.#emit({ type: "finished" });
  }
}
