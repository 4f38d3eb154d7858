/**
 * Seeded random numbers for task generators and scripted policies. A generator must be a pure function of (seed, index)
 * on every machine, so this is integer arithmetic only: sfc32 (Chris Doty-Humphrey's PractRand), seeded by FNV-1a hashes.
 */
export class Rng {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  /** Any mix of strings and numbers names a stream; two different names give unrelated streams. */
  constructor(...name: (string | number)[]) {
    const text = JSON.stringify(name);
    this.#a = fnv1a(text, 0x811c9dc5);
    this.#b = fnv1a(text, 0x9e3779b9);
    this.#c = fnv1a(text, 0x85ebca6b);
    // Nearby seeds differ in few bits at first: the first outputs are thrown away, as the author of sfc32 advises.
    for (let i = 0; i < 12; i++) this.#uint32();
  }

  #uint32(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** Uniform in [0, 1). */
  next(): number {
    return this.#uint32() / 4294967296;
  }

  /** Uniform integer in [0, n). */
  int(n: number): number {
    return Math.floor(this.next() * n);
  }

  /** Uniform integer in [low, high], both included. */
  between(low: number, high: number): number {
    return low + this.int(high - low + 1);
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError("pick from an empty list");
    return items[this.int(items.length)] as T;
  }

  /** A shuffled copy (Fisher-Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.int(i + 1);
      [out[i], out[j]] = [out[j] as T, out[i] as T];
    }
    return out;
  }

  /** `count` different items, in random order. */
  sample<T>(items: readonly T[], count: number): T[] {
    return this.shuffle(items).slice(0, count);
  }
}

function fnv1a(text: string, basis: number): number {
  let hash = basis;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
