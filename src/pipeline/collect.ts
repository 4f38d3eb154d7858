/** From the ring into the learner's groups, for as long as a run lasts. */
import type { AgentRLError } from "../errors.ts";
import { decodeTrajectory, NoTrajectory } from "../rl/record.ts";
import { PolicyId, type Trajectory } from "../rl/trajectory.ts";
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
      into.accept(trajectory, { bytes: byteLength, ...sampledOf(trajectory) });
    } catch (error) {
      if (!(error instanceof CorruptRecord || error instanceof NoTrajectory)) throw error;
      corrupt(error);
    }
  }
}

function sampledOf({ sampled, policy, oldestVersion: oldest }: Trajectory) {
  let tokens = 0;
  let oldestVersion: number | null = null;
  for (let i = 0; i < sampled.length; i++) {
    if (sampled[i] !== 1) continue;
    tokens++;
    if (policy[i] === PolicyId.current) oldestVersion = Math.min(oldestVersion ?? oldest[i]!, oldest[i]!);
  }
  return { tokens, oldestVersion };
}

function decodedAndAcknowledged(record: { bytes: Uint8Array; ack(): void }): Trajectory {
  try {
    return decodeTrajectory(record.bytes);
  } finally {
    record.ack();
  }
}
