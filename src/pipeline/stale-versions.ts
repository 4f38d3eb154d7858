/**
 * Copies of the trained weights that lag behind: refreshed every `every` updates, so that at version v a copy stands at
 * the last multiple of `every`. Which version that is follows from v alone; the board keeps it for whoever samples with it
 * and for the check of what was sampled.
 */
import type { TrainConfig } from "../config/train.ts";
import type { HeldWeights, WeightBoard } from "../shm/weight-board.ts";

/** The version that a copy stands at while the newest is `version`. */
export function staleVersion(version: number, every: number): number {
  return version - (version % every);
}

/** Updates between refreshes of the pool's stale copies, each number once. */
export function refreshIntervals({ crossPolicy }: TrainConfig): number[] {
  const every = (crossPolicy?.pool ?? []).flatMap((member) => (member.kind === "stale" ? [member.every!] : []));
  return [...new Set(every)].sort((a, b) => a - b);
}

/** Versions that copies stand at while the newest is `version`, itself left out. Ascending. */
export function staleVersions(version: number, intervals: readonly number[]): number[] {
  const versions = new Set(intervals.map((every) => staleVersion(version, every)));
  versions.delete(version);
  return [...versions].sort((a, b) => a - b);
}

/** Most versions that `StaleHolds` wants to hold at once. */
export function mostHeld(intervals: readonly number[], maxLag: number): number {
  return intervals.reduce((sum, every) => sum + 1 + Math.ceil(maxLag / every), 0);
}

/** Slots of a board that must stay free for the newest versions. */
const leastFree = 4;

/**
 * Keeps on the board what stale copies stand at, and what tokens in flight may still carry: a group that was begun just
 * before a refresh is trained up to `maxLag` versions later.
 */
export class StaleHolds {
  readonly #board: WeightBoard;
  readonly #intervals: readonly number[];
  readonly #maxLag: number;
  readonly #held = new Map<number, HeldWeights>();

  constructor(board: WeightBoard, intervals: readonly number[], maxLag: number) {
    this.#board = board;
    this.#intervals = intervals;
    this.#maxLag = maxLag;
  }

  /** Call when `version` has been published. */
  advance(version: number): void {
    if (this.#intervals.some((every) => version % every === 0)) this.hold(version);
    for (const [old, held] of this.#held) {
      if (!this.#wanted(old, version)) this.#release(held);
    }
    // Beyond what the board can hold, tokens of the oldest copies are trained but not compared.
    const needed = new Set([version, ...staleVersions(version, this.#intervals)]);
    const spare = [...this.#held.values()].filter((held) => !needed.has(held.version));
    const room = Math.max(this.#board.slots - leastFree - (this.#held.size - spare.length), 0);
    for (const held of spare.slice(0, Math.max(spare.length - room, 0))) this.#release(held);
  }

  hold(version: number): void {
    const held = this.#board.acquire(version);
    if (held !== null) this.#held.set(version, held);
  }

  /** The values of the copies while the newest version is `version`, by their own; ascending. */
  copies(version: number): Map<number, Float32Array> {
    return new Map(staleVersions(version, this.#intervals).map((old) => [old, this.#held.get(old)!.data]));
  }

  #wanted(old: number, version: number): boolean {
    return this.#intervals.some((every) => old % every === 0 && version <= old + every - 1 + this.#maxLag);
  }

  #release(held: HeldWeights): void {
    this.#held.delete(held.version);
    held.release();
  }
}
