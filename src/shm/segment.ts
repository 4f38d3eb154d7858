/**
 * Names of shared-memory segments, and that none outlives its run: whoever creates a segment removes its name when the
 * process exits, and what a killed process left is found by its creator's death.
 */
import { readdirSync } from "node:fs";
import { AgentRLError } from "../errors.ts";
import { shm } from "./native.ts";

const prefix = "/agentrl-";
const created = new Set<string>();
let atExit = false;

/** `/agentrl-<run>-<part>`: the name of a run's ring, board or counters. */
export function segmentName(run: string, part: string): string {
  return checkName(`${prefix}${run}-${part}`);
}

export function checkName(name: string): string {
  // macOS allows 31 bytes, Linux 255.
  const longest = process.platform === "darwin" ? 30 : 250;
  if (!name.startsWith(prefix) || !/^\/[\w.-]+$/.test(name) || name.length > longest) {
    throw new AgentRLError("SHARED_MEMORY", "not a name for a shared-memory segment", {
      got: name,
      expected: `${prefix} and then letters, digits, ".", "_" or "-", at most ${longest} characters`,
      hint: "use segmentName(run, part)",
    });
  }
  return name;
}

/** The name is removed when this process exits, unless `unlink` did so before. */
export function unlinkAtExit(name: string): void {
  created.add(name);
  if (atExit) return;
  atExit = true;
  process.once("exit", () => {
    for (const left of created) shm.unlink(left);
  });
}

/** Removes the name. Processes that have the segment open keep it. False: there was none. */
export function unlink(name: string): boolean {
  created.delete(name);
  return shm.unlink(name);
}

/** Removes the segments whose creators are dead; returns their names. Only Linux lists its segments. */
export function removeStaleSegments(): string[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/dev/shm")
    .map((file) => `/${file}`)
    .filter((name) => name.startsWith(prefix) && shm.unlinkStale(name));
}

/** Removes the name if its creator is dead. @returns whether it did. */
export function unlinkStale(name: string): boolean {
  return shm.unlinkStale(checkName(name));
}

/** Bytes free for new segments; 0 where the system does not tell. */
export function freeSharedMemory(): number {
  return shm.freeSharedMemory();
}
