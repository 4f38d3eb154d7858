/**
 * The central controller: clients start samples of a task by name, workers register and hold the sessions, and the
 * controller brings them together. It keeps no state that it cannot learn anew from the workers: after a restart it adopts
 * the sessions that they report. Knows nothing of HTTP; src/env/controller/http.ts is its surface.
 *
 * What fails on a worker's side ends the session in words (worker_lost, worker_failed, worker_timeout), never in a reward.
 */
import { NoAnswer } from "../wire/json-client.ts";
import {
  customIndex,
  type TaskIndex,
  type WireMessage,
  type WorkerOutput,
  workerInteractAnswer,
  workerOutput,
} from "../wire/schemas.ts";
import { WireError } from "../wire/wire-error.ts";
import { Registry } from "./registry.ts";
import { SessionBook, type SessionEntry } from "./session-book.ts";
import { type ControllerTimings, defaultTimings } from "./timings.ts";
import { reasonOf, type WorkerAnswer } from "./transport.ts";
import type { TaskEntry, WorkerEntry } from "./worker-entry.ts";

export interface ControllerOptions {
  timings?: Partial<ControllerTimings>;
  /** Milliseconds since the epoch. @default Date.now */
  now?: () => number;
  /** A line of the log at a time. @default nothing */
  log?: (line: string) => void;
}

export interface StartRequest {
  name: string;
  index: TaskIndex;
  custom_task?: Record<string, unknown> | null | undefined;
  seed?: number | undefined;
}

/** Seconds that a client waits when all workers are full. */
const retryAfter = 1;

export class Controller {
  readonly sessions: SessionBook;
  readonly registry: Registry;
  readonly timings: ControllerTimings;
  readonly #now: () => number;
  readonly #log: (line: string) => void;
  readonly #adoptUntil: number;
  #sweeper: NodeJS.Timeout | undefined;

  constructor(options: ControllerOptions = {}) {
    this.timings = { ...defaultTimings, ...options.timings };
    this.#now = options.now ?? Date.now;
    this.#log = options.log ?? (() => {});
    this.#adoptUntil = this.#now() + this.timings.adoption;
    this.sessions = new SessionBook(this.#now());
    this.registry = new Registry(this.sessions, this.timings, this.#now, this.#log);
  }

  /** Looks after silence, idleness and syncs by itself from now on. Without it, call `sweep`. */
  run(): this {
    this.#sweeper = setInterval(() => this.sweep(), this.timings.sweepEvery).unref();
    return this;
  }

  close(): void {
    clearInterval(this.#sweeper);
    this.sessions.wakeAll();
    this.registry.close();
  }

  /** @returns the session's id and the worker's first output. */
  async start(request: StartRequest): Promise<{ session: number; output: WorkerOutput }> {
    const task = this.registry.task(request.name);
    const index = resolveIndex(task, request.index);
    const tried = new Set<WorkerEntry>();
    let failure: unknown;
    for (;;) {
      const worker = this.registry.freest(task, tried);
      if (worker === undefined) break;
      tried.add(worker);
      const customTask = request.custom_task ?? null;
      const session = this.sessions.open({ task: task.name, index, customTask, worker }, this.#now());
      try {
        const output = await this.#startOn(worker, session, request.seed);
        if (output !== undefined) return { session: session.id, output };
      } catch (error) {
        this.sessions.end(session, (error as Error).message);
        // A worker that is gone never had the session: another may have it. What a worker answers stands.
        if (!(error instanceof WireError) || error.code !== "worker_lost") throw error;
        failure = error;
      }
    }
    if (failure !== undefined) throw failure;
    throw new WireError(400, "no_worker", `no worker for ${task.name} has room for another session`, retryAfter);
  }

  /** Undefined: the worker is full. */
  async #startOn(worker: WorkerEntry, session: SessionEntry, seed?: number): Promise<WorkerOutput | undefined> {
    const body = {
      index: session.index,
      custom_task: session.customTask,
      session_id: session.id,
      ...(seed !== undefined && { seed }),
    };
    const answer = await this.#ask(worker, session, "start_sample", body);
    if (answer.status === 406) {
      // It holds sessions that we do not know of.
      this.sessions.end(session, "the worker was full");
      void this.registry.sync(worker);
      return undefined;
    }
    if (answer.status !== 200) {
      throw new WireError(500, "worker_failed", `the worker did not start ${session.task}: ${reasonOf(answer)}`);
    }
    const output = parseOutput(() => workerOutput.parse(answer.body));
    this.#settle(session, output);
    if (output.finish) {
      // The client's answer has no field for an ending: a sample that is over before its first turn has failed.
      throw new WireError(500, "worker_failed", `${session.task} ended before its first turn: ${output.status}`);
    }
    return output;
  }

  /** @param turn The client's count, from 1; a request that is not the session's next turn is refused. */
  async interact(id: number, messages: readonly WireMessage[], turn?: number): Promise<WorkerOutput> {
    const session = await this.#find(id);
    if (session.cancelling) throw new WireError(400, "session_finished", `session ${id} is being cancelled`);
    if (session.locked) throw new WireError(409, "session_busy", `session ${id} is still carrying out its last turn`);
    if (turn !== undefined && session.turns !== undefined && turn !== session.turns + 1) {
      const next = `turn ${session.turns + 1} of session ${id} is next`;
      throw new WireError(409, "turn_mismatch", `turn ${turn} was sent, ${next}`);
    }
    session.locked = true;
    session.lastUpdate = this.#now();
    try {
      const answer = await this.#ask(session.worker, session, "interact", { session_id: id, messages });
      if (answer.status >= 400 && answer.status < 500) {
        session.locked = false;
        await this.registry.sync(session.worker);
        this.sessions.require(id);
        throw new WireError(400, "bad_request", `the worker refused the turn: ${reasonOf(answer)}`);
      }
      if (answer.status !== 200) {
        void this.cancelWithNotice(session, `the worker failed: ${reasonOf(answer)}`);
        throw new WireError(500, "worker_failed", `session ${id}: the worker failed: ${reasonOf(answer)}`);
      }
      const output = parseOutput(() => workerInteractAnswer.parse(answer.body).env_out);
      session.turns = turn ?? (session.turns === undefined ? undefined : session.turns + 1);
      this.#settle(session, output);
      return output;
    } finally {
      session.locked = false;
      session.lastUpdate = this.#now();
    }
  }

  async cancel(id: number): Promise<void> {
    const session = await this.#find(id);
    session.cancelling = true;
    try {
      const { cancelTimeout } = this.timings;
      const answer = await session.worker.transport.call("POST", "cancel", { session_id: id }, cancelTimeout);
      if (answer.status < 500) this.sessions.end(session, "cancelled by its client");
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      // The next sync tells what became of it; a worker that is gone has no sessions.
      this.registry.noAnswer(session.worker, error);
    }
  }

  /** @throws WireError 403 where it is not said which of several tasks is meant. */
  async cancelAll({ name, force = false }: { name?: string | undefined; force?: boolean }): Promise<void> {
    const tasks = name === undefined ? [...this.registry.tasks()] : [this.registry.task(name)];
    if (name === undefined && !force && tasks.length > 1) {
      const names = tasks.map((task) => task.name).join(", ");
      throw new WireError(403, "ambiguous_task", `several tasks are registered (${names}): give ?name= or ?force=true`);
    }
    const chosen = new Set(tasks.map((task) => task.name));
    const sessions = [...this.sessions.values()].filter((session) => chosen.has(session.task));
    await Promise.all(sessions.map((session) => this.cancel(session.id).catch(() => {})));
  }

  /**
   * A worker says that a session it was asked to cancel is gone.
   * @param worker Who says so, where that is known: what it says of another's sessions counts for nothing.
   */
  cancelNotice(id: number, worker?: WorkerEntry): void {
    const session = this.sessions.get(id);
    if (session === undefined || (worker !== undefined && session.worker !== worker)) return;
    this.sessions.end(session, "cancelled");
  }

  async cancelWithNotice(session: SessionEntry, why: string): Promise<void> {
    if (session.cancelling) return;
    session.cancelling = true;
    this.#log(`session ${session.id} (${session.task}): ${why}; cancelling it`);
    const { cancelTimeout } = this.timings;
    const body = { session_id: session.id };
    try {
      const { status } = await session.worker.transport.call("POST", "cancel_with_notice", body, cancelTimeout);
      // 200: its notice follows. Otherwise the worker does not have it.
      if (status !== 200) this.sessions.end(session, why);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      this.sessions.end(session, why);
      this.registry.noAnswer(session.worker, error);
    }
  }

  /** One look at everything that depends on time. */
  sweep(): void {
    if (this.#now() >= this.#adoptUntil) this.sessions.wakeAll();
    this.registry.sweep();
    this.sweepSessions();
  }

  /** Cancels the sessions that are idle for too long. */
  sweepSessions(): void {
    const now = this.#now();
    for (const session of this.sessions.values()) {
      if (session.locked || now - session.lastUpdate <= this.timings.sessionIdle) continue;
      // A worker that never sends its notice does not keep the session for ever.
      if (session.cancelling) this.sessions.end(session, "cancelled");
      else void this.cancelWithNotice(session, `idle for ${Math.round((now - session.lastUpdate) / 1000)} s`);
      session.lastUpdate = now;
    }
  }

  async #find(id: number): Promise<SessionEntry> {
    if (this.sessions.get(id) === undefined && !this.sessions.hasEnded(id) && this.#now() < this.#adoptUntil) {
      await this.sessions.adoption(id);
    }
    return this.sessions.require(id);
  }

  /** Asks the session's worker; no answer ends the session. */
  async #ask(worker: WorkerEntry, session: SessionEntry, endpoint: string, body: unknown): Promise<WorkerAnswer> {
    try {
      return await worker.transport.call("POST", endpoint, body, this.timings.interaction);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      if (error.reason === "timeout") {
        void this.cancelWithNotice(session, "the worker did not answer in time");
        throw new WireError(500, "worker_timeout", `session ${session.id}: ${error.message}`);
      }
      this.sessions.end(session, "its worker was lost");
      this.registry.noAnswer(worker, error);
      throw new WireError(500, "worker_lost", `session ${session.id}: its worker was lost (${error.message})`);
    }
  }

  #settle(session: SessionEntry, output: WorkerOutput): void {
    session.locked = false;
    session.lastUpdate = this.#now();
    if (output.finish) this.sessions.end(session, output.status);
  }
}

/** @throws WireError 400 */
function resolveIndex(task: TaskEntry, index: TaskIndex): TaskIndex {
  if (task.known.has(index)) return index;
  if (task.named && typeof index === "number" && index >= 0 && index < task.indices.length) return task.indices[index]!;
  if (index === customIndex) throw new WireError(400, "unknown_index", `${task.name} takes no tasks of a client's own`);
  throw new WireError(400, "unknown_index", `${task.name} has no index ${JSON.stringify(index).slice(0, 100)}`);
}

function parseOutput(parse: () => WorkerOutput): WorkerOutput {
  try {
    return parse();
  } catch (error) {
    throw new WireError(
      500,
      "worker_failed",
      `the worker's answer is not of the protocol: ${(error as Error).message}`,
    );
  }
}
