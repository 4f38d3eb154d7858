/**
 * The record of an episode in which several policies may take turns. Each of them keeps a record of its own, beside its
 * own cache of keys and values; this one takes from them what becomes of the episode: the sampled turns as they are, and
 * for what was given between turns the version that the policy read it with which spoke next.
 */
import { TokenRecord } from "../generate/token-record.ts";
import { noVersion, PolicyId, type Trajectory } from "./trajectory.ts";

/** The parallel arrays of a trajectory. */
type TokenArrays = Pick<
  Trajectory,
  "tokens" | "sampled" | "logProbs" | "keptMass" | "policy" | "version" | "oldestVersion"
>;

export class EpisodeRecord {
  readonly #record = new TokenRecord();
  /** PolicyId by turn, with the turn's token offsets. */
  readonly #spans: { start: number; end: number; policy: PolicyId }[] = [];
  /** Tokens before it have their versions. */
  #read = 0;

  get length(): number {
    return this.#record.length;
  }

  /** [length] what was said so far. A view: valid until the next token. */
  get tokens(): Uint32Array {
    return this.#record.tokens.subarray(0, this.#record.length);
  }

  /** Tokens that no policy wrote: the prompt, an answer of the environment. */
  given(tokens: ArrayLike<number>): void {
    const at = this.#record.length;
    this.#record.given(tokens);
    this.#record.stamp(at, this.#record.length, noVersion, noVersion);
  }

  /** The turn that a policy of this process sampled: what `from` holds beyond this record. */
  sampledTurn(from: TokenRecord, policy: PolicyId): void {
    const start = this.#record.length;
    const { tokens, logProbs, keptMass, version, oldestVersion } = from;
    for (let i = this.#read; i < start; i++) this.#record.stamp(i, i + 1, version[i]!, oldestVersion[i]!);
    for (let i = start; i < from.length; i++) {
      this.#record.sample(tokens[i]!, logProbs[i]!, keptMass[i]!, version[i]!, oldestVersion[i]!);
    }
    this.#endTurn(start, policy);
  }

  /**
   * A turn from elsewhere. `logProbs`, of its first tokens, are what it was sampled with: those tokens are trained, the
   * others are context.
   */
  externalTurn(tokens: Uint32Array, logProbs: ArrayLike<number> = []): void {
    const start = this.#record.length;
    for (let i = 0; i < logProbs.length; i++) this.#record.sample(tokens[i]!, logProbs[i]!, 1, noVersion, noVersion);
    this.given(tokens.subarray(logProbs.length));
    this.#endTurn(start, PolicyId.external);
  }

  /** Copies of the arrays, as they are now. */
  arrays(): TokenArrays {
    const n = this.#record.length;
    const { tokens, sampled, logProbs, keptMass, version, oldestVersion } = this.#record;
    const policy = new Uint8Array(n);
    for (const span of this.#spans) policy.fill(span.policy, span.start, span.end);
    return {
      tokens: tokens.slice(0, n),
      sampled: sampled.slice(0, n),
      logProbs: logProbs.slice(0, n),
      keptMass: keptMass.slice(0, n),
      policy,
      version: version.slice(0, n),
      oldestVersion: oldestVersion.slice(0, n),
    };
  }

  #endTurn(start: number, policy: PolicyId): void {
    const end = this.#record.length;
    this.#spans.push({ start, end, policy });
    this.#read = end;
  }
}
