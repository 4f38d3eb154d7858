/**
 * A run as a timeline in Chrome's trace format, for https://ui.perfetto.dev or chrome://tracing: the learner's phases and
 * weight updates from its metrics, how busy it and the engines were, and the episodes that its traces hold.
 * Format: "Trace Event Format" (Chromium). Times are in microseconds since the run began.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { RunStep } from "../../pipeline/run-log.ts";
import type { SessionRecord } from "../../pipeline/run-record.ts";
import { parseMetrics } from "../metrics.ts";
import { TraceReader } from "../traces/reader.ts";
import type { TraceSummary } from "../traces/trace.ts";
import { heldOutOf } from "./overview.ts";

export interface TimelineEvent {
  name: string;
  /** X: a slice of `dur`, i: an instant, C: values of counters, M: a name for a process or thread. */
  ph: "X" | "i" | "C" | "M";
  ts: number;
  dur?: number;
  pid: number;
  tid: number;
  /** Of an instant: its thread's. */
  s?: "t";
  args?: Record<string, unknown>;
}

export interface Timeline {
  displayTimeUnit: "ms";
  traceEvents: TimelineEvent[];
}

/** Of what is drawn, as processes of a trace. */
const learner = 1;
const episodes = 2;

/** @param mostEpisodes The newest so many are drawn. */
export function timelineOf(run: string, { mostEpisodes }: { mostEpisodes: number }): Timeline {
  const file = join(run, "metrics.jsonl");
  const lines = parseMetrics<RunStep>(readFileSync(file, "utf8").split("\n").slice(0, -1), file);
  const sessions = readSessions(run);
  const traces = TraceReader.open(run).summaries().slice(-mostEpisodes);
  // As far as it can be told: without a record of sessions the run begins at 0.
  const begin = sessions[0]?.began ?? 0;
  const traceEvents: TimelineEvent[] = [
    name(learner, "learner"),
    name(episodes, "episodes"),
    ...stepEvents(lines, sessions, begin),
    ...(sessions.length > 0 ? episodeEvents(traces, begin) : []),
  ];
  return { displayTimeUnit: "ms", traceEvents };
}

interface Session {
  /** Milliseconds since 1970. */
  began: number;
  /** Steps that had been done. */
  step: number;
}

function readSessions(run: string): Session[] {
  const file = join(run, "sessions.jsonl");
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "");
  return lines.map((line) => {
    const { started, step } = JSON.parse(line) as SessionRecord;
    return { began: Date.parse(started), step };
  });
}

function stepEvents(lines: readonly RunStep[], sessions: readonly Session[], begin: number): TimelineEvent[] {
  const events: TimelineEvent[] = [];
  const starts = sessionStarts(lines, sessions, begin);
  const ends = new Map<number, number>();
  for (const [i, line] of lines.entries()) {
    const { step, version, timings, elapsed, reward, mismatch } = line;
    if (line.evaluation !== undefined) {
      const args = { step, success: heldOutOf(line) };
      events.push({ name: "evaluated", ph: "i", s: "t", ts: ends.get(step) ?? 0, pid: learner, tid: 1, args });
      continue;
    }
    const end = 1000 * (starts[i]! + 1000 * elapsed);
    ends.set(step, end);
    const train = 1000 * timings.train;
    const verify = 1000 * timings.verify;
    const slice = { ph: "X", pid: learner, tid: 1, args: { step, reward, mismatch } } as const;
    if (verify > 0) events.push({ name: "verify", ts: end - train - verify, dur: verify, ...slice });
    events.push({ name: "train", ts: end - train, dur: train, ...slice });
    events.push({ name: `weights ${version}`, ph: "i", s: "t", ts: end, pid: learner, tid: 1 });
    const counters: Record<string, Record<string, number | null>> = {
      "busy %": percents(line.utilisation),
      reward: { reward },
      lag: { max: line.maxLag, mean: line.meanLag },
      "tokens per second": { trained: line.tokensPerSecond },
      "buffer MiB": { episodes: line.bufferBytes / 2 ** 20 },
    };
    for (const [counter, values] of Object.entries(counters)) {
      const args = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
      events.push({ name: counter, ph: "C", ts: end, pid: learner, tid: 0, args });
    }
  }
  return events;
}

/** Of each line, when its session began, in milliseconds since `begin`. */
function sessionStarts(lines: readonly RunStep[], sessions: readonly Session[], begin: number): number[] {
  let session = -1;
  let before = Number.POSITIVE_INFINITY;
  return lines.map((line, i) => {
    // The clock of a session begins at 0. The line of an evaluation has its step's time.
    if (line.evaluation === undefined) {
      if (line.elapsed < before) session = nextSession(lines, i, sessions, session);
      before = line.elapsed;
    }
    return (sessions[session]?.began ?? begin) - begin;
  });
}

/** The first that goes on from before this line, and is not over before the lines of its clock are. */
function nextSession(lines: readonly RunStep[], at: number, sessions: readonly Session[], current: number): number {
  let last = lines[at]!.elapsed;
  for (const line of lines.slice(at)) {
    if (line.evaluation !== undefined) continue;
    if (line.elapsed < last) break;
    last = line.elapsed;
  }
  const fits = sessions.findIndex(({ began, step }, i) => {
    const over = sessions[i + 1]?.began ?? Number.POSITIVE_INFINITY;
    return i > current && step === lines[at]!.step - 1 && began + 1000 * last <= over;
  });
  return fits >= 0 ? fits : Math.min(current + 1, sessions.length - 1);
}

/** Each on the first lane that is free, as a slice from its beginning to its end. */
function episodeEvents(traces: readonly TraceSummary[], begin: number): TimelineEvent[] {
  const beginOf = ({ timings }: TraceSummary) => timings.ended - timings.total;
  const free: number[] = [];
  return [...traces]
    .sort((a, b) => beginOf(a) - beginOf(b))
    .map((trace) => {
      const { id, task, step, reward, turns, tokens, endReason, versions, timings } = trace;
      const start = beginOf(trace);
      let lane = free.findIndex((at) => at <= start);
      if (lane < 0) lane = free.length;
      free[lane] = timings.ended;
      const args = { id, step, reward, turns, tokens, endReason, versions, environmentMs: timings.environment };
      const ts = 1000 * (start - begin);
      return { name: task, ph: "X", ts, dur: 1000 * timings.total, pid: episodes, tid: lane + 1, args };
    });
}

function name(pid: number, text: string): TimelineEvent {
  return { name: "process_name", ph: "M", ts: 0, pid, tid: 0, args: { name: text } };
}

function percents(shares: Record<string, number | null>): Record<string, number | null> {
  return Object.fromEntries(Object.entries(shares).map(([part, share]) => [part, share === null ? null : 100 * share]));
}
