/** Tasks and their workers: registration, heartbeats, choice of a worker, and the comparison of sessions (sync). */
import { NoAnswer } from "../wire/json-client.ts";
import { type TaskIndex, workerSessions } from "../wire/schemas.ts";
import { WireError } from "../wire/wire-error.ts";
import type { SessionBook } from "./session-book.ts";
import type { ControllerTimings } from "./timings.ts";
import { reasonOf, type WorkerTransport } from "./transport.ts";
import { type TaskEntry, taskEntry, WorkerEntry } from "./worker-entry.ts";

export interface Beat {
  name: string;
  concurrency: number;
  indices: readonly TaskIndex[];
}

export class Registry {
  readonly #sessions: SessionBook;
  readonly #timings: ControllerTimings;
  readonly #now: () => number;
  readonly #log: (line: string) => void;
  readonly #tasks = new Map<string, TaskEntry>();
  #workerIds = 0;

  constructor(sessions: SessionBook, timings: ControllerTimings, now: () => number, log: (line: string) => void) {
    this.#sessions = sessions;
    this.#timings = timings;
    this.#now = now;
    this.#log = log;
  }

  tasks(): IterableIterator<TaskEntry> {
    return this.#tasks.values();
  }

  /** @throws WireError 400 */
  task(name: string): TaskEntry {
    const task = this.#tasks.get(name);
    if (task !== undefined) return task;
    const known = [...this.#tasks.keys()].join(", ") || "none";
    throw new WireError(400, "unknown_task", `no worker serves ${JSON.stringify(name).slice(0, 100)}; tasks: ${known}`);
  }

  /** @throws WireError 400 */
  worker(name: string, id: string): WorkerEntry {
    const worker = this.task(name).workers.get(id);
    if (worker !== undefined) return worker;
    throw new WireError(400, "unknown_worker", `${name} has no worker ${id.slice(0, 100)}`);
  }

  /**
   * A heartbeat: registers the worker, or finds it by its address (for streams: by the id it gave).
   * @throws WireError 400 where its indices are not those of the task's other workers.
   */
  beat(beat: Beat, address: string, connect: () => WorkerTransport): WorkerEntry {
    const task = this.#tasks.get(beat.name) ?? taskEntry(beat.name, beat.indices);
    if (task.fingerprint !== JSON.stringify(beat.indices)) {
      const counts = `${beat.indices.length} against ${task.indices.length}`;
      throw new WireError(400, "indices_differ", `the indices differ from those of ${task.name}'s workers (${counts})`);
    }
    const now = this.#now();
    let worker = this.findByAddress(beat.name, address);
    const news = worker === undefined || worker.status !== "ALIVE";
    if (worker === undefined) {
      worker = new WorkerEntry(String(++this.#workerIds), task.name, connect(), beat.concurrency, now);
      task.workers.set(worker.id, worker);
      this.#tasks.set(task.name, task);
      this.#log(`worker ${worker.id} at ${address} serves ${task.name}, ${beat.concurrency} sessions at once`);
    } else if (news) {
      this.#log(`worker ${worker.id} (${task.name}) is back`);
    }
    worker.status = "ALIVE";
    worker.capacity = beat.concurrency;
    worker.lastVisit = now;
    worker.emptySince = undefined;
    if (news) void this.sync(worker);
    return worker;
  }

  findByAddress(task: string, address: string): WorkerEntry | undefined {
    for (const worker of this.#tasks.get(task)?.workers.values() ?? []) {
      if (worker.transport.address === address) return worker;
    }
    return undefined;
  }

  /** The worker with most free slots among those that live and are not drained. */
  freest(task: TaskEntry, except: ReadonlySet<WorkerEntry>): WorkerEntry | undefined {
    let best: WorkerEntry | undefined;
    for (const worker of task.workers.values()) {
      if (worker.dispatchable && !except.has(worker) && (best === undefined || worker.free > best.free)) best = worker;
    }
    return best;
  }

  /** What a missing answer says about a worker: refused connections, that its process and sessions are gone. */
  noAnswer(worker: WorkerEntry, error: NoAnswer): void {
    if (error.reason === "refused") {
      this.#log(`worker ${worker.id} (${worker.task}) is gone: ${error.message}`);
      worker.status = "DEAD";
      for (const id of [...worker.sessions]) {
        const session = this.#sessions.get(id);
        // One that is locked is waiting for its own answer and learns it there.
        if (session !== undefined && !session.locked) this.#sessions.end(session, "its worker was lost");
      }
    } else if (error.reason !== "timeout" && worker.status === "ALIVE") {
      worker.status = "COMA";
      void this.sync(worker);
    }
  }

  /** Its stream broke; it may dial again. */
  silent(worker: WorkerEntry): void {
    if (worker.status === "ALIVE") worker.status = "COMA";
  }

  /** Compares the worker's sessions with ours: what it lacks has ended, what we lack is adopted, what ended is cancelled. */
  sync(worker: WorkerEntry): Promise<void> {
    worker.syncing ??= this.#sync(worker).finally(() => {
      worker.syncing = undefined;
    });
    return worker.syncing;
  }

  async #sync(worker: WorkerEntry): Promise<void> {
    worker.lastSync = this.#now();
    // A start or a turn that is under way is not judged: its own answer will say.
    const before = [...worker.sessions].filter((id) => this.#sessions.get(id)?.locked === false);
    try {
      const answer = await worker.transport.call("GET", "get_sessions", undefined, this.#timings.syncTimeout);
      if (answer.status !== 200) throw new Error(reasonOf(answer));
      const held = new Map(Object.entries(workerSessions.parse(answer.body)).map(([id, index]) => [Number(id), index]));
      for (const id of before) {
        const session = this.#sessions.get(id);
        if (!held.has(id) && session?.locked === false) this.#sessions.end(session, "its worker no longer has it");
      }
      for (const [id, index] of held) {
        if (this.#sessions.get(id) !== undefined) continue;
        if (this.#sessions.hasEnded(id)) {
          void this.#cancelLeftOver(worker, id);
          continue;
        }
        this.#sessions.adopt(id, { task: worker.task, index, worker }, this.#now());
        this.#log(`session ${id} (${worker.task}) adopted from worker ${worker.id}`);
      }
    } catch (error) {
      if (error instanceof NoAnswer) this.noAnswer(worker, error.reason === "refused" ? error : timeout(error));
      else this.#log(`worker ${worker.id} (${worker.task}): sync failed: ${(error as Error).message}`);
    }
  }

  /** A session that has ended here, say by a turn whose answer was lost, would keep its place at the worker for ever. */
  async #cancelLeftOver(worker: WorkerEntry, id: number): Promise<void> {
    try {
      await worker.transport.call("POST", "cancel", { session_id: id }, this.#timings.cancelTimeout);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      // The next sync tries again.
    }
  }

  async syncAll(): Promise<void> {
    const workers = [...this.#tasks.values()].flatMap((task) => [...task.workers.values()]);
    await Promise.all(workers.map((worker) => this.sync(worker)));
  }

  /** Silence, removal, and the syncs that are due. */
  sweep(): void {
    const now = this.#now();
    for (const task of this.#tasks.values()) {
      for (const worker of task.workers.values()) {
        if (worker.status === "ALIVE" && now - worker.lastVisit > this.#timings.silence) {
          worker.status = "COMA";
          this.#log(`worker ${worker.id} (${task.name}) is silent`);
        }
        if (worker.status === "ALIVE") {
          if (now - worker.lastSync > this.#timings.syncEvery) void this.sync(worker);
        } else if (worker.sessions.size > 0) worker.emptySince = undefined;
        else {
          worker.emptySince ??= now;
          if (now - worker.emptySince > this.#timings.removal) this.#remove(task, worker);
        }
      }
    }
  }

  close(): void {
    for (const task of this.#tasks.values()) for (const worker of task.workers.values()) worker.transport.close();
    this.#tasks.clear();
  }

  #remove(task: TaskEntry, worker: WorkerEntry): void {
    for (const id of [...worker.sessions]) {
      const session = this.#sessions.get(id);
      if (session !== undefined) this.#sessions.end(session, "its worker was lost");
    }
    worker.transport.close();
    task.workers.delete(worker.id);
    this.#log(`worker ${worker.id} (${task.name}) is forgotten`);
    if (task.workers.size === 0) this.#tasks.delete(task.name);
  }
}

/** A failed sync alone does not start the next. */
function timeout(error: NoAnswer): NoAnswer {
  return new NoAnswer("timeout", error.message);
}
