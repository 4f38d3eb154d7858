/**
 * The generation engine: continuous batching over a paged KV cache. Every step takes the newest weights, feeds the
 * pending tokens of every busy conversation (one for those that decode, a chunk for those that prefill) through one
 * packed pass, and samples where a conversation's last token was reached. A conversation's cache lives across its
 * turns; forks share the pages of what they have in common. What it becomes when the weights change is `kvOnUpdate`'s.
 */
import { ATTENTION_BLOCK, type Device } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "../model/config.ts";
import { InferencePass } from "../model/inference-pass.ts";
import { CachePages } from "./cache-pages.ts";
import { CacheRenewal } from "./cache-renewal.ts";
import { Conversation, type TurnEnd, type TurnOptions } from "./conversation.ts";
import { TokenRecord } from "./token-record.ts";
import type { WeightSource } from "./weight-source.ts";

export type { Conversation, TurnEnd, TurnOptions };

export interface EngineOptions {
  device: Device;
  config: ModelConfig;
  /** Rank of the adapters that weights may come with. @default 0 */
  loraRank?: number;
  weights: WeightSource;
  /** Conversations open at once (a fork counts as one). */
  maxConversations: number;
  /** Tokens a conversation may hold. */
  contextLimit: number;
  /** Tokens fed in one step over all conversations: bounds the latency that a long prefill adds to the others. */
  maxRows?: number;
  /**
   * What becomes of keys and values of older weights: `keep` goes on with them and stamps tokens with both versions,
   * `recompute` feeds the context again, so that every token's whole context is of its own version.
   * @default keep
   */
  kvOnUpdate?: "keep" | "recompute";
}

export interface EngineStats {
  steps: number;
  /** Rows computed: prefill and decode. */
  rows: number;
  /** Of these, rows that had been computed under older weights. */
  recomputedRows: number;
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

const nobody = () => {};

export class Engine {
  readonly contextLimit: number;
  readonly stats: EngineStats = {
    steps: 0,
    rows: 0,
    recomputedRows: 0,
    sampledTokens: 0,
    abortedTokens: 0,
    weightUpdates: 0,
    busyMs: 0,
  };
  readonly #pass: InferencePass;
  readonly #pages: CachePages;
  /** Null: keys and values of older weights are kept. */
  readonly #renewal: CacheRenewal | null;
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
    const { device, config, loraRank = 0, weights, maxConversations, contextLimit, maxRows = 512 } = options;
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
    this.#pass = new InferencePass(device, config, { maxRows: this.#maxRows, pages, loraRank });
    this.#pages = new CachePages(pages, (from, to) => this.#pass.copyPage(from, to));
    this.#renewal =
      options.kvOnUpdate === "recompute"
        ? new CacheRenewal(this.#pages, (conversation) => this.#prefillUnasked(conversation))
        : null;
  }

  get openConversations(): number {
    return this.#open;
  }

  open(tokens: ArrayLike<number>): Conversation {
    const conversation = new Conversation(this, new TokenRecord());
    conversation.extend(tokens);
    return this.#admit(conversation);
  }

  /** @internal A conversation that shares what `parent` has computed. */
  fork(parent: Conversation): Conversation {
    const child = this.#admit(new Conversation(this, parent.record.copy()));
    this.#pages.share(parent, child, parent.computed);
    child.reached = parent.reached;
    if (this.#renewal !== null && parent.length > 1) child.origin = { from: parent, length: parent.length };
    return child;
  }

  /** @internal */
  run(conversation: Conversation, turn: TurnOptions | null): Promise<TurnEnd> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    for (const task of this.#tasks) if (task.conversation === conversation) this.#tasks.delete(task);
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
    this.#pages.giveBack(conversation);
    this.#open--;
  }

  /** Waits for the step in progress, then frees the cache. */
  async destroy(): Promise<void> {
    for (const task of [...this.#tasks]) task.conversation.close();
    if (this.#running) await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#pass.destroy();
    this.#weights.close();
  }

  #admit(conversation: Conversation): Conversation {
    if (this.#open >= this.#maxConversations) {
      throw new AgentRLError("PIPELINE", "Too many conversations are open", {
        where: "generation engine",
        got: this.#open + 1,
        expected: `at most ${this.#maxConversations}`,
      });
    }
    this.#open++;
    return conversation;
  }

  /** For the sake of its forks; whoever runs the conversation next takes this over. */
  #prefillUnasked(conversation: Conversation): void {
    for (const task of this.#tasks) if (task.conversation === conversation) return;
    const started = conversation.record.length;
    this.#tasks.add({ conversation, turn: null, started, resolve: nobody, reject: nobody });
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
    const pending = this.#ready(version).map((task) => ({
      task,
      left: task.conversation.pending(task.turn !== null),
    }));
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
      this.#pages.makeRoom(conversation, rows);
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
        const { record, computed: first, reached } = conversation;
        conversation.computed += rows;
        // A given token keeps the stamp of what first computed it.
        record.stamp(Math.max(first, reached), conversation.computed, version, conversation.oldestVersion);
        this.stats.recomputedRows += Math.max(0, Math.min(conversation.computed, reached) - first);
        conversation.reached = Math.max(reached, conversation.computed);
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

  /** Tasks with rows to feed. */
  #ready(version: number): Task[] {
    const renewal = this.#renewal;
    if (renewal === null) return [...this.#tasks];
    // Tasks that are added on the way are come to as well.
    for (const { conversation } of this.#tasks) renewal.renew(conversation, version);
    return [...this.#tasks].filter(({ conversation }) => renewal.ready(conversation, version));
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
}
