/**
 * One run in a folder at a time: two that write the same checkpoints would train some groups twice. The lock is a
 * shared-memory segment named after the folder, whose creator's death frees it: nothing is left to remove after a crash.
 */
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { AgentRLError } from "../errors.ts";
import { Counters } from "../shm/counters.ts";
import { segmentName, unlinkStale } from "../shm/segment.ts";

/**
 * @returns what frees the folder again.
 * @throws AgentRLError USAGE when a living process has it.
 */
export function lockRunFolder(folder: string): () => void {
  const name = lockOf(folder);
  let lock: Counters;
  try {
    lock = Counters.create(name);
  } catch (error) {
    const owner = error instanceof AgentRLError ? /created by process (\d+)/.exec(error.message)?.[1] : undefined;
    if (owner === undefined) throw error;
    throw new AgentRLError("USAGE", "The run folder is in use", {
      where: folder,
      got: `process ${owner}, which trains in it`,
      expected: "one run in a folder at a time",
      hint: "wait for it, end it, or choose another --out",
      cause: error,
    });
  }
  return () => {
    lock.unlink();
    lock.close();
  };
}

/** Whether a living process trains in the folder. */
export function isRunning(folder: string): boolean {
  const name = lockOf(folder);
  if (unlinkStale(name)) return false;
  try {
    Counters.open(name).close();
    return true;
  } catch (error) {
    if (error instanceof AgentRLError) return false;
    throw error;
  }
}

function lockOf(folder: string): string {
  // The folder itself, whatever path leads to it.
  const { dev, ino } = statSync(folder);
  return segmentName("folder", createHash("sha256").update(`${dev}:${ino}`).digest("hex").slice(0, 12));
}
