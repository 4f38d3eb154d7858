/**
 * The generation engine: continuous batching over a paged KV cache. Every step takes the newest weights, feeds the
 * pending tokens of every busy conversation (one for those that decode, a chunk for those that prefill) through one
 * packed pass, and samples where a conversation's last token was reached. A conversation's cache lives across its
 * turns; forks share the pages of what they have in common.
 */
import { ATTENTION_BLOCK, type Device } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "../model/config.ts";
import { InferencePass } from "../model/inference-pass.ts";
import { PagePool } from "./page-pool.ts";
import type { Sampling, SeedWords } from "./sampling.ts";
import { TokenRecord } from "./token-record.ts";
import type { WeightSource } from "./weight-source.ts";

export interface EngineOptions {
  device: Device;
  config: ModelConfig;
  weights: WeightSource;
  /** Conversations open at once (a fork counts as one). */
  maxConversations: number;
  /** Tokens a conversation may hold. */
  contextLimit: number;
  /** Tokens fed in one step over all conversations: bounds the latency that a long prefill adds to the others. */
  maxRows?: number;
}

/** Why a turn ended: the model closed it, its token budget ran out, or the context is full. */
export type TurnEnd = "stop" | "length" | "context";

export interface TurnOptions {
  /** Tokens that end the turn; the ending token is part of the record. */
  stopTokens: readonly number[];
  maxTokens: number;
  sampling: Sampling;
  seed: SeedWords;
}

export interface EngineStats {
  steps: number;
  /** Rows computed: prefill and decode. */
  rows: number;
  sampledTokens: number;
  /** Tokens thrown away because a conversation was closed in mid-turn. */
  abortedTokens: number;
  weightUpdates: number;
  /** Milliseconds during which a step was being computed. */
  busyMs: number;
}

interface Task {
  conversation: Conversation;
  /** Null: only the cache is filled (prefill). */
  turn: TurnOptions | null;
  started: number;
  resolve: (end: TurnEnd) => void;
  reject: (error: unknown) => void;
}

export class Engine {
  readonly contextLimit: number;
  readonly stats: EngineStats = { steps: 0, rows: 0, sampledTokens: 0, abortedTokens: 0, weightUpdates: 0, busyMs: 0 };
  readonly #pass: InferencePass;
  readonly #pool: PagePool;
  readonly #weights: WeightSource;
  readonly #maxRows: number;
  readonly #pagesPerConversation: number;
  readonly #maxConversations: number;
  readonly #tasks = new Set<Task>();
  #open = 0;
  #running = false;
  #failure: unknown = null;
  #lastVersion = -1;
  #idle: (() => void)[] = [];

  constructor(options: EngineOptions) {
    const { device, config, weights, maxConversations, contextLimit, maxRows = 512 } = options;
    if (contextLimit > config.maxPositions) {
      throw new AgentRLError("CONFIG", "The context limit is longer than the model's positions", {
        where: "contextLimit",
        got: contextLimit,
        expected: `at most ${config.maxPositions}`,
        hint: "lower rollout.contextLimit",
      });
    }
    this.contextLimit = contextLimit;
    this.#maxConversations = maxConversations;
    this.#pagesPerConversation = Math.ceil(contextLimit / ATTENTION_BLOCK);
    this.#maxRows = Math.max(maxRows, maxConversations);
    this.#weights = weights;
    const pages = maxConversations * this.#pagesPerConversation;
    this.#pool = new PagePool(pages);
    this.#pass = new InferencePass(device, config, { maxRows: this.#maxRows, pages });
  }

  get openConversations(): number {
    return this.#open;
  }

  open(tokens: ArrayLike<number>): Conversation {
    return this.#admit(new Conversation(this, new TokenRecord(), []), tokens);
  }

  /** @internal A conversation that shares what `parent` has computed. */
  fork(parent: Conversation): Conversation {
    for (const page of parent.pages) this.#pool.share(page);
    const child = new Conversation(this, parent.record.copy(), [...parent.pages]);
    child.computed = parent.computed;
    child.oldestVersion = parent.oldestVersion;
    return this.#admit(child, []);
  }

  /** @internal */
  run(conversation: Conversation, turn: TurnOptions | null): Promise<TurnEnd> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#tasks.add({ conversation, turn, started: conversation.record.length, resolve, reject });
      this.#start();
    });
  }

  /** @internal */
  release(conversation: Conversation): void {
    for (const task of this.#tasks) {
      if (task.conversation !== conversation) continue;
      this.#tasks.delete(task);
      this.stats.abortedTokens += conversation.record.length - task.started;
      task.reject(new AgentRLError("PIPELINE", "The conversation was closed in mid-turn", { where: "engine" }));
    }
    for (const page of conversation.pages) this.#pool.release(page);
    conversation.pages.length = 0;
    this.#open--;
  }

  /** Waits for the step in progress, then frees the cache. */
  async destroy(): Promise<void> {
    for (const task of [...this.#tasks]) task.conversation.close();
    if (this.#running) await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#pass.destroy();
    this.#weights.close();
  }

  #admit(conversation: Conversation, tokens: ArrayLike<number>): Conversation {
    if (this.#open >= this.#maxConversations) {
      for (const page of conversation.pages) this.#pool.release(page);
      throw new AgentRLError("PIPELINE", "Too many conversations are open", {
        where: "generation engine",
        got: this.#open + 1,
        expected: `at most ${this.#maxConversations}`,
      });
    }
    this.#open++;
    conversation.extend(tokens);
    return conversation;
  }

  #start(): void {
    if (this.#running) return;
    this.#running = true;
    this.#loop()
      .catch((error) => {
        this.#failure = error;
        for (const task of this.#tasks) task.reject(error);
        this.#tasks.clear();
      })
      .finally(() => {
        this.#running = false;
        this.#weights.rest?.();
        for (const wake of this.#idle.splice(0)) wake();
      });
  }

  async #loop(): Promise<void> {
    while (this.#tasks.size > 0) {
      const started = performance.now();
      await this.#step();
      this.stats.busyMs += performance.now() - started;
      // Lets environments answer and messages arrive between two steps.
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  /** One packed pass: who feeds how many rows is decided here, decoding conversations first. */
  async #step(): Promise<void> {
    const { version, weights } = this.#weights.latest();
    if (version !== this.#lastVersion) {
      if (this.#lastVersion >= 0) this.stats.weightUpdates++;
      this.#lastVersion = version;
    }

    const plan: { task: Task; rows: number; samples: boolean }[] = [];
    let budget = this.#maxRows;
    const pending = [...this.#tasks].map((task) => ({ task, left: task.conversation.pending(task.turn !== null) }));
    pending.sort((a, b) => a.left - b.left);
    for (const { task, left } of pending) {
      const rows = Math.min(left, budget);
      if (rows === 0 && left > 0) break;
      plan.push({ task, rows, samples: task.turn !== null && rows === left });
      budget -= rows;
    }

    const total = this.#maxRows - budget;
    const sampled = plan.filter((entry) => entry.samples);
    const stride = this.#pagesPerConversation;
    const tokens = new Uint32Array(total);
    const positions = new Uint32Array(total);
    const sequenceOf = new Uint32Array(total);
    const slots = new Uint32Array(total);
    const pageTable = new Uint32Array(plan.length * stride);
    const sampleRows = new Uint32Array(sampled.length);
    const sampling = {
      temperatures: new Float32Array(sampled.length),
      topK: new Uint32Array(sampled.length),
      topP: new Float32Array(sampled.length),
      minP: new Float32Array(sampled.length),
      seeds: new Uint32Array(sampled.length * 4),
    };

    let row = 0;
    let draw = 0;
    for (let line = 0; line < plan.length; line++) {
      const { task, rows, samples } = plan[line]!;
      const { conversation, turn } = task;
      const first = conversation.computed;
      this.#makeRoom(conversation, rows);
      for (let i = 0; i < rows; i++, row++) {
        const position = first + i;
        tokens[row] = conversation.record.tokens[position]!;
        positions[row] = position;
        sequenceOf[row] = line;
        const page = conversation.pages[Math.floor(position / ATTENTION_BLOCK)]!;
        slots[row] = page * ATTENTION_BLOCK + (position % ATTENTION_BLOCK);
      }
      pageTable.set(conversation.pages, line * stride);
      if (samples) {
        sampleRows[draw] = row - 1;
        sampling.temperatures[draw] = turn!.sampling.temperature;
        sampling.topK[draw] = turn!.sampling.topK;
        sampling.topP[draw] = turn!.sampling.topP;
        sampling.minP[draw] = turn!.sampling.minP;
        sampling.seeds.set([conversation.record.length, turn!.seed.sample, turn!.seed.group, turn!.seed.key], draw * 4);
        draw++;
      }
    }

    if (total > 0) {
      const result = await this.#pass.step(weights, {
        tokens,
        positions,
        sequenceOf,
        slots,
        pageTable,
        pageTableStride: stride,
        rows: total,
        sampleRows,
        sampling,
      });
      draw = 0;
      for (const { task, rows, samples } of plan) {
        const { conversation } = task;
        if (conversation.closed) {
          if (samples) draw++;
          continue;
        }
        if (conversation.oldestVersion < 0) conversation.oldestVersion = version;
        const { record } = conversation;
        record.stamp(conversation.computed, conversation.computed + rows, version, conversation.oldestVersion);
        conversation.computed += rows;
        if (!samples) continue;
        record.sample(
          result.tokens[draw]!,
          result.logProbs[draw]!,
          result.keptMass[draw]!,
          version,
          conversation.oldestVersion,
        );
        draw++;
        this.stats.sampledTokens++;
      }
    }
    this.stats.steps++;
    this.stats.rows += total;
    for (const { task, samples } of plan) this.#settle(task, samples);
  }

  #settle(task: Task, sampled: boolean): void {
    const { conversation, turn } = task;
    if (!this.#tasks.has(task)) return;
    let end: TurnEnd | null = null;
    if (turn === null) {
      if (conversation.pending(false) === 0) end = "stop";
    } else if (sampled) {
      const { record } = conversation;
      const last = record.tokens[record.length - 1]!;
      if (turn.stopTokens.includes(last)) end = "stop";
      else if (record.length >= this.contextLimit) end = "context";
      else if (record.length - task.started >= turn.maxTokens) end = "length";
    }
    if (end === null) return;
    this.#tasks.delete(task);
    task.resolve(end);
  }

  /** Pages for `rows` more tokens; a shared page that will be written becomes the conversation's own first. */
  #makeRoom(conversation: Conversation, rows: number): void {
    const { pages, computed } = conversation;
    if (rows === 0) return;
    const firstPage = Math.floor(computed / ATTENTION_BLOCK);
    const lastPage = Math.floor((computed + rows - 1) / ATTENTION_BLOCK);
    if (firstPage < pages.length && this.#pool.isShared(pages[firstPage]!)) {
      const own = this.#pool.take();
      if (computed % ATTENTION_BLOCK !== 0) this.#pass.copyPage(pages[firstPage]!, own);
      this.#pool.release(pages[firstPage]!);
      pages[firstPage] = own;
    }
    while (pages.length <= lastPage) pages.push(this.#pool.take());
  }
}

/** One episode's token record and its place in the KV cache. */
export class Conversation {
  /** @internal Pages of the KV cache in order. */
  readonly pages: number[];
  /** @internal Tokens whose keys and values are in the cache. */
  computed = 0;
  /** @internal Version that wrote the oldest keys and values; -1 before the first. */
  oldestVersion = -1;
  readonly record: TokenRecord;
  closed = false;
  #busy = false;
  readonly #engine: Engine;

  /** @internal Use Engine.open. */
  constructor(engine: Engine, record: TokenRecord, pages: number[]) {
    this.#engine = engine;
    this.record = record;
    this.pages = pages;
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
