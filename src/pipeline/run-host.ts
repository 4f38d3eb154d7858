/** Where the processes of a run live: real ones with shared memory between them, or the simulator's models of them. */
import type { CheckpointState } from "./checkpoint.ts";
import type { Child } from "./children.ts";
import type { Clock } from "./clock.ts";
import type { FromLearner, FromRollout, ToLearner, ToRollout } from "./messages.ts";

/** What of a checkpoint the supervisor goes on from. */
export interface SavedBooks {
  folder: string;
  state: Pick<CheckpointState, "step" | "trainedGroups" | "sampling">;
}

export interface RunHost {
  readonly clock: Clock;
  /** The newest checkpoint of the run, or null. */
  latest(): SavedBooks | null;
  /** Room for the processes of one attempt, which goes on from a checkpoint or begins anew. */
  open(from: SavedBooks | null): AttemptHost;
}

export interface AttemptHost {
  /** Starts a process and sets it up. */
  learner(): Child<ToLearner, FromLearner>;
  rollout(worker: number): Child<ToRollout, FromRollout>;
  /** A process has died: what it left half done in shared memory is moved on. */
  reclaim(): void;
  /** Called when all processes have ended. */
  close(): void;
}
