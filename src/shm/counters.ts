/**
 * A block of 64 counters in shared memory for the few numbers that the processes of a run share: read, set, added to
 * atomically, and waited for, without a message. Values are whole numbers up to 2^53.
 */
import { AgentRLError } from "../errors.ts";
import { type CountersHandle, guard, shm } from "./native.ts";
import { checkName, unlink, unlinkAtExit } from "./segment.ts";
import { type Waiting, WaitQueue, type Woken } from "./wait-queue.ts";

export class Counters {
  static readonly length = 64;
  readonly name: string;
  readonly #handle: CountersHandle;
  readonly #waits: WaitQueue<Waiting>;
  /** The count of changes before the waiting callers last looked. */
  #seen = 0;
  #closed = false;

  private constructor(name: string, handle: CountersHandle) {
    this.name = name;
    this.#handle = handle;
    this.#waits = new WaitQueue(
      async (_, ms): Promise<Woken> => {
        await shm.countersWait(handle, this.#seen, ms);
        if (this.#closed) return "cancelled";
        this.#seen = shm.countersChanges(handle);
        return "ready";
      },
      { inOrder: false, cancelled: () => this.#gone() },
    );
  }

  /** All zero. The name is removed when this process exits. */
  static create(name: string): Counters {
    const counters = new Counters(
      name,
      guard(`counters ${name}`, () => shm.countersCreate(checkName(name))),
    );
    unlinkAtExit(name);
    return counters;
  }

  static open(name: string): Counters {
    return new Counters(
      name,
      guard(`counters ${name}`, () => shm.countersOpen(checkName(name))),
    );
  }

  load(index: number): number {
    this.#check();
    return shm.countersLoad(this.#handle, index);
  }

  store(index: number, value: number): void {
    this.#check();
    shm.countersStore(this.#handle, index, value);
  }

  /** Returns the sum. */
  add(index: number, by: number): number {
    this.#check();
    return shm.countersAdd(this.#handle, index, by);
  }

  /** The counter's value once `until` accepts it; undefined when the time is up. */
  async wait(index: number, until: (value: number) => boolean, timeoutMs: number): Promise<number | undefined> {
    this.#check();
    if (this.#waits.length === 0) this.#seen = shm.countersChanges(this.#handle);
    const value = this.load(index);
    if (until(value)) return value;
    return await new Promise((resolve, reject) => {
      this.#waits.add({
        deadline: performance.now() + timeoutMs,
        attempt: () => {
          const now = shm.countersLoad(this.#handle, index);
          if (!until(now)) return false;
          resolve(now);
          return true;
        },
        expire: () => resolve(undefined),
        fail: reject,
      });
    });
  }

  /** Ends this handle; its waits reject. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    shm.countersDetach(this.#handle);
  }

  unlink(): boolean {
    return unlink(this.name);
  }

  #gone(): AgentRLError {
    return new AgentRLError("SHARED_MEMORY", "the counters are closed in this process", {
      where: `counters ${this.name}`,
    });
  }

  #check(): void {
    if (this.#closed) throw this.#gone();
  }
}
