/** From the ring into the learner's groups, for as long as a run lasts. */
import type { AgentRLError } from "../errors.ts";
import { sampledCount } from "../rl/batch.ts";
import { decodeTrajectory, NoTrajectory } from "../rl/record.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { CorruptRecord } from "../shm/ring.ts";
import type { LearnerLoop } from "./learner-loop.ts";

export interface CollectOptions {
  /** The next record; undefined: none for now, null: there will be none. @throws CorruptRecord */
  pop(): Promise<{ bytes: Uint8Array; ack(): void } | null | undefined>;
  into: LearnerLoop<Trajectory>;
  /** A record is of no use. The supervisor finds its sample missing when its group ends, and has it played anew. */
  corrupt(error: AgentRLError): void;
}

export async function collect({ pop, into, corrupt }: CollectOptions): Promise<void> {
  for (;;) {
    try {
      const record = await pop();
      if (record === null) return;
      if (record === undefined) continue;
      const { byteLength } = record.bytes;
      const trajectory = decodedAndAcknowledged(record);
      into.accept(trajectory, byteLength, sampledCount(trajectory));
    } catch (error) {
      if (!(error instanceof CorruptRecord || error instanceof NoTrajectory)) throw error;
      corrupt(error);
    }
  }
}

function decodedAndAcknowledged(record: { bytes: Uint8Array; ack(): void }): Trajectory {
  try {
    return decodeTrajectory(record.bytes);
  } finally {
    record.ack();
  }
}
