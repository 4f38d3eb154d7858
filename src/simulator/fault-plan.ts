/** Which faults a simulation injects, how often, and how often it has. */
import { Rng } from "../env/rng.ts";

/** Each is a chance: of an environment's answer, a turn, a record, a process's second, a checkpoint, or a minute. */
export interface FaultRates {
  /** Of an answer: the environment throws, never answers, answers after its deadline, or says what makes no sense. */
  environmentCrash: number;
  environmentHang: number;
  environmentSlow: number;
  environmentGarbage: number;
  /** Of a turn: it is never sampled to its end. */
  engineStall: number;
  /** Of a record: it fails its checksum, is not a trajectory, comes twice, or comes minutes late. */
  recordCorrupt: number;
  recordGarbage: number;
  recordDuplicate: number;
  recordLate: number;
  /** Of a second of a process: it dies, or nothing moves in it any more. */
  rolloutCrash: number;
  rolloutHang: number;
  learnerCrash: number;
  learnerHang: number;
  /** Of a checkpoint: the disk is full. */
  diskFull: number;
  /** Of a minute: all clocks leap by an hour. */
  clockJump: number;
}

export type FaultKind = keyof FaultRates;

export class FaultPlan {
  readonly injected: Record<FaultKind, number>;
  readonly #rates: Partial<FaultRates>;
  readonly #rng: Rng;

  constructor(rates: Partial<FaultRates>, seed: number) {
    this.#rates = rates;
    this.#rng = new Rng("faults", seed);
    this.injected = {
      environmentCrash: 0,
      environmentHang: 0,
      environmentSlow: 0,
      environmentGarbage: 0,
      engineStall: 0,
      recordCorrupt: 0,
      recordGarbage: 0,
      recordDuplicate: 0,
      recordLate: 0,
      rolloutCrash: 0,
      rolloutHang: 0,
      learnerCrash: 0,
      learnerHang: 0,
      diskFull: 0,
      clockJump: 0,
    };
  }

  /** Whether the fault happens now; counts it. */
  strikes(kind: FaultKind): boolean {
    const rate = this.#rates[kind] ?? 0;
    if (rate === 0 || this.#rng.next() >= rate) return false;
    this.injected[kind]++;
    return true;
  }
}
