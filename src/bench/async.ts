/**
 * `agentrl bench async`: the same model trained on the same tasks, whose environments answer as late as remote ones do, in
 * every mode of the pipeline; and without any latency, as the asynchronous ideal. Speed is counted while the pipeline is
 * full: after the first steps, and before the last groups are issued. What was learnt is measured on held-out tasks, after
 * the same number of steps of every mode, with several seeds.
 *
 * The first run of a mode is the one that is timed. Where it may run ahead it goes on beyond those steps, until the pipeline
 * has been full for a while. The other runs are for their score alone; in the synchronous mode, which computes the same bits
 * however late its environments answer, they have no latency.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { loadTrainConfig } from "../config/load.ts";
import type { TrainConfig } from "../config/train.ts";
import type { Latency } from "../env/delayed.ts";
import { successOf } from "../env/report.ts";
import { AgentRLError } from "../errors.ts";
import { type Spread, spread } from "../experiment/compare.ts";
import { readMetrics } from "../observe/metrics.ts";
import { packageFile } from "../own-files.ts";
import { measureTasks } from "../pipeline/measure.ts";
import { maxLagOf } from "../pipeline/plan.ts";
import { runTraining } from "../pipeline/train.ts";
import { type DelaySample, sampleDelays } from "./delay-sample.ts";
import { bars, courseOf, type Figures, figuresOf, type TimedStep, type Window } from "./run-figures.ts";

/** "ideal" is async without latency. */
export const benchModes = ["sync", "one-step-off", "async", "ideal"] as const;
export type BenchMode = (typeof benchModes)[number];

export interface AsyncBenchOptions {
  /** Model folder. @default the tiny model */
  model?: string;
  /** Steps after which the modes are compared on held-out tasks. @default 10 */
  steps?: number;
  /** @default 3 */
  seeds?: number;
  /** @default 8 */
  maxLag?: number;
  /** Held-out episodes of each task. @default 200 */
  episodes?: number;
  /** @default median 200, p99 3000 */
  latency?: Latency;
  /** Keys of the config to override, as `path=value`. */
  set?: readonly string[];
  /** Keeps the runs here. @default a temporary folder */
  out?: string;
  modes?: readonly BenchMode[];
  signal?: AbortSignal;
  /** Takes a line of the report at a time. @default standard output */
  print?: (line: string) => void;
}

export interface ModeResult extends Figures {
  mode: BenchMode;
  /** tokensPerSecond as a multiple of another mode's; null where that was not measured. */
  toSync: number | null;
  toIdeal: number | null;
  /** Held-out success, a mean over the tasks; its spread over the seeds. */
  score: Spread & { values: number[] };
  /** Shares of the time in which learner and engines computed, in tenths of the timed run. */
  course: { learner: number[]; engine: number[] };
}

export interface AsyncBenchReport {
  cpu: string;
  cores: number;
  model: string;
  tasks: string[];
  steps: number;
  episodesPerStep: number;
  latency: DelaySample;
  /** Held-out success of the model that training starts from. */
  before: number;
  modes: ModeResult[];
  seconds: number;
}

const defaultLatency: Latency = { medianMs: 200, p99Ms: 3000 };

/** A first impression: too small for the tail of the latency to be hidden, too short for much to be learnt. */
export const quickBench: AsyncBenchOptions = {
  modes: ["sync", "async", "ideal"],
  steps: 2,
  seeds: 1,
  maxLag: 4,
  episodes: 50,
  set: ["rollout.groupsPerStep=32"],
};

export async function benchAsync(options: AsyncBenchOptions = {}): Promise<AsyncBenchReport> {
  const { modes = benchModes, print = (line: string) => void process.stdout.write(`${line}\n`) } = options;
  const started = performance.now();
  const out = options.out ?? mkdtempSync(join(tmpdir(), "agentrl-bench-"));
  mkdirSync(out, { recursive: true });
  try {
    return await new Bench({ ...options, modes, print, out }).run(started);
  } finally {
    if (options.out === undefined) rmSync(out, { recursive: true, force: true });
  }
}

interface TimedRun {
  figures: Figures;
  course: ModeResult["course"];
}

class Bench {
  readonly #options: AsyncBenchOptions & Required<Pick<AsyncBenchOptions, "modes" | "print" | "out">>;
  readonly #steps: number;
  readonly #seeds: number[];
  readonly #latency: Latency;

  constructor(options: AsyncBenchOptions & Required<Pick<AsyncBenchOptions, "modes" | "print" | "out">>) {
    this.#options = options;
    this.#steps = options.steps ?? 10;
    this.#seeds = Array.from({ length: options.seeds ?? 3 }, (_, i) => i + 1);
    this.#latency = options.latency ?? defaultLatency;
  }

  async run(started: number): Promise<AsyncBenchReport> {
    const { modes, print } = this.#options;
    // Every config is checked before the first run.
    for (const mode of modes) for (const seed of this.#seeds) this.#config(mode, seed);
    const { config } = this.#config(modes[0]!, 1);
    const { rollout } = config;
    const tasks = config.tasks.map(({ name }) => name);
    const latency = await sampleDelays(this.#latency, 5_000);
    print(
      `${tasks.join(", ")}: ${rollout.groupsPerStep} groups of ${rollout.groupSize} a step, ` +
        `scored after ${this.#steps} steps; ${cpus()[0]?.model}, ${availableParallelism()} cores`,
    );
    print(
      `every start and step of an episode is delayed by a log-normal time: median ${latency.medianMs.toFixed(0)} ms, ` +
        `p99 ${latency.p99Ms.toFixed(0)} ms, mean ${latency.meanMs.toFixed(0)} ms (measured, ${latency.draws} draws)`,
    );
    const before = await this.#score(config, config.model.path);

    const timed = new Map<BenchMode, TimedRun>();
    const scores = new Map<BenchMode, number[]>();
    for (const mode of modes) {
      for (const seed of mode === "ideal" ? this.#seeds.slice(0, 1) : this.#seeds) {
        print(`${mode}, seed ${seed} …`);
        const { score, ...run } = await this.#train(mode, seed);
        scores.set(mode, [...(scores.get(mode) ?? []), score]);
        if (seed === 1) timed.set(mode, run);
      }
    }

    const rate = (mode: BenchMode) => timed.get(mode)?.figures.tokensPerSecond;
    const ratio = (mode: BenchMode, to: BenchMode) => {
      const [own, other] = [rate(mode), rate(to)];
      return own === undefined || other === undefined ? null : own / other;
    };
    const results = modes.map((mode): ModeResult => {
      const { figures, course } = timed.get(mode)!;
      const values = scores.get(mode)!;
      const ratios = { toSync: ratio(mode, "sync"), toIdeal: ratio(mode, "ideal") };
      return { mode, ...figures, ...ratios, score: { ...spread(values), values }, course };
    });
    for (const line of reportLines(results, before)) print(line);
    return {
      cpu: cpus()[0]?.model ?? "",
      cores: availableParallelism(),
      model: config.model.path,
      tasks,
      steps: this.#steps,
      episodesPerStep: rollout.groupsPerStep * rollout.groupSize,
      latency,
      before,
      modes: results,
      seconds: (performance.now() - started) / 1000,
    };
  }

  async #train(mode: BenchMode, seed: number): Promise<TimedRun & { score: number }> {
    const { signal } = this.#options;
    const { config, yaml, window } = this.#config(mode, seed);
    const out = join(this.#options.out, `${mode}-${seed}`);
    const summary = await runTraining({ config, yaml, out, ...(signal && { signal }) });
    if (summary.stopped)
      throw new AgentRLError("USAGE", "The benchmark was stopped", { where: `${mode}, seed ${seed}` });
    const steps = readMetrics<TimedStep>(join(out, "metrics.jsonl"));
    const scored = `step-${String(this.#steps).padStart(6, "0")}`;
    return {
      figures: figuresOf(steps, window),
      course: courseOf(steps),
      score: await this.#score(config, join(out, "checkpoints", scored, "model")),
    };
  }

  /** The policy as it samples, on held-out tasks. */
  async #score(config: TrainConfig, model: string): Promise<number> {
    const { temperature } = config.rollout;
    const { episodes = 200 } = this.#options;
    const reports = await measureTasks(config, model, { split: "eval", episodes, temperature, seed: config.seed });
    return reports.reduce((sum, report) => sum + successOf(report), 0) / reports.length;
  }

  #config(mode: BenchMode, seed: number): { config: TrainConfig; yaml: string; window: Window } {
    const { model = packageFile("models/tiny"), maxLag = 8, set, out } = this.#options;
    const timed = seed === 1;
    const delayed = mode !== "ideal" && (timed || mode !== "sync");
    const ahead = { sync: 0, "one-step-off": 1, async: maxLag, ideal: maxLag }[mode];
    const length = timed ? lengthOf(this.#steps, ahead) : { steps: this.#steps, window: { from: 0, to: this.#steps } };
    const threads = Math.min(2, availableParallelism());
    const settings = {
      model: { path: model },
      seed,
      steps: length.steps,
      mode: mode === "ideal" ? "async" : mode,
      tasks: ["dbbench", "os"].map((name) => ({ name, maxTurns: 3, ...(delayed && { latency: this.#latency }) })),
      rollout: {
        threads,
        maxSequences: 1024,
        groupSize: 4,
        groupsPerStep: 96,
        maxTokensPerTurn: 48,
        contextLimit: 256,
        endOnFailure: "call",
      },
      learner: { threads },
      optimizer: { lr: 0.0005 },
      ...((mode === "async" || mode === "ideal") && { staleness: { maxLag } }),
      checkpoint: { every: this.#steps, keep: Math.ceil(length.steps / this.#steps) + 1 },
    };
    const file = join(out, `${mode}-${seed}.yaml`);
    writeFileSync(file, stringify(settings));
    const { config, yaml } = loadTrainConfig(file, set ?? []);
    if (maxLagOf(config) !== ahead || config.steps !== length.steps) throw fixedBy(config);
    return { config, yaml, window: length.window };
  }
}

/**
 * How long a timed run is, and which of its steps count. A pipeline that runs `ahead` by so many steps is full once they have
 * been trained, and runs dry in as many before the end.
 */
export function lengthOf(steps: number, ahead: number): { steps: number; window: Window } {
  const from = ahead + 1;
  const to = Math.max(steps, ahead === 0 ? from + 1 : 3 * from);
  return { steps: to + ahead, window: { from, to } };
}

function fixedBy(config: TrainConfig): AgentRLError {
  return new AgentRLError("USAGE", "The benchmark itself chooses mode, steps and lag of its runs", {
    where: "--set",
    got: `mode ${config.mode}, steps ${config.steps}, staleness.maxLag ${config.staleness.maxLag}`,
    hint: "use --steps and --max-lag",
  });
}

function reportLines(results: readonly ModeResult[], before: number): string[] {
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
  const times = (ratio: number | null) => (ratio === null ? "—" : `${ratio.toFixed(2)}x`);
  const lines = ["mode         tokens/s  to sync  to ideal  s/step   lag mean, max   held-out success"];
  for (const { mode, tokensPerSecond, toSync, toIdeal, secondsPerStep, lag, score } of results) {
    lines.push(
      [
        mode.padEnd(12),
        tokensPerSecond.toFixed(0).padStart(8),
        times(toSync).padStart(8),
        times(toIdeal).padStart(9),
        secondsPerStep.toFixed(2).padStart(7),
        `${lag.mean.toFixed(2)}, ${lag.max}`.padStart(15),
        `  ${percent(score.mean)}${score.sd === null ? "" : ` ± ${(100 * score.sd).toFixed(1)}`} (${score.seeds} seeds)`,
      ].join(" "),
    );
  }
  lines.push(`before training: ${percent(before)}`);
  lines.push("share of the time at work, in tenths of the run, and over the steps that count");
  for (const { mode, course, utilisation, window } of results) {
    lines.push(
      `${mode.padEnd(12)} learner ${bars(course.learner)} ${percent(utilisation.learner).padStart(7)}` +
        `   engine ${bars(course.engine)} ${percent(utilisation.engine).padStart(7)}   steps ${window.from + 1} to ${window.to}`,
    );
  }
  return lines;
}
