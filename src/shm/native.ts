/**
 * The typed view of the addon's shared-memory part, and how its errors become AgentRLErrors. Handles are opaque; a
 * status is a number of `Status`, the same as in native/shm/ring.h.
 */
import { loadAddon } from "../device/addon.ts";
import { AgentRLError, type ErrorDetail } from "../errors.ts";

export const Status = {
  ok: 0,
  /** Full or empty: wait and try again. */
  again: 1,
  timeout: 2,
  closed: 3,
  tooLarge: 4,
  corrupt: 5,
  damaged: 6,
  /** Another process has kept the lock too long: it is stopped, not dead. */
  busy: 7,
  cancelled: 8,
} as const;

declare const kind: unique symbol;
export type RingHandle = { readonly [kind]: "ring" };
export type BoardHandle = { readonly [kind]: "board" };
export type CountersHandle = { readonly [kind]: "counters" };

export interface RingStats {
  /** Bytes of the circular buffer. */
  capacity: number;
  /** Bytes from the oldest live record to the newest, headers included. */
  usedBytes: number;
  /** Records that wait for a consumer, that one has taken and not acknowledged, and that are being written. */
  pending: number;
  taken: number;
  reserved: number;
  /** Since creation. Killed processes may leave these counts a little short. */
  records: number;
  bytes: number;
  acked: number;
  /** Calls that had to wait for space, for a record. */
  pushWaits: number;
  popWaits: number;
  /** Half-written records of dead producers that were dropped. */
  reclaimed: number;
  /** Records that came back because their consumer died or gave them back. */
  redelivered: number;
  /** Records dropped for a wrong checksum. */
  corrupt: number;
  /** Times the lock was taken over from a process that died holding it. */
  lockRecoveries: number;
  closed: boolean;
}

export interface HoldFields {
  version: number;
  slot: number;
  place: number;
  serial: number;
  checksum: string;
}

interface ShmAddon {
  unlink(name: string): boolean;
  unlinkStale(name: string): boolean;
  freeSharedMemory(): number;
  checksum(array: NodeJS.TypedArray): string;
  crc32c(array: NodeJS.TypedArray): number;
  memcpySeconds(bytes: number, region: number, count: number): number;

  ringCreate(name: string, capacity: number): RingHandle;
  ringOpen(name: string): RingHandle;
  ringTryPush(ring: RingHandle, bytes: Uint8Array): number;
  /** `about` receives offset, sequence, deliveries, bytes, place in ringBuffer. */
  ringTryTake(ring: RingHandle, about: Float64Array): Uint8Array | number;
  ringTryTakeInPlace(ring: RingHandle, about: Float64Array): number;
  /** The circular buffer itself. Once per handle. */
  ringBuffer(ring: RingHandle): ArrayBuffer;
  ringAck(ring: RingHandle, offset: number, sequence: number): boolean;
  ringReturn(ring: RingHandle, offset: number, sequence: number): boolean;
  ringWaitData(ring: RingHandle, milliseconds: number): Promise<number>;
  ringWaitSpace(ring: RingHandle, bytes: number, milliseconds: number): Promise<number>;
  ringClose(ring: RingHandle): void;
  ringReclaim(ring: RingHandle): number;
  ringDetach(ring: RingHandle): void;
  ringStats(ring: RingHandle): RingStats | number;
  ringMaxRecord(ring: RingHandle): number;
  ringLockHolder(ring: RingHandle): number;

  boardCreate(name: string, slots: number, bytes: number): BoardHandle;
  boardOpen(name: string): BoardHandle;
  boardShape(board: BoardHandle): { slots: number; bytes: number };
  boardData(board: BoardHandle, slot: number): ArrayBuffer;
  boardBeginWrite(board: BoardHandle): number;
  boardPublish(board: BoardHandle, version: number, checksum: string): void;
  boardAbort(board: BoardHandle): boolean;
  boardLatest(board: BoardHandle): number;
  boardAcquire(board: BoardHandle, version: number): HoldFields | null;
  boardRelease(board: BoardHandle, place: number, serial: number): boolean;
  boardVersions(board: BoardHandle): { version: number; slot: number; readers: number[] }[];
  boardWait(board: BoardHandle, version: number, milliseconds: number): Promise<number>;
  boardDetach(board: BoardHandle): void;

  countersCreate(name: string): CountersHandle;
  countersOpen(name: string): CountersHandle;
  countersLoad(counters: CountersHandle, index: number): number;
  countersStore(counters: CountersHandle, index: number, value: number): void;
  countersAdd(counters: CountersHandle, index: number, by: number): number;
  /** Changes of all counters so far, modulo 2^32. */
  countersChanges(counters: CountersHandle): number;
  /** Until there have been other than `seen` changes. */
  countersWait(counters: CountersHandle, seen: number, milliseconds: number): Promise<number>;
  countersDetach(counters: CountersHandle): void;
}

interface ShmFault extends Error {
  sharedMemory: true;
  got?: string;
  expected?: string;
  hint?: string;
}

function toAgentRLError(error: unknown, where: string): unknown {
  if (!(error instanceof Error) || !("sharedMemory" in error)) return error;
  const fault = error as ShmFault;
  const detail: ErrorDetail = { where, cause: error };
  if (fault.got !== undefined) detail.got = fault.got;
  if (fault.expected !== undefined) detail.expected = fault.expected;
  if (fault.hint !== undefined) detail.hint = fault.hint;
  return new AgentRLError("SHARED_MEMORY", fault.message, detail);
}

/** Runs an addon call; `where` names the segment in the error it may throw. */
export function guard<T>(where: string, call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw toAgentRLError(error, where);
  }
}

export const shm = loadAddon().shm as ShmAddon;

/** 64-bit checksum of a tensor's bytes, 16 hexadecimal digits: two CRC32C and the length (native/shm/crc32c.h). */
export function checksum(array: NodeJS.TypedArray): string {
  return shm.checksum(array);
}
