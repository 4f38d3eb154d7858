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

/** A record that is not what `encodeTrajectory` writes. */
export class NoTrajectory extends AgentRLError {
  constructor(record: Record<string, unknown>, got: string, expected = "what encodeTrajectory writes") {
    const where = `group ${String(record.group)}, sample ${String(record.sample)}`;
    super("PIPELINE", "A record is not a trajectory", { where, got, expected });
  }
}

/** @throws NoTrajectory */
export function decodeTrajectory(bytes: Uint8Array): Trajectory {
  const record = unpack(bytes);
  let length = -1;
  for (const name of names) {
    const raw = record[name];
    if (!(raw instanceof Uint8Array)) throw new NoTrajectory(record, `no array ${name}`);
    if (raw.length % arrays[name].BYTES_PER_ELEMENT !== 0)
      throw new NoTrajectory(record, `${raw.length} bytes of ${name}`);
    // A copy: a view into the record need not be aligned for 4-byte elements.
    const value = new arrays[name](new Uint8Array(raw).buffer);
    if (length >= 0 && value.length !== length) {
      throw new NoTrajectory(record, `${value.length} elements of ${name}`, `${length}, as of the arrays before it`);
    }
    length = value.length;
    record[name] = value;
  }
  for (const name of ["group", "sample"]) {
    if (!Number.isSafeInteger(record[name])) throw new NoTrajectory(record, `${name} ${String(record[name])}`);
  }
  return record as unknown as Trajectory;
}

function unpack(bytes: Uint8Array): Record<string, unknown> {
  let record: unknown;
  try {
    record = packr.unpack(bytes);
  } catch (error) {
    throw new NoTrajectory({}, (error as Error).message);
  }
  if (typeof record !== "object" || record === null) throw new NoTrajectory({}, typeof record);
  return record as Record<string, unknown>;
}
