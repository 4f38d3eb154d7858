/** The ring of a simulation: bounded in bytes, and with the faults that records can have. */
import { Rng } from "../env/rng.ts";
import { AgentRLError } from "../errors.ts";
import type { Clock } from "../pipeline/clock.ts";
import { CorruptRecord } from "../shm/ring.ts";
import type { FaultPlan } from "./fault-plan.ts";

interface SimRecord {
  bytes: Uint8Array;
  corrupt: boolean;
}

export class SimRing {
  readonly #world: Clock;
  readonly #capacity: number;
  readonly #faults: FaultPlan;
  readonly #rng: Rng;
  readonly #records: SimRecord[] = [];
  #used = 0;
  /** Woken when the ring has changed. */
  #waiting: (() => void)[] = [];
  mostUsed = 0;

  constructor(options: { world: Clock; capacityBytes: number; faults: FaultPlan; seed: number }) {
    this.#world = options.world;
    this.#capacity = options.capacityBytes;
    this.#faults = options.faults;
    this.#rng = new Rng("ring", options.seed);
  }

  /** @throws AgentRLError SHARED_MEMORY when the ring stays full for `timeoutMs` of the caller's time. */
  async push(bytes: Uint8Array, clock: Clock, timeoutMs: number): Promise<void> {
    const deadline = clock.now() + timeoutMs;
    while (this.#used + bytes.byteLength > this.#capacity) {
      if (clock.now() >= deadline) {
        throw new AgentRLError("SHARED_MEMORY", "the ring stayed full", { got: `${this.#used} of ${this.#capacity}` });
      }
      await this.#change(clock, Math.min(1_000, deadline - clock.now()));
    }
    const late = this.#faults.strikes("recordLate");
    const copies = this.#faults.strikes("recordDuplicate") ? 2 : 1;
    for (let copy = 0; copy < copies; copy++) {
      const record = this.#damaged(bytes);
      if (late) this.#world.after(20_000 + 600_000 * this.#rng.next(), () => this.#add(record));
      else this.#add(record);
    }
  }

  /** The next record; undefined after `timeoutMs` without one. @throws CorruptRecord */
  async pop(clock: Clock, timeoutMs: number): Promise<{ bytes: Uint8Array; ack(): void } | undefined> {
    if (this.#records.length === 0) await this.#change(clock, timeoutMs);
    const record = this.#records.shift();
    if (record === undefined) return undefined;
    this.#used -= record.bytes.byteLength;
    this.#wake();
    if (record.corrupt) throw new CorruptRecord("SHARED_MEMORY", "a ring record failed its checksum and was dropped");
    return { bytes: record.bytes, ack: () => {} };
  }

  #damaged(bytes: Uint8Array): SimRecord {
    if (this.#faults.strikes("recordCorrupt")) return { bytes, corrupt: true };
    if (!this.#faults.strikes("recordGarbage")) return { bytes, corrupt: false };
    return { bytes: bytes.map(() => this.#rng.int(256)), corrupt: false };
  }

  #add(record: SimRecord): void {
    this.#records.push(record);
    this.#used += record.bytes.byteLength;
    this.mostUsed = Math.max(this.mostUsed, this.#used);
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  #change(clock: Clock, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = clock.after(ms, resolve);
      this.#waiting.push(() => {
        timer.cancel();
        // In the caller's own time: a process that hangs is not woken.
        clock.after(0, resolve);
      });
    });
  }
}
