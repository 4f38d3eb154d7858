/**
 * A user's environment with its sessions in threads of their own. Code that blocks (an endless loop in a tool), ends the
 * process or hoards memory costs the session it happened in, which is then played anew, and nothing else: the thread is
 * ended, and the event loop that feeds the model never waits for it.
 *
 * A session has a thread to itself as long as there are no more than `maxThreads` of them; above that they share. Threads
 * are kept for the next session: starting one takes about 0.4 s and 15 MB (two cores, Node 20).
 */
import { resolve } from "node:path";
import type { Worker } from "node:worker_threads";
import { AgentRLError, EnvironmentTimeout, type ErrorCode } from "../errors.ts";
import { argumentsSchema } from "./define.ts";
import type { Action, Environment, Message, Session, StepResult } from "./environment.ts";
import { type OpenedModule, openModule } from "./module.ts";
import type { Answers, FromThread, Request, ThreadSetup } from "./off-loop-messages.ts";
import type { EnvironmentOptions } from "./registry.ts";
import { threadOf } from "./thread-of.ts";

export interface OffLoopOptions {
  /** @default 32 */
  maxThreads?: number;
  /** Heap of one thread; a handler that needs more ends its thread. @default 512 */
  maxHeapMb?: number;
}

const again = "the episode is played anew; where it fails again, look for a loop or a crash in the environment's file";
const openTimeoutMs = 60_000;
const closeTimeoutMs = 5_000;

/**
 * Opens the environment of a user's file: its tasks, tools, expert and random policy here, its sessions in threads.
 * @throws AgentRLError as openModule.
 */
export async function openOffLoop(
  path: string,
  options: EnvironmentOptions,
  limits: OffLoopOptions = {},
): Promise<Environment> {
  const file = resolve(path);
  const local = await openModule(file, options);
  return new OffLoopEnvironment(file, options, local, limits).asEnvironment();
}

class OffLoopEnvironment {
  readonly #local: Environment;
  readonly #stepTimeoutMs: number;
  readonly #setup: ThreadSetup;
  readonly #maxThreads: number;
  readonly #maxHeapMb: number;
  readonly #threads = new Set<EnvironmentThread>();
  #sessions = 0;

  constructor(file: string, options: EnvironmentOptions, local: OpenedModule, limits: OffLoopOptions) {
    this.#local = local.environment;
    this.#stepTimeoutMs = local.stepTimeoutMs;
    this.#maxThreads = limits.maxThreads ?? 32;
    this.#maxHeapMb = limits.maxHeapMb ?? 512;
    const tools = this.#local.tools.map((tool) => ({
      name: tool.name,
      description: tool.description,
      schema: argumentsSchema(tool),
    }));
    this.#setup = { file, options, tools };
  }

  asEnvironment(): Environment {
    const local = this.#local;
    return {
      name: local.name,
      tools: local.tools,
      maxTurns: local.maxTurns,
      stepTimeoutMs: this.#stepTimeoutMs,
      split: (name) => local.split(name),
      level: (split, index) => local.level(split, index),
      start: (split, index, seed) => this.#start(split, index, seed),
      ...(local.expert && { expert: local.expert.bind(local) }),
      ...(local.randomAction && { randomAction: local.randomAction.bind(local) }),
      close: () => this.#close(),
    };
  }

  async #start(split: string, index: number, seed: number): Promise<Session> {
    const thread = this.#freest();
    const session = ++this.#sessions;
    thread.sessions.add(session);
    try {
      await thread.ready;
      const { messages } = await thread.ask({ op: "start", session, split, index, seed }, this.#stepTimeoutMs);
      return new ThreadSession(thread, session, messages, this.#stepTimeoutMs);
    } catch (error) {
      thread.sessions.delete(session);
      throw error;
    }
  }

  #freest(): EnvironmentThread {
    for (const thread of this.#threads) if (thread.dead) this.#threads.delete(thread);
    let freest: EnvironmentThread | undefined;
    for (const thread of this.#threads) {
      if (freest === undefined || thread.sessions.size < freest.sessions.size) freest = thread;
    }
    if (freest !== undefined && (freest.sessions.size === 0 || this.#threads.size >= this.#maxThreads)) return freest;
    const thread = new EnvironmentThread(this.#local.name, this.#setup, this.#maxHeapMb);
    this.#threads.add(thread);
    return thread;
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#threads].map((thread) => thread.end("it was closed")));
    this.#threads.clear();
    await this.#local.close();
  }
}

class ThreadSession implements Session {
  readonly messages: Message[];
  readonly #thread: EnvironmentThread;
  readonly #session: number;
  readonly #stepTimeoutMs: number;

  constructor(thread: EnvironmentThread, session: number, messages: Message[], stepTimeoutMs: number) {
    this.#thread = thread;
    this.#session = session;
    this.messages = messages;
    this.#stepTimeoutMs = stepTimeoutMs;
  }

  step(action: Action): Promise<StepResult> {
    return this.#thread.ask({ op: "step", session: this.#session, action }, this.#stepTimeoutMs);
  }

  async close(): Promise<void> {
    if (!this.#thread.sessions.delete(this.#session) || this.#thread.dead) return;
    // A thread that does not even close is ended by the deadline: the session is gone either way.
    await this.#thread.ask({ op: "close", session: this.#session }, closeTimeoutMs).catch(() => {});
  }
}

interface Pending {
  resolve: (answer: never) => void;
  reject: (error: AgentRLError) => void;
  timer: NodeJS.Timeout;
}

class EnvironmentThread {
  readonly sessions = new Set<number>();
  readonly ready: Promise<void>;
  dead = false;
  readonly #name: string;
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #requests = 0;
  #settleReady!: { resolve: () => void; reject: (error: AgentRLError) => void };

  constructor(name: string, setup: ThreadSetup, maxHeapMb: number) {
    this.#name = name;
    this.ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject };
    });
    this.ready.catch(() => {});
    this.#worker = threadOf(new URL("./off-loop-thread", import.meta.url), {
      workerData: setup,
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
    });
    // An open environment alone keeps no program running; a question that waits for its answer does, by its timer.
    this.#worker.unref();
    const opening = setTimeout(() => void this.end(`it did not open within ${openTimeoutMs} ms`), openTimeoutMs);
    this.ready.then(
      () => clearTimeout(opening),
      () => clearTimeout(opening),
    );
    this.#worker.on("message", (message: FromThread) => this.#receive(message));
    this.#worker.on("error", (error) => this.#died(error.message));
    this.#worker.on("exit", (code) => this.#died(`it ended with exit code ${code}`));
  }

  /** Rejects with AgentRLError ENVIRONMENT, and ends the thread, when no answer comes in time. */
  ask<R extends Request>(request: R, timeoutMs: number): Promise<Answers[R["op"]]> {
    return new Promise((resolve, reject) => {
      if (this.dead) {
        reject(this.#fault("its thread has ended"));
        return;
      }
      const id = ++this.#requests;
      const late = () => {
        const why = `a ${request.op} did not return within ${timeoutMs} ms`;
        this.#pending.delete(id);
        reject(new EnvironmentTimeout(this.#failed(why), { hint: again }));
        void this.end(why);
      };
      this.#pending.set(id, { resolve, reject, timer: setTimeout(late, timeoutMs) });
      this.#worker.postMessage({ id, request });
    });
  }

  async end(why: string): Promise<void> {
    this.#died(why);
    await this.#worker.terminate();
  }

  #receive(message: FromThread): void {
    if (message.type === "ready") this.#settleReady.resolve();
    else if (message.type === "failed") {
      this.#settleReady.reject(new AgentRLError(message.code as ErrorCode, message.message));
      void this.end(message.message);
    } else {
      const pending = this.#pending.get(message.id);
      if (pending === undefined) return;
      this.#pending.delete(message.id);
      clearTimeout(pending.timer);
      if (message.type === "answer") pending.resolve(message.answer as never);
      else pending.reject(new AgentRLError(message.code as ErrorCode, message.message));
    }
  }

  #died(why: string): void {
    if (this.dead) return;
    this.dead = true;
    this.#settleReady.reject(this.#fault(why));
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(this.#fault(why));
    }
    this.#pending.clear();
  }

  #fault(why: string): AgentRLError {
    return new AgentRLError("ENVIRONMENT", this.#failed(why), { hint: again });
  }

  #failed(why: string): string {
    return `Environment ${this.#name} failed: ${why}`;
  }
}
