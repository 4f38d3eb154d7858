/** The steps of a run as they come. */
import { watch } from "node:fs";
import { join } from "node:path";
import { isRunning } from "../../pipeline/run-lock.ts";
import type { RunStep } from "../../pipeline/run-log.ts";
import { LineFollower, lastLines } from "../line-follower.ts";
import { parseMetrics } from "../metrics.ts";

/** Milliseconds between looks where the system does not tell of changes (network disks), and whether the run goes on. */
const lookMs = 1000;

export interface FollowOptions {
  /** Lines that are there already which are given first. */
  last: number;
  /** Ends at once after those. */
  follow: boolean;
  signal?: AbortSignal;
  onLine(line: RunStep): void;
}

/** Resolves when the run has ended, or the signal is given. */
export async function followRun(run: string, { last, follow, signal, onLine }: FollowOptions): Promise<void> {
  const file = join(run, "metrics.jsonl");
  const follower = new LineFollower(file);
  // Read once before what is to be shown: what comes in between is shown as new.
  const before = follower.poll().lines.length > 0 ? lastLines(file, last) : [];
  const give = (lines: readonly string[]) => {
    for (const line of parseMetrics<RunStep>(lines, file)) onLine(line);
  };
  give(before);
  if (!follow) return;
  await new Promise<void>((resolve, reject) => {
    const look = () => {
      try {
        const running = isRunning(run);
        give(follower.poll().lines);
        if (!running) end();
      } catch (error) {
        end(error);
      }
    };
    const watcher = watch(run, look);
    watcher.on("error", () => {});
    const timer = setInterval(look, lookMs);
    const end = (error?: unknown) => {
      watcher.close();
      clearInterval(timer);
      signal?.removeEventListener("abort", stop);
      if (error === undefined) resolve();
      else reject(error as Error);
    };
    const stop = () => end();
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) end();
    else look();
  });
}
