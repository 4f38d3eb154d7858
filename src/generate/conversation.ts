/**
 * One episode's token record and its place in the KV cache of an engine: appended to, sampled from, forked.
 */
import { AgentRLError } from "../errors.ts";
import type { Engine } from "./engine.ts";
import type { Sampling, SeedWords } from "./sampling.ts";
import type { TokenRecord } from "./token-record.ts";

/** Why a turn ended: the model closed it, its token budget ran out, or the context is full. */
export type TurnEnd = "stop" | "length" | "context";

export interface TurnOptions {
  /** Tokens that end the turn; the ending token is part of the record. */
  stopTokens: readonly number[];
  maxTokens: number;
  sampling: Sampling;
  seed: SeedWords;
}

/** One episode's token record and its place in the KV cache. */
export class Conversation {
  /** @internal Pages of the KV cache in order. */
  readonly pages: number[] = [];
  /** @internal Tokens whose keys and values are in the cache. */
  computed = 0;
  /** @internal Version that wrote the oldest keys and values; -1 before the first. */
  oldestVersion = -1;
  /** @internal Most tokens whose keys and values were ever in the cache. */
  reached = 0;
  /** @internal What it was forked from, while that may be of use, and how many tokens that had then. */
  origin: { from: Conversation; length: number } | null = null;
  /** @internal Its cache was given back, and what it shares with its origin is being computed. */
  awaitsOrigin = false;
  readonly record: TokenRecord;
  closed = false;
  #busy = false;
  readonly #engine: Engine;

  /** @internal Use Engine.open. */
  constructor(engine: Engine, record: TokenRecord) {
    this.#engine = engine;
    this.record = record;
  }

  get length(): number {
    return this.record.length;
  }

  /** Tokens that it may hold. */
  get contextLimit(): number {
    return this.#engine.contextLimit;
  }

  /** Appends tokens that the policy did not sample: a prompt, a tool's answer. */
  extend(tokens: ArrayLike<number>): void {
    if (this.record.length + tokens.length > this.#engine.contextLimit) {
      throw new AgentRLError("PIPELINE", "The conversation would outgrow its context", {
        where: "Conversation.extend",
        got: this.record.length + tokens.length,
        expected: `at most ${this.#engine.contextLimit} tokens`,
        hint: "check contextLimit first and end the episode with 'context limit'",
      });
    }
    this.record.given(tokens);
  }

  /** @internal Rows to feed: all unfed tokens, or all but the last when nothing is to be sampled from it. */
  pending(sampling: boolean): number {
    return Math.max(0, this.record.length - this.computed - (sampling ? 0 : 1));
  }

  /** Fills the cache up to the last token (which the next turn feeds), so that forks share it. */
  async prefill(): Promise<void> {
    await this.#exclusive(() => this.#engine.run(this, null));
  }

  /** Samples one turn and appends it to the record. */
  generate(turn: TurnOptions): Promise<TurnEnd> {
    if (this.record.length === 0) {
      return Promise.reject(new AgentRLError("PIPELINE", "An empty conversation has nothing to sample from"));
    }
    if (this.record.length >= this.#engine.contextLimit) return Promise.resolve("context");
    return this.#exclusive(() => this.#engine.run(this, turn));
  }

  fork(): Conversation {
    return this.#engine.fork(this);
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#engine.release(this);
  }

  async #exclusive<T>(work: () => Promise<T>): Promise<T> {
    if (this.closed) throw new AgentRLError("PIPELINE", "The conversation is closed", { where: "Conversation" });
    if (this.#busy) throw new AgentRLError("PIPELINE", "A turn is already being generated", { where: "Conversation" });
    this.#busy = true;
    try {
      return await work();
    } finally {
      this.#busy = false;
    }
  }
}
