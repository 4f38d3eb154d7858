/** A worker's tie to its controller: heartbeats, notices of cancelled sessions, and the word that it is about to leave. */
import { JsonClient } from "../wire/json-client.ts";
import type { TaskIndex } from "../wire/schemas.ts";

export interface Identity {
  /** The task's name on the wire. */
  name: string;
  concurrency: number;
  indices: readonly TaskIndex[];
}

export interface ControllerLink {
  start(): void;
  /** @throws NoAnswer */
  notice(session: number): Promise<void>;
  /** Asks for no more sessions. */
  leave(): Promise<void>;
  /** Says what is still to be said, and ends the tie. */
  finish(): Promise<void>;
  /** Ends it at once. */
  stop(): void;
}

export const heartbeatMs = 8_000;
const requestMs = 5_000;

/** The controller's HTTP API, as far as a worker uses it. */
export class ControllerApi {
  readonly #client: JsonClient;

  constructor(url: string, token: string | undefined) {
    this.#client = new JsonClient(url, token);
  }

  /** @throws Error with the controller's own words. */
  async post(path: string, body: unknown, headers?: Record<string, string>): Promise<void> {
    const answer = await this.#client.request({
      method: "POST",
      path,
      body,
      timeoutMs: requestMs,
      ...(headers && { headers }),
    });
    if (answer.status !== 200) throw new Error(`the controller answered ${answer.status}: ${textOf(answer.body)}`);
  }

  /** Drains the worker that is registered under `address`. */
  async markStale(name: string, address: string): Promise<void> {
    const answer = await this.#client.request({ method: "GET", path: "/list_workers", timeoutMs: requestMs });
    const tasks = answer.body as Record<string, { workers?: Record<string, { id: unknown; address: unknown }> }>;
    const own = Object.values(tasks?.[name]?.workers ?? {}).find((worker) => worker.address === address);
    if (own !== undefined) await this.post("/mark_stale", { name, worker_id: own.id, stale: true });
  }

  close(): void {
    this.#client.close();
  }
}

function textOf(body: unknown): string {
  return (typeof body === "string" ? body : JSON.stringify(body)).slice(0, 500);
}

/** Says a line when the state changes, not at every beat. */
export class BeatLog {
  readonly #log: (line: string) => void;
  #last: string | undefined;

  constructor(log: (line: string) => void) {
    this.#log = log;
  }

  say(line: string): void {
    if (line !== this.#last) this.#log(line);
    this.#last = line;
  }
}

/** The tie of a worker that the controller reaches at `address`. */
export class HttpLink implements ControllerLink {
  readonly #api: ControllerApi;
  readonly #identity: Identity;
  readonly #address: string;
  readonly #log: BeatLog;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    url: string,
    token: string | undefined,
    identity: Identity,
    address: string,
    log: (line: string) => void,
  ) {
    this.#api = new ControllerApi(url, token);
    this.#identity = identity;
    this.#address = address.replace(/\/+$/, "");
    this.#log = new BeatLog(log);
  }

  start(): void {
    void this.#beat();
    this.#timer = setInterval(() => void this.#beat(), heartbeatMs);
  }

  notice(session: number): Promise<void> {
    return this.#api.post("/cancel_notice", { session_id: session }, { session_id: String(session) });
  }

  leave(): Promise<void> {
    return this.#api.markStale(this.#identity.name, this.#address);
  }

  /** The answers are the HTTP server's. */
  async finish(): Promise<void> {
    this.stop();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#api.close();
  }

  async #beat(): Promise<void> {
    try {
      await this.#api.post("/receive_heartbeat", { ...this.#identity, address: this.#address });
      this.#log.say(`registered as ${this.#identity.name} at ${this.#address}`);
    } catch (error) {
      this.#log.say(`heartbeat failed: ${(error as Error).message}`);
    }
  }
}
