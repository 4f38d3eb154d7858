/**
 * The ring: a queue of byte records between processes, through shared memory (native/shm/ring.h). Trajectories travel
 * through it from the rollout processes to the learner.
 *
 * A push that resolved is delivered until a consumer acknowledges it; what a consumer had taken when it died goes to
 * another. Copying runs on the event loop (64 KiB take microseconds); waiting never does.
 */
import { AgentRLError } from "../errors.ts";
import { guard, type RingHandle, type RingStats, Status, shm } from "./native.ts";
import { checkName, unlink, unlinkAtExit } from "./segment.ts";
import { type Waiting, WaitQueue, type Woken } from "./wait-queue.ts";

export type { RingStats } from "./native.ts";

/** A record that this process has taken. It fills the ring until it is acknowledged. */
export class RingRecord {
  /** A copy of its own; with `inPlace`, the ring's memory, which is not to be read after `ack` or `giveBack`. */
  readonly bytes: Uint8Array;
  /** Order in which places in the ring were given out; unique in the ring. */
  readonly sequence: number;
  /** 1 unless an earlier consumer died with it or gave it back. */
  readonly deliveries: number;
  readonly #settle: Settle;
  readonly #offset: number;
  #held = true;

  /** Made by `Ring.pop`. */
  constructor(settle: Settle, bytes: Uint8Array, about: Float64Array) {
    this.#settle = settle;
    this.bytes = bytes;
    this.#offset = about[0]!;
    this.sequence = about[1]!;
    this.deliveries = about[2]!;
  }

  /** From now on the record is never delivered again, and its space is free. */
  ack(): void {
    this.#end("acknowledged");
  }

  /** The next pop, of any process, gets it. */
  giveBack(): void {
    this.#end("given back");
  }

  #end(how: "acknowledged" | "given back"): void {
    this.#settle(how, this.#held, this.#offset, this.sequence);
    this.#held = false;
  }
}

type Settle = (how: "acknowledged" | "given back", held: boolean, offset: number, sequence: number) => void;

export interface WaitOptions {
  /** @default 60000 */
  timeoutMs?: number;
}

export interface PopOptions extends WaitOptions {
  /** Do not copy the record out of the ring: for readers that decode it and then acknowledge it. @default false */
  inPlace?: boolean;
}

interface PendingPush extends Waiting {
  readonly bytes: Uint8Array;
}

const defaultTimeoutMs = 60_000;

/** A record that failed its checksum. It has been dropped; the ring goes on. */
export class CorruptRecord extends AgentRLError {}

function woken(status: number): Woken {
  if (status === Status.cancelled) return "cancelled";
  return status === Status.again || status === Status.timeout || status === Status.busy ? "not yet" : "ready";
}

export class Ring {
  readonly name: string;
  /** Largest record in bytes: a quarter of the capacity. */
  readonly maxRecordBytes: number;
  readonly #handle: RingHandle;
  readonly #about = new Float64Array(5);
  readonly #pushes: WaitQueue<PendingPush>;
  readonly #pops: WaitQueue<Waiting>;
  /** For records read in place; made once. */
  #buffer: ArrayBuffer | undefined;
  #detached = false;

  readonly #settle: Settle = (how, held, offset, sequence) => {
    this.#check();
    const call = how === "acknowledged" ? shm.ringAck : shm.ringReturn;
    if (held && call(this.#handle, offset, sequence)) return;
    throw new AgentRLError("SHARED_MEMORY", `a ring record cannot be ${how}`, {
      where: `ring ${this.name}, record ${sequence}`,
      got: held ? "a record this handle does not hold" : "a record already acknowledged or given back",
      expected: "one ack or giveBack for each pop",
    });
  };

  private constructor(name: string, handle: RingHandle) {
    this.name = name;
    this.#handle = handle;
    this.maxRecordBytes = shm.ringMaxRecord(handle);
    const options = { inOrder: true, cancelled: () => this.#error(Status.cancelled) };
    this.#pushes = new WaitQueue(
      async (first, ms) => woken(await shm.ringWaitSpace(handle, first.bytes.byteLength, ms)),
      options,
    );
    this.#pops = new WaitQueue(async (_, ms) => woken(await shm.ringWaitData(handle, ms)), options);
  }

  /**
   * Makes a new ring; its name is removed when this process exits. A ring of this name whose creator is dead is
   * replaced. Throws SHARED_MEMORY when the name is in use or memory is short.
   */
  static create(options: { name: string; capacityBytes: number }): Ring {
    const name = checkName(options.name);
    const { capacityBytes } = options;
    if (!Number.isSafeInteger(capacityBytes) || capacityBytes < 4096) {
      throw new AgentRLError("SHARED_MEMORY", "not a capacity for a ring", {
        where: `ring ${name}`,
        got: capacityBytes,
        expected: "a whole number of bytes, at least 4096 and four times the largest record",
      });
    }
    const ring = new Ring(
      name,
      guard(`ring ${name}`, () => shm.ringCreate(name, capacityBytes)),
    );
    unlinkAtExit(name);
    return ring;
  }

  /** Opens a ring that another process, or this one, has created. */
  static open(name: string): Ring {
    return new Ring(
      name,
      guard(`ring ${name}`, () => shm.ringOpen(checkName(name))),
    );
  }

  /**
   * Resolves once the record is in the ring and survives this process. Waits while the ring is full, in order of the
   * calls; `bytes` must not change meanwhile. Rejects with SHARED_MEMORY when the time is up, the ring is closed, the
   * record is above `maxRecordBytes`, or this handle is detached.
   */
  async push(bytes: Uint8Array, options: WaitOptions = {}): Promise<void> {
    if (this.#pushes.length === 0 && this.tryPush(bytes)) return;
    const { timeoutMs = defaultTimeoutMs } = options;
    await new Promise<void>((resolve, reject) => {
      this.#pushes.add({
        bytes,
        deadline: performance.now() + timeoutMs,
        attempt: () => {
          try {
            if (!this.tryPush(bytes)) return false;
            resolve();
          } catch (error) {
            reject(error);
          }
          return true;
        },
        expire: () => reject(this.#full(bytes.byteLength, timeoutMs)),
        fail: reject,
      });
    });
  }

  /** False: the ring is full now. */
  tryPush(bytes: Uint8Array): boolean {
    this.#check();
    const status = shm.ringTryPush(this.#handle, bytes);
    if (status === Status.ok) return true;
    if (status === Status.again || status === Status.busy) return false;
    throw this.#error(status, bytes.byteLength);
  }

  /**
   * The next record: undefined when the time is up, null when the ring is closed and empty. Of several waiting calls the
   * first is served first. A record that fails its checksum is dropped and reported by a rejection; the ring goes on.
   */
  async pop(options: PopOptions = {}): Promise<RingRecord | null | undefined> {
    if (this.#pops.length === 0) {
      const record = this.tryPop(options);
      if (record !== undefined) return record;
    }
    const { timeoutMs = defaultTimeoutMs } = options;
    return await new Promise((resolve, reject) => {
      this.#pops.add({
        deadline: performance.now() + timeoutMs,
        attempt: () => {
          try {
            const record = this.tryPop(options);
            if (record === undefined) return false;
            resolve(record);
          } catch (error) {
            reject(error);
          }
          return true;
        },
        expire: () => resolve(undefined),
        fail: reject,
      });
    });
  }

  /** undefined: no record now; null: closed and empty. */
  tryPop(options: { inPlace?: boolean } = {}): RingRecord | null | undefined {
    this.#check();
    const about = this.#about;
    const got = options.inPlace ? this.#takeInPlace() : shm.ringTryTake(this.#handle, about);
    if (typeof got !== "number") return new RingRecord(this.#settle, got, about);
    if (got === Status.again || got === Status.busy) return undefined;
    if (got === Status.closed) return null;
    throw this.#error(got, about[3], about[1]);
  }

  /** For every process: pushes are refused, waiting consumers wake, and pops drain what is left, then give null. */
  close(): void {
    this.#check();
    shm.ringClose(this.#handle);
  }

  /**
   * Moves on at once what dead processes left. Waiting processes do the same by themselves within a fraction of a
   * second; a supervisor that has just seen a child die need not wait for that.
   */
  reclaim(): void {
    this.#check();
    const status = shm.ringReclaim(this.#handle);
    if (status !== Status.ok) throw this.#error(status);
  }

  stats(): RingStats {
    this.#check();
    const stats = shm.ringStats(this.#handle);
    if (typeof stats === "number") throw this.#error(stats);
    return stats;
  }

  /** Ends this handle, not the ring: waiting calls reject, and records taken but not acknowledged go back. */
  detach(): void {
    if (this.#detached) return;
    this.#detached = true;
    shm.ringDetach(this.#handle);
  }

  /** Removes the name; processes that have the ring open can go on using it. */
  unlink(): boolean {
    return unlink(this.name);
  }

  #takeInPlace(): Uint8Array | number {
    const status = shm.ringTryTakeInPlace(this.#handle, this.#about);
    if (status !== Status.ok) return status;
    this.#buffer ??= shm.ringBuffer(this.#handle);
    return new Uint8Array(this.#buffer, this.#about[4], this.#about[3]);
  }

  #check(): void {
    if (this.#detached) throw this.#error(Status.cancelled);
  }

  #full(bytes: number, timeoutMs: number): AgentRLError {
    const { usedBytes, capacity, pending, taken, reserved } = this.stats();
    return new AgentRLError("SHARED_MEMORY", `the ring stayed full for ${timeoutMs} ms`, {
      where: `ring ${this.name}, push of ${bytes} bytes`,
      got: `${usedBytes} of ${capacity} bytes used: ${pending} records waiting, ${taken} taken, ${reserved} being written`,
      expected: "consumers that pop and acknowledge",
      hint: taken > pending ? "acknowledge records sooner" : "check that a consumer runs, or use a larger ring",
    });
  }

  #error(status: number, bytes?: number, sequence?: number): AgentRLError {
    const where = `ring ${this.name}`;
    switch (status) {
      case Status.closed:
        return new AgentRLError("SHARED_MEMORY", "the ring is closed", { where, expected: "no push after close" });
      case Status.tooLarge:
        return new AgentRLError("SHARED_MEMORY", "the record is too large for the ring", {
          where,
          got: `${bytes} bytes`,
          expected: `at most ${this.maxRecordBytes} bytes, a quarter of the ring`,
          hint: "create the ring with more capacityBytes",
        });
      case Status.corrupt:
        return new CorruptRecord("SHARED_MEMORY", "a ring record failed its checksum and was dropped", {
          where: `${where}, record ${sequence} of ${bytes} bytes`,
          expected: "the CRC32C that its producer wrote",
          hint: "another process has written into the shared memory, or the memory is faulty",
        });
      case Status.damaged:
        return new AgentRLError("SHARED_MEMORY", "the ring is damaged: a record's header makes no sense", {
          where,
          hint: "another process has written into the shared memory; start the run again with a new ring",
        });
      case Status.busy:
        return new AgentRLError("SHARED_MEMORY", "the ring is locked", {
          where,
          got: `by process ${shm.ringLockHolder(this.#handle)}, which is alive`,
          expected: "a lock held for microseconds",
          hint: "that process is stopped (debugger, SIGSTOP, frozen container): let it go on, or kill it",
        });
      case Status.cancelled:
        return new AgentRLError("SHARED_MEMORY", "the ring was detached", { where, hint: "open it again" });
      default:
        return new AgentRLError("SHARED_MEMORY", `unexpected ring status ${status}`, { where });
    }
  }
}
