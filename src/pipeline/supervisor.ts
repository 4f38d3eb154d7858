/**
 * A run from its beginning, or its newest checkpoint, to its end. A learner that dies takes what it trained since the last
 * checkpoint with it, so the run goes back to there: the same books, the same group numbers, once each.
 */
import { AgentRLError } from "../errors.ts";
import { Attempt, type AttemptOptions } from "./attempt.ts";
import { type Clock, sleep } from "./clock.ts";
import type { Coordinator } from "./coordinator.ts";
import { addFaults, type FaultCounts, noFaults } from "./faults.ts";
import type { RunHost, SavedBooks } from "./run-host.ts";
import type { RunLog } from "./run-log.ts";

/** Milliseconds before the first new attempt; each further one that comes no further waits twice as long. */
const firstPauseMs = 500;

export interface SuperviseOptions
  extends Pick<AttemptOptions, "processes" | "restarts" | "stallMs" | "checkpointEvery" | "evaluateEvery" | "tasks"> {
  host: RunHost;
  log: RunLog;
  /** Books that begin anew, or go on from a checkpoint. */
  coordinator(from: SavedBooks | null): Coordinator;
  /** Begin from the newest checkpoint; a new run has none. */
  resume: boolean;
  signal?: AbortSignal | undefined;
  /** Where faults are counted, those of others as well. @default counted anew */
  faults?: FaultCounts;
}

export interface RunEnd {
  steps: number;
  stopped: boolean;
  /** Folder of the last checkpoint. */
  checkpoint: string;
  abortedTokens: number;
  faults: FaultCounts;
}

export async function supervise(options: SuperviseOptions): Promise<RunEnd> {
  const { host, log, signal, restarts, faults = noFaults() } = options;
  let abortedTokens = 0;
  let furthest = -1;
  let inVain = 0;
  let from = options.resume ? host.latest() : null;
  for (;;) {
    const coordinator = options.coordinator(from);
    furthest = Math.max(furthest, coordinator.version);
    const attempt = new Attempt({
      ...options,
      host: host.open(from),
      latest: () => host.latest(),
      clock: host.clock,
      coordinator,
      faults,
    });
    const stop = () => {
      log.notice("stopping after the step in progress, with a checkpoint");
      attempt.stop();
    };
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    const end = await attempt.outcome.finally(async () => {
      signal?.removeEventListener("abort", stop);
      await attempt.close();
      log.cutEvaluations();
      const stats = attempt.rolloutStats;
      abortedTokens += stats.abortedTokens;
      addFaults(faults, stats.faults);
    });
    if (end.kind !== "lost") {
      const checkpoint = host.latest()!.folder;
      return { steps: coordinator.version, stopped: end.kind === "stopped", checkpoint, abortedTokens, faults };
    }
    from = host.latest();
    inVain = coordinator.version > furthest ? 0 : inVain + 1;
    furthest = Math.max(furthest, coordinator.version);
    if (signal?.aborted || inVain > restarts) throw given(end.error, from, inVain);
    faults.learnerRestarts++;
    log.notice(
      `${end.error.message}\nthe run goes on from ${from?.folder ?? "its beginning: there is no checkpoint yet"}`,
    );
    await pause(host.clock, firstPauseMs * 2 ** Math.min(inVain, 6), signal);
  }
}

function given(error: AgentRLError, from: SavedBooks | null, times: number): AgentRLError {
  const { where, got } = error.detail;
  return new AgentRLError("PIPELINE", times > 1 ? "The learner process keeps ending" : "The learner process ended", {
    where: times > 1 ? `${where}, ${times} times without a new step` : where!,
    ...(got !== undefined && { got }),
    hint: `mend the cause above, then go on from the last checkpoint with --resume (${from?.folder ?? "none written yet"})`,
  });
}

/** Ends early when the run is to stop. */
async function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  await Promise.race([
    sleep(clock, ms),
    new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve(), { once: true })),
  ]);
}
