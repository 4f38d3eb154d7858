/** Trajectories as MessagePack records of the ring: the parallel arrays travel as raw bytes, the rest as a map. */
import { Packr } from "msgpackr";
import { AgentRLError } from "../errors.ts";
import type { Trajectory } from "./trajectory.ts";

const packr = new Packr({ useRecords: false });

const arrays = {
  tokens: Uint32Array,
  sampled: Uint8Array,
  logProbs: Float32Array,
  keptMass: Float32Array,
  policy: Uint8Array,
  version: Uint32Array,
  oldestVersion: Uint32Array,
} as const;
type ArrayName = keyof typeof arrays;
const names = Object.keys(arrays) as ArrayName[];

export function encodeTrajectory(trajectory: Trajectory): Uint8Array {
  const record: Record<string, unknown> = { ...trajectory };
  for (const name of names) {
    const value = trajectory[name];
    record[name] = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  }
  return packr.pack(record);
}

/** Throws AgentRLError "PIPELINE" when the arrays are not of one length. */
export function decodeTrajectory(bytes: Uint8Array): Trajectory {
  const record = packr.unpack(bytes) as Record<string, unknown>;
  let length = -1;
  for (const name of names) {
    const raw = record[name] as Uint8Array;
    // A copy: a view into the record need not be aligned for 4-byte elements.
    const own = new Uint8Array(raw).buffer;
    const value = new arrays[name](own);
    if (length >= 0 && value.length !== length) {
      throw new AgentRLError("PIPELINE", "A trajectory's arrays differ in length", {
        where: `group ${String(record.group)}, sample ${String(record.sample)}, array ${name}`,
        got: value.length,
        expected: `${length}`,
      });
    }
    length = value.length;
    record[name] = value;
  }
  return record as unknown as Trajectory;
}
