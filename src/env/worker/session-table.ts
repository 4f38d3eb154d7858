/** A worker's sessions and what may be done with them: the worker-side API of the protocol, without its transports. */
import type { z } from "zod";
import type {
  calculateOverallRequest,
  SampleStatus,
  TaskIndex,
  WireMessage,
  WorkerOutput,
  workerStartRequest,
} from "../wire/schemas.ts";
import { WireError } from "../wire/wire-error.ts";
import type { HostOutput, OpenedTask } from "./host-messages.ts";
import type { HostPool } from "./host-pool.ts";
import type { HostProcess } from "./host-process.ts";

interface Row {
  readonly id: number;
  readonly index: TaskIndex;
  readonly host: HostProcess;
  busy: boolean;
  cancelling: boolean;
  turns: number;
  status: SampleStatus;
}

export interface SessionTableOptions {
  pool: HostPool;
  opened: OpenedTask;
  concurrency: number;
  /** Longest that the environment may take over a start or a turn, in milliseconds. @default what it says, else 60000 */
  stepTimeoutMs?: number | undefined;
  log?: (line: string) => void;
}

const defaultStepTimeoutMs = 60_000;

export class SessionTable {
  readonly indices: readonly TaskIndex[];
  readonly concurrency: number;
  readonly #options: SessionTableOptions;
  readonly #stepTimeoutMs: number;
  readonly #known: ReadonlySet<TaskIndex>;
  readonly #rows = new Map<number, Row>();
  #draining = false;
  #whenEmpty: (() => void) | undefined;

  constructor(options: SessionTableOptions) {
    this.#options = options;
    this.#stepTimeoutMs = options.stepTimeoutMs ?? options.opened.stepTimeoutMs ?? defaultStepTimeoutMs;
    this.indices = options.opened.indices;
    this.concurrency = options.concurrency;
    this.#known = new Set(this.indices);
  }

  async start(request: z.output<typeof workerStartRequest>): Promise<WorkerOutput> {
    const { session_id: id, index, seed } = request;
    if (this.#rows.has(id)) throw new WireError(400, "session_exists", `session ${id} exists already`);
    if (!this.#known.has(index) || typeof index !== "number") {
      throw new WireError(400, "unknown_index", `no index ${JSON.stringify(index).slice(0, 100)}`);
    }
    if (this.#draining) throw new WireError(406, "draining", "this worker takes no more sessions: it is about to end");
    if (this.#rows.size >= this.concurrency) {
      throw new WireError(406, "worker_full", `all ${this.concurrency} sessions of this worker are taken`);
    }
    const host = this.#options.pool.freest();
    const row: Row = { id, index, host, busy: true, cancelling: false, turns: 0, status: "running" };
    this.#rows.set(id, row);
    host.sessions.add(id);
    return this.#carryOut(row, async () => {
      await host.opened;
      return host.ask({ op: "start", session: id, index, seed: seed ?? id % 2 ** 32 }, this.#stepTimeoutMs);
    });
  }

  async interact(id: number, messages: WireMessage[]): Promise<WorkerOutput> {
    const row = this.#require(id);
    if (row.busy || row.cancelling) throw new WireError(400, "session_busy", `session ${id} is carrying out a turn`);
    row.busy = true;
    row.turns++;
    return this.#carryOut(row, () => row.host.ask({ op: "step", session: id, messages }, this.#stepTimeoutMs));
  }

  /** Resolves when the session is gone. */
  async cancel(id: number): Promise<void> {
    const row = this.#require(id);
    row.cancelling = true;
    await row.host.end(id);
    this.#remove(row, "cancelled");
  }

  async cancelAll(): Promise<number[]> {
    const ids = [...this.#rows.keys()];
    await Promise.all(ids.map((id) => this.cancel(id)));
    return ids;
  }

  sessions(): Record<string, TaskIndex> {
    return Object.fromEntries([...this.#rows.values()].map(({ id, index }) => [id, index]));
  }

  get size(): number {
    return this.#rows.size;
  }

  sampleStatus(id: number): Record<string, unknown> {
    const { index, busy, cancelling, turns, status } = this.#require(id);
    return {
      session_id: id,
      index,
      status: { waiting_for_env: busy, waiting_for_agent: !busy, cancelling, turns, status },
    };
  }

  /** Takes no more sessions; resolves when the last has ended. */
  drained(): Promise<void> {
    this.#draining = true;
    if (this.#rows.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenEmpty = resolve;
    });
  }

  /** A fault of the environment, or no answer in time, ends the session as "task error": never a reward. */
  async #carryOut(row: Row, work: () => Promise<HostOutput>): Promise<WorkerOutput> {
    const { tools } = this.#options.opened;
    try {
      const output = await work();
      row.busy = false;
      if (output.finish) this.#remove(row, output.status);
      return { ...output, tools };
    } catch (error) {
      const why = (error as Error).message;
      if (row.cancelling) return { ...ended("cancelled", "The session was cancelled."), tools };
      this.#options.log?.(`session ${row.id} (index ${row.index}): ${why}`);
      void row.host.end(row.id);
      this.#remove(row, "task error");
      return { ...ended("task error", `Internal error of the environment: ${why}`), tools };
    }
  }

  #require(id: number): Row {
    const row = this.#rows.get(id);
    if (row === undefined) throw new WireError(400, "session_not_found", `no session ${id}`);
    return row;
  }

  #remove(row: Row, status: SampleStatus): void {
    row.status = status;
    row.host.sessions.delete(row.id);
    this.#rows.delete(row.id);
    if (this.#rows.size === 0) this.#whenEmpty?.();
  }
}

function ended(status: SampleStatus, content: string): HostOutput {
  return { messages: [{ role: "user", content }], status, finish: true, reward: 0, metric: {} };
}

/** Counts and means over finished samples; the reward is the last that the history holds. */
export function overallOf({ results }: z.output<typeof calculateOverallRequest>): Record<string, unknown> {
  const statuses: Record<string, number> = {};
  let reward = 0;
  for (const { status = "unknown", history } of results) {
    statuses[status] = (statuses[status] ?? 0) + 1;
    const last = history?.findLast((item) => typeof item.reward === "number");
    reward += (last?.reward as number | undefined) ?? 0;
  }
  const total = results.length;
  return { total, statuses, mean_reward: total === 0 ? 0 : reward / total };
}
