/**
 * Which recorded log-probabilities can be checked exactly. A token compares when every weight version from the oldest
 * in its context to its own holds the same weights; versions are the same when their checksums are (at learning rate
 * 0 they all are).
 */
import type { Trajectory } from "./trajectory.ts";

export class VersionChecksums {
  readonly #checksums = new Map<number, string>();

  set(version: number, checksum: string): void {
    this.#checksums.set(version, checksum);
  }

  get(version: number): string | undefined {
    return this.#checksums.get(version);
  }

  /** Forgets versions below `oldest`. */
  prune(oldest: number): void {
    for (const version of this.#checksums.keys()) if (version < oldest) this.#checksums.delete(version);
  }

  /** Whether all versions from `oldest` to `newest` hold the same weights. */
  same(oldest: number, newest: number): boolean {
    if (oldest === newest) return true;
    const checksum = this.#checksums.get(oldest);
    if (checksum === undefined) return false;
    for (let version = oldest + 1; version <= newest; version++) {
      if (this.#checksums.get(version) !== checksum) return false;
    }
    return true;
  }
}

/**
 * Sampled tokens, from the first, whose weights and whole context are of one version. Versions only grow within a
 * trajectory, so these are a prefix of its sampled tokens.
 */
export function comparableTokens(trajectory: Trajectory, versions: VersionChecksums): number {
  let count = 0;
  for (let i = 0; i < trajectory.tokens.length; i++) {
    if (trajectory.sampled[i] !== 1) continue;
    if (!versions.same(trajectory.oldestVersion[i]!, trajectory.version[i]!)) break;
    count++;
  }
  return count;
}

/** Version that the first sampled token's context was computed with; what a comparison runs under. */
export function contextVersion(trajectory: Trajectory): number {
  const first = trajectory.sampled.indexOf(1);
  return first < 0 ? -1 : trajectory.oldestVersion[first]!;
}
