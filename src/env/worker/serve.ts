/** Runs a worker: host processes, the worker-side API, and the tie to the controller. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { AgentRLError } from "../../errors.ts";
import { connectBacklog } from "../wire/http-app.ts";
import { type ControllerLink, HttpLink, type Identity } from "./controller-link.ts";
import { workerEndpoints } from "./endpoints.ts";
import type { HostedTask } from "./host-messages.ts";
import { HostPool } from "./host-pool.ts";
import { workerApp } from "./http.ts";
import { Outstanding } from "./outstanding.ts";
import { SessionTable } from "./session-table.ts";

/** For answers that are on their way when the last session has ended. */
const lastAnswerMs = 2_000;

export interface WorkerOptions {
  /** The task's name on the wire. */
  name: string;
  task: HostedTask;
  /** http://host:port/api, or grpc://host:port to dial out. */
  controller: string;
  /** Where this worker's HTTP API listens; not with grpc://. 0 takes a free port. */
  host: string;
  port: number;
  /** Where the controller finds it. @default http://localhost:PORT/api */
  self?: string | undefined;
  concurrency: number;
  /** Host processes that share the sessions. */
  processes: number;
  /** Entry file of a host process. */
  hostModule: URL;
  /** Longest that a start or a turn may take. @default what the environment says, else 60000 */
  stepTimeoutMs?: number | undefined;
  token?: string | undefined;
  maxBodyBytes?: number;
  log?: (line: string) => void;
}

export interface RunningWorker {
  readonly table: SessionTable;
  readonly pool: HostPool;
  /** Its own API, where it has one. */
  readonly url: string | undefined;
  /** Takes no more sessions and resolves when the last has ended, or after `ms`; then the controller is taken leave of. */
  drain(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** @throws AgentRLError where the environment cannot be opened or the port is taken. */
export async function runWorker(options: WorkerOptions): Promise<RunningWorker> {
  const { name, task, concurrency, token, log = () => {} } = options;
  const pool = new HostPool(options.hostModule, task, options.processes);
  let link: ControllerLink | undefined;
  let server: Server | undefined;
  const close = async () => {
    link?.stop();
    server?.close();
    server?.closeAllConnections();
    await pool.close();
  };
  try {
    const opened = await pool.opened();
    const table = new SessionTable({ pool, opened, concurrency, stepTimeoutMs: options.stepTimeoutMs, log });
    const outstanding = new Outstanding();
    const notice = async (session: number) => {
      const sent = link?.notice(session).catch((error: Error) => log(`notice of session ${session}: ${error.message}`));
      outstanding.add(Promise.resolve(sent));
      await sent;
    };
    const endpoints = workerEndpoints(table, notice);
    const identity: Identity = { name, concurrency, indices: table.indices };
    let url: string | undefined;
    if (options.controller.startsWith("grpc://")) {
      const { StreamLink } = await import("./stream-link.ts");
      link = await StreamLink.open(options.controller, token, identity, () => endpoints, log);
    } else {
      server = createAdaptorServer({ fetch: workerApp(endpoints, options).fetch }) as Server;
      server.on("request", (_, response) => outstanding.add(once(response, "close")));
      // The controller lets go of idle connections first.
      server.keepAliveTimeout = 30_000;
      const port = await listen(server, options.host, options.port);
      url = options.self ?? `http://localhost:${port}/api`;
      link = new HttpLink(options.controller, token, identity, url, log);
    }
    link.start();
    const running = link;
    return {
      table,
      pool,
      url,
      drain: async (ms) => {
        const drained = table.drained();
        await running.leave().catch((error: Error) => log(`the controller was not told: ${error.message}`));
        await within(ms, drained);
        // The last session has ended, but its last answer is still on its way.
        await within(
          lastAnswerMs,
          outstanding.settled().then(() => running.finish()),
        );
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Resolves when the work is done, or after `ms`. */
async function within(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      reject(
        new AgentRLError("USAGE", `The worker cannot listen on port ${port}`, {
          got: cause.code ?? cause.message,
          hint: "Choose another with --port.",
          cause,
        }),
      );
    });
    server.listen({ port, host, backlog: connectBacklog }, () => resolve((server.address() as AddressInfo).port));
  });
}
