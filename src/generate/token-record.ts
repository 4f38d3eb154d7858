/**
 * The growing form of a trajectory's parallel arrays. Tokens are appended in two ways only: `given` (the prompt or the
 * environment wrote them) and `sampled` (the policy did), so the loss mask cannot be set anywhere else.
 */
export class TokenRecord {
  #capacity: number;
  length = 0;
  tokens: Uint32Array;
  sampled: Uint8Array;
  logProbs: Float32Array;
  keptMass: Float32Array;
  version: Uint32Array;
  oldestVersion: Uint32Array;

  constructor(capacity = 256) {
    this.#capacity = capacity;
    this.tokens = new Uint32Array(capacity);
    this.sampled = new Uint8Array(capacity);
    this.logProbs = new Float32Array(capacity);
    this.keptMass = new Float32Array(capacity);
    this.version = new Uint32Array(capacity);
    this.oldestVersion = new Uint32Array(capacity);
  }

  /** Tokens that the policy did not write. Their version is stamped when their keys and values are computed. */
  given(tokens: ArrayLike<number>): void {
    this.#grow(tokens.length);
    for (let i = 0; i < tokens.length; i++) {
      this.tokens[this.length + i] = tokens[i]!;
      this.keptMass[this.length + i] = 1;
    }
    this.length += tokens.length;
  }

  sample(token: number, logProb: number, keptMass: number, version: number, oldestVersion: number): void {
    this.#grow(1);
    const at = this.length++;
    this.tokens[at] = token;
    this.sampled[at] = 1;
    this.logProbs[at] = logProb;
    this.keptMass[at] = keptMass;
    this.version[at] = version;
    this.oldestVersion[at] = oldestVersion;
  }

  /** Stamps given tokens [from, to) with the version that wrote their keys and values. */
  stamp(from: number, to: number, version: number, oldestVersion: number): void {
    for (let i = from; i < to; i++) {
      if (this.sampled[i] === 1) continue;
      this.version[i] = version;
      this.oldestVersion[i] = oldestVersion;
    }
  }

  copy(): TokenRecord {
    const other = new TokenRecord(Math.max(this.#capacity, 16));
    other.length = this.length;
    other.tokens.set(this.tokens);
    other.sampled.set(this.sampled);
    other.logProbs.set(this.logProbs);
    other.keptMass.set(this.keptMass);
    other.version.set(this.version);
    other.oldestVersion.set(this.oldestVersion);
    return other;
  }

  #grow(by: number): void {
    const needed = this.length + by;
    if (needed <= this.#capacity) return;
    let capacity = this.#capacity;
    while (capacity < needed) capacity *= 2;
    this.#capacity = capacity;
    this.tokens = grown(this.tokens, new Uint32Array(capacity));
    this.sampled = grown(this.sampled, new Uint8Array(capacity));
    this.logProbs = grown(this.logProbs, new Float32Array(capacity));
    this.keptMass = grown(this.keptMass, new Float32Array(capacity));
    this.version = grown(this.version, new Uint32Array(capacity));
    this.oldestVersion = grown(this.oldestVersion, new Uint32Array(capacity));
  }
}

function grown<T extends Uint32Array | Uint8Array | Float32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
