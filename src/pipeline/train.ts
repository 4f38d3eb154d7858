/** `agentrl train`: checks everything that a run is given, then has it supervised over real processes. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { overdueOf } from "../config/staleness.ts";
import type { TrainConfig } from "../config/train.ts";
import { AgentRLError } from "../errors.ts";
import { loadModelFolder } from "../model/files.ts";
import { modelFingerprint } from "../model/fingerprint.ts";
import { availableMemory } from "../model/memory.ts";
import type { RunEvent } from "../observe/events.ts";
import { MetricsSink } from "../observe/metrics.ts";
import { PatientMetrics } from "../observe/patient-metrics.ts";
import { assertSinksUsable, Sinks } from "../observe/sinks/sinks.ts";
import { type SamplerTask, TaskSampler } from "../rl/sampler.ts";
import { removeStaleSegments } from "../shm/segment.ts";
import { latestCheckpoint, readCheckpoint } from "./checkpoint.ts";
import { Coordinator } from "./coordinator.ts";
import { deadlineOf } from "./environment-faults.ts";
import { openEnvironment } from "./environments.ts";
import { type FaultCounts, noFaults } from "./faults.ts";
import { assertRunFits } from "./fit.ts";
import { frozenBytes, frozenStorage } from "./frozen-weights.ts";
import { withLocalModels } from "./locate-models.ts";
import { assertPanels } from "./panel.ts";
import { maxLagOf, planRun, type RunPlan } from "./plan.ts";
import { checkPool } from "./pool-models.ts";
import { ProcessHost, type RunSetup } from "./process-host.ts";
import { resolveDevices } from "./run-devices.ts";
import type { SavedBooks } from "./run-host.ts";
import { lockRunFolder } from "./run-lock.ts";
import { type LineSink, RunLog } from "./run-log.ts";
import { recordSession } from "./run-record.ts";
import { type RunEnd, supervise } from "./supervisor.ts";
import { taskMix, taskNamesOf } from "./task-mix.ts";

export type { RunStep } from "./run-log.ts";

export interface RunOptions {
  config: TrainConfig;
  /** Resolved config as YAML, kept in the run folder. */
  yaml: string;
  /** Run folder. */
  out: string;
  /** Go on from the newest checkpoint in `out`. */
  resume?: boolean;
  onEvent?: (event: RunEvent) => void;
  /** Ends the run after the step in progress, in a checkpoint. */
  signal?: AbortSignal;
}

export interface RunSummary {
  steps: number;
  /** True when `signal` ended the run before its last step. */
  stopped: boolean;
  checkpoint: string;
  /** Model folder inside the checkpoint. */
  model: string;
  seconds: number;
  sampledTokens: number;
  tokensPerSecond: number;
  /** Over the whole run; null when nothing was compared. */
  mismatch: number | null;
  mismatchTokens: number;
  maxLag: number;
  abortedTokens: number;
  faults: FaultCounts;
}

export async function runTraining(options: RunOptions): Promise<RunSummary> {
  const { out, resume = false } = options;
  mkdirSync(checkpointsOf(out), { recursive: true });
  const unlock = lockRunFolder(out);
  try {
    if (existsSync(join(out, "metrics.jsonl")) && !resume) {
      throw new AgentRLError("USAGE", "The run folder holds a run already", {
        where: out,
        expected: "a new folder, or --resume",
        hint: "choose another --out, or go on with --resume",
      });
    }
    const { config } = await withLocalModels(options.config);
    return await runLocked({ ...options, config });
  } finally {
    unlock();
  }
}

async function runLocked(options: RunOptions): Promise<RunSummary> {
  const { config, yaml, out, resume = false, signal, onEvent } = options;
  const emit = (event: RunEvent) => onEvent?.(event);
  const notice = (message: string) => emit({ type: "notice", message });
  removeStale(notice);
  const { plan, setup, samplerTasks, deadlineMs } = await prepare(options);
  const host = new ProcessHost(setup, plan);
  const file = new MetricsSink(join(out, "metrics.jsonl"));
  const lines = config.checkpoint.onError === "continue" ? new PatientMetrics(file, notice) : file;
  const faults = noFaults();
  let sinks: Sinks | null = null;
  try {
    const step = (resume ? host.latest() : null)?.state.step ?? 0;
    writeFileSync(join(out, "config.yaml"), yaml);
    recordSession(out, { step, configHash: setup.configHash, devices: setup.devices });
    emit({ type: "started", step, steps: config.steps });
    const stallMs = stallLimits(config, deadlineMs, notice);
    const opened = await Sinks.open({
      ...{ config: config.observe, run: out, settings: config, step, steps: config.steps, faults, notice },
    });
    sinks = opened;
    const sink: LineSink = {
      write(line) {
        lines.write(line);
        opened.line(line);
      },
      ...("drain" in lines && { drain: () => lines.drain() }),
    };
    const log = new RunLog({ clock: host.clock, sink, emit });
    const end = await supervise({
      host,
      log,
      coordinator: (from) => coordinatorOf(config, samplerTasks, plan, from),
      resume,
      signal,
      faults,
      processes: config.rollout.processes,
      restarts: config.recovery.restarts,
      stallMs,
      checkpointEvery: config.checkpoint.every,
      evaluateEvery: config.evaluation.every,
      tasks: setup.taskNames.map((name, i) => ({ name, split: config.tasks[i]!.split })),
    });
    await opened.close();
    log.finished();
    return summaryOf(end, log);
  } finally {
    await sinks?.close();
    lines.close();
  }
}

/** A rollout process may wait for an environment's answer: what that may take twice is no standstill. */
function stallLimits({ recovery }: TrainConfig, deadlineMs: number, notice: (message: string) => void) {
  const learner = recovery.stallSeconds * 1000;
  const rollout = Math.max(learner, 2 * deadlineMs);
  if (rollout > learner) {
    const [least, answer] = [rollout / 1000, deadlineMs / 1000];
    notice(`a rollout process counts as hung after ${least} s: an environment may take ${answer} s for an answer`);
  }
  return { learner, rollout };
}

/** A supervisor that was killed could not remove its shared memory; whoever starts next does. */
function removeStale(notice: (message: string) => void): void {
  const removed = removeStaleSegments();
  if (removed.length > 0) notice(`removed the shared memory of runs that were killed: ${removed.join(", ")}`);
}

/** Everything that can be wrong with the input is found here, before a process starts. */
async function prepare({ config, out, resume = false }: RunOptions) {
  const checkpoints = checkpointsOf(out);
  const from = resume ? latestCheckpoint(checkpoints) : null;
  if (from !== null) readCheckpoint(from);
  const model = loadModelFolder(from === null ? config.model.path : join(from, "model"), config.model);
  model.tensors.close();
  checkPool(config, model);
  assertSinksUsable(config.observe);
  const plan = planRun(config, model.config);
  assertRunFits(config, model.config, availableMemory());
  const devices = await resolveDevices(config);

  const environments = await Promise.all(config.tasks.map(openEnvironment));
  const samplerTasks = taskMix(config.tasks, environments);
  const taskNames = taskNamesOf(environments);
  // What the run will be evaluated on must exist as well.
  if (config.evaluation.every > 0) assertPanels(config, environments);
  const deadlineMs = Math.max(...environments.map(deadlineOf));
  await Promise.all(environments.map((environment) => environment.close()));
  const setup: RunSetup = {
    config,
    devices,
    checkpoints,
    configHash: configHash(config),
    taskNames,
    frozenBytes: config.lora === undefined ? 0 : frozenBytes(model.config, frozenStorage(devices.learner)),
  };
  return { plan, setup, samplerTasks, deadlineMs };
}

/** The books of a run that begins, or goes on from a checkpoint. */
function coordinatorOf(
  config: TrainConfig,
  tasks: readonly SamplerTask[],
  plan: RunPlan,
  from: SavedBooks | null,
): Coordinator {
  const minShares = config.tasks.map((task) => task.minShare);
  const { signal, floor, halfLife } = config.sampling.adaptive;
  const { step = 0, trainedGroups = [], sampling } = from?.state ?? {};
  return new Coordinator({
    sampler: new TaskSampler(tasks, config.seed),
    groupSize: config.rollout.groupSize,
    groupsPerStep: config.rollout.groupsPerStep,
    maxLag: maxLagOf(config),
    overdue: overdueOf(config),
    steps: config.steps,
    maxFactor: config.algorithm.filters.dynamicSampling.maxFactor,
    ...(minShares.some((share) => share > 0) && { minShares }),
    ...(signal !== "off" && { adaptive: { signal, floor, halfLife } }),
    buffer: { maxBytes: config.rollout.bufferMb * 2 ** 20, largestEpisode: plan.largestRecordBytes },
    step,
    trained: trainedGroups,
    ...(sampling && { sampling }),
  });
}

function summaryOf(end: RunEnd, { seconds, totals }: RunLog): RunSummary {
  const { sampledTokens, mismatch, mismatchTokens, maxLag } = totals;
  return {
    ...end,
    model: join(end.checkpoint, "model"),
    seconds,
    sampledTokens,
    tokensPerSecond: sampledTokens / seconds,
    mismatch: mismatchTokens > 0 ? mismatch : null,
    mismatchTokens,
    maxLag,
  };
}

function checkpointsOf(out: string): string {
  return join(out, "checkpoints");
}

/**
 * What a resumed run must agree on: everything but how long it runs, how it is spread over processes, how it is kept alive
 * and what it shows. The model counts by its content, so that a project may be moved.
 */
function configHash(config: TrainConfig): string {
  const model = modelFingerprint(config.model.path);
  const {
    steps: _steps,
    checkpoint: _checkpoint,
    evaluation: _evaluation,
    recovery: _recovery,
    observe: _observe,
    ...rest
  } = config;
  const {
    processes: _processes,
    threads: _threads,
    maxSequences: _sequences,
    bufferMb: _buffer,
    adapters: _adapters,
    ...rollout
  } = rest.rollout;
  const { threads: _learnerThreads, adapter: _adapter, recompute: _recompute, ...learner } = rest.learner;
  const text = JSON.stringify({ ...rest, model, rollout, learner });
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
