/** What outlives the processes of a simulation: checkpoints, of which one is the latest or none, and lines of metrics. */
import type { GroupBooks } from "../pipeline/messages.ts";
import type { SavedBooks } from "../pipeline/run-host.ts";
import type { RunStep } from "../pipeline/run-log.ts";
import type { Lineage } from "./sim-board.ts";

export interface SimCheckpoint {
  books: GroupBooks;
  lineage: Lineage;
}

export class SimDisk {
  readonly #checkpoints = new Map<string, SimCheckpoint>();
  #latest: string | null = null;
  /** Lines by step; a step that was trained again has its last one. */
  readonly lines = new Map<number, RunStep>();

  /** As by a rename: a checkpoint is there whole, or the one before it is the latest still. Keeps two. */
  write(checkpoint: SimCheckpoint): string {
    const folder = `step-${checkpoint.lineage.version}`;
    this.#checkpoints.delete(folder);
    this.#checkpoints.set(folder, checkpoint);
    this.#latest = folder;
    for (const old of [...this.#checkpoints.keys()].slice(0, -2)) this.#checkpoints.delete(old);
    return folder;
  }

  read(folder: string): SimCheckpoint {
    return this.#checkpoints.get(folder)!;
  }

  latest(): SavedBooks | null {
    if (this.#latest === null) return null;
    const { books, lineage } = this.read(this.#latest);
    return { folder: this.#latest, state: { ...books, step: lineage.version } };
  }
}
