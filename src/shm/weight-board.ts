/**
 * The weight board: the last few versions of the weights in shared memory (native/shm/board.h). The learner writes a
 * version into a free slot and publishes it; rollout processes hold the version they decode from, and compute straight
 * from its memory. A held slot is never overwritten, a dead process's hold is.
 */
import { AgentRLError } from "../errors.ts";
import { type BoardHandle, guard, type HoldFields, shm } from "./native.ts";
import { checkName, unlink, unlinkAtExit } from "./segment.ts";
import { type Waiting, WaitQueue, type Woken } from "./wait-queue.ts";

/** Slots that a board can have (native/shm/board.h). */
export const mostSlots = 64;

/** A slot of the board and the memory it is. */
export interface BoardSlot {
  readonly slot: number;
  /** [bytes / 4] The memory itself, not a copy. */
  readonly data: Float32Array;
}

/** A version that will not be overwritten before `release`. Its data is not to be read later, and never to be written. */
export interface HeldWeights extends BoardSlot {
  readonly version: number;
  /** What the writer gave to `publish`. */
  readonly checksum: string;
  /** The slot may be overwritten from now on. A second call does nothing. */
  release(): void;
}

export interface WeightVersion {
  version: number;
  slot: number;
  /** Process ids, one per hold. */
  readers: number[];
}

export class WeightBoard {
  readonly name: string;
  readonly slots: number;
  /** Size of one version. */
  readonly bytes: number;
  readonly #handle: BoardHandle;
  /** One view per slot for the life of the handle: V8 must not be given one address as two buffers. */
  readonly #views: (Float32Array | undefined)[] = [];
  readonly #waits: WaitQueue<Waiting>;
  /** The latest version before the waiting callers last looked. */
  #seen = -1;
  #writing: BoardSlot | undefined;
  #closed = false;

  private constructor(name: string, handle: BoardHandle) {
    this.name = name;
    this.#handle = handle;
    const { slots, bytes } = shm.boardShape(handle);
    this.slots = slots;
    this.bytes = bytes;
    this.#waits = new WaitQueue(
      async (_, ms): Promise<Woken> => {
        // Any version newer than the callers have seen: they want different ones.
        await shm.boardWait(handle, this.#seen + 1, ms);
        if (this.#closed) return "cancelled";
        this.#seen = shm.boardLatest(handle);
        return "ready";
      },
      { inOrder: false, cancelled: () => this.#gone() },
    );
  }

  /**
   * Makes a new board of `slots` versions of `bytes` each; its name is removed when this process exits. A board of this
   * name whose creator is dead is replaced. A board that is ever written to again needs two
   * slots at least, and one more for each reader that lags behind.
   */
  static create(options: { name: string; slots: number; bytes: number }): WeightBoard {
    const name = checkName(options.name);
    const { slots, bytes } = options;
    if (
      !Number.isInteger(slots) ||
      slots < 1 ||
      slots > mostSlots ||
      !Number.isSafeInteger(bytes) ||
      bytes < 4 ||
      bytes % 4
    ) {
      throw new AgentRLError("SHARED_MEMORY", "not a shape for a weight board", {
        where: `weight board ${name}`,
        got: `${slots} slots of ${bytes} bytes`,
        expected: `1 to ${mostSlots} slots of a positive multiple of 4 bytes`,
      });
    }
    const handle = guard(`weight board ${name}`, () => shm.boardCreate(name, slots, bytes));
    unlinkAtExit(name);
    return new WeightBoard(name, handle);
  }

  static open(name: string): WeightBoard {
    return new WeightBoard(
      name,
      guard(`weight board ${name}`, () => shm.boardOpen(checkName(name))),
    );
  }

  /**
   * A slot for the next version, its old content undefined: one that is empty, else that of the oldest version which is
   * neither held nor the latest. Throws SHARED_MEMORY, naming the holders, when there is none, and when another write is
   * under way. To be followed by `publish` or `abort`.
   */
  beginWrite(): BoardSlot {
    this.#check();
    const slot = guard(`weight board ${this.name}`, () => shm.boardBeginWrite(this.#handle));
    this.#writing = { slot, data: this.#view(slot) };
    return this.#writing;
  }

  /**
   * Makes the slot that `beginWrite` gave the latest version, at once for all processes. Versions are whole numbers and
   * rise. Readers get `checksum`, by default computed here; returns it.
   */
  publish(slot: BoardSlot, version: number, checksum = shm.checksum(slot.data)): string {
    this.#checkWriting(slot);
    if (!Number.isSafeInteger(version) || version < 0 || version >= 2 ** 48) {
      throw new AgentRLError("SHARED_MEMORY", "not a weight version", {
        where: `weight board ${this.name}`,
        got: version,
        expected: "a whole number from 0",
      });
    }
    guard(`weight board ${this.name}`, () => shm.boardPublish(this.#handle, version, checksum));
    this.#writing = undefined;
    return checksum;
  }

  /** Gives up the write that `beginWrite` began; the slot's old version is gone. */
  abort(slot: BoardSlot): void {
    this.#checkWriting(slot);
    this.#writing = undefined;
    shm.boardAbort(this.#handle);
  }

  /** -1: nothing published yet. One atomic load. */
  latestVersion(): number {
    this.#check();
    return shm.boardLatest(this.#handle);
  }

  /** Holds `version`, or the latest. Null: it is not there any more, or not yet. */
  acquire(version?: number): HeldWeights | null {
    this.#check();
    const hold = guard(`weight board ${this.name}`, () => shm.boardAcquire(this.#handle, version ?? -1));
    return hold === null ? null : this.#hold(hold);
  }

  release(held: HeldWeights): void {
    held.release();
  }

  /** 16 hexadecimal digits: two CRC32C of the bytes and their number. Fast: a few GB/s or more. */
  checksum(data: Float32Array): string {
    return shm.checksum(data);
  }

  /** Versions that can be acquired now, ascending. */
  versions(): WeightVersion[] {
    this.#check();
    return guard(`weight board ${this.name}`, () => shm.boardVersions(this.#handle));
  }

  /** The latest version once it is at least `version`; undefined when the time is up. */
  async waitForVersion(version: number, timeoutMs: number): Promise<number | undefined> {
    const latest = this.latestVersion();
    if (latest >= version) return latest;
    if (this.#waits.length === 0) this.#seen = latest;
    return await new Promise((resolve, reject) => {
      this.#waits.add({
        deadline: performance.now() + timeoutMs,
        attempt: () => {
          const now = shm.boardLatest(this.#handle);
          if (now < version) return false;
          resolve(now);
          return true;
        },
        expire: () => resolve(undefined),
        fail: reject,
      });
    });
  }

  /** Ends this handle: waits reject, its holds and its unfinished write are given up. Views stay mapped. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    shm.boardDetach(this.#handle);
  }

  unlink(): boolean {
    return unlink(this.name);
  }

  #view(slot: number): Float32Array {
    const view = this.#views[slot] ?? new Float32Array(shm.boardData(this.#handle, slot));
    this.#views[slot] = view;
    return view;
  }

  #hold(fields: HoldFields): HeldWeights {
    const { version, slot, checksum, place, serial } = fields;
    let held = true;
    return {
      version,
      slot,
      checksum,
      data: this.#view(slot),
      release: () => {
        if (held && !this.#closed) shm.boardRelease(this.#handle, place, serial);
        held = false;
      },
    };
  }

  #gone(): AgentRLError {
    return new AgentRLError("SHARED_MEMORY", "the weight board is closed in this process", {
      where: `weight board ${this.name}`,
      hint: "open it again",
    });
  }

  #checkWriting(slot: BoardSlot): void {
    this.#check();
    if (slot === this.#writing) return;
    throw new AgentRLError("SHARED_MEMORY", "this slot is not being written", {
      where: `weight board ${this.name}`,
      got: `slot ${slot.slot}`,
      expected: this.#writing === undefined ? "beginWrite before publish or abort" : `slot ${this.#writing.slot}`,
    });
  }

  #check(): void {
    if (this.#closed) throw this.#gone();
  }
}
