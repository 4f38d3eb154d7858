/**
 * Which recorded log-probabilities can be checked exactly. A token compares when every weight version from the oldest
 * in its context to its own holds the same weights; versions are the same when their checksums are (at learning rate
 * 0 they all are).
 */
import { PolicyId, type Trajectory } from "./trajectory.ts";

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

/** Weights that tokens can be recomputed under: a version of the run, or a checkpoint of the pool by its name. */
export type WeightsId = number | string;

/**
 * [n] 1 where a sampled token can be recomputed exactly, by the weights to do it under. What counts are the token's own
 * weights and the keys and values that its policy saw the episode by, whoever said what is in it: another policy's turn is
 * context like any other. Tokens from an endpoint are nobody's here to recompute.
 */
export function comparableTokens(trajectory: Trajectory, versions: VersionChecksums): Map<WeightsId, Uint8Array> {
  const { tokens, sampled, policy, version, oldestVersion, turns } = trajectory;
  const masks = new Map<WeightsId, Uint8Array>();
  let turn = 0;
  for (let i = 0; i < tokens.length; i++) {
    while (turn < turns.length - 1 && turns[turn]!.end <= i) turn++;
    if (sampled[i] !== 1 || policy[i] === PolicyId.external) continue;
    if (!versions.same(oldestVersion[i]!, version[i]!)) continue;
    const id = policy[i] === PolicyId.checkpoint ? turns[turn]!.policy! : oldestVersion[i]!;
    const mask = masks.get(id) ?? new Uint8Array(tokens.length);
    mask[i] = 1;
    masks.set(id, mask);
  }
  return masks;
}
