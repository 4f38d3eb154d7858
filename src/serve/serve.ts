/** `agentrl serve`: a model behind a port, until it is asked to stop; then what runs is finished first. */
import type { Server } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { connectBacklog } from "../env/wire/http-app.ts";
import { AgentRLError } from "../errors.ts";
import type { EngineModel } from "../pipeline/open-engine.ts";
import { ApiError } from "./api-error.ts";
import { modelApp } from "./app.ts";
import { Places } from "./places.ts";

export interface ServeOptions {
  host: string;
  /** 0 takes a free one. */
  port: number;
  /** As clients name the model. */
  name: string;
  /** Conversations that the engine was opened with. */
  maxConversations: number;
  /** Requests that may wait for one. @default 64 */
  maxWaiting?: number;
  /** Secret that every request must bring; without it only this machine is served. */
  apiKey?: string;
  /** @default 4 MiB */
  maxBodyBytes?: number;
  log?: (line: string) => void;
}

export interface RunningServer {
  /** Base of the API, as http://host:port/v1. */
  readonly url: string;
  /** Takes no new requests, waits for those under way for up to `graceMs`, ends what then still runs. */
  stop(graceMs?: number): Promise<void>;
}

/** Milliseconds that what runs has to end when the server stops. */
const defaultGraceMs = 30_000;

/** Milliseconds for the end of an answer that was cut off. */
const lastWordsMs = 1000;

/** @throws AgentRLError USAGE for an address that would let others in without a key, or that cannot be had. */
export async function serveModel(
  { engine, dialect }: Pick<EngineModel, "engine" | "dialect">,
  options: ServeOptions,
): Promise<RunningServer> {
  const { host, name, maxConversations, maxWaiting = 64, apiKey, maxBodyBytes = 4 * 2 ** 20 } = options;
  assertGuarded(host, apiKey);
  const ending = new AbortController();
  let draining = false;
  let busy = 0;
  let whenIdle = () => {};
  const places = new Places(maxConversations, maxWaiting);
  const created = Math.floor(Date.now() / 1000);
  const app = modelApp(
    { engine, dialect, places, maxConversations, name, created },
    {
      token: apiKey,
      maxBodyBytes,
      ending: ending.signal,
      draining: () => draining,
      onBusy: (by) => {
        busy += by;
        if (busy === 0) whenIdle();
      },
      log: options.log ?? (() => {}),
    },
  );
  const server = createAdaptorServer({ fetch: app.fetch }) as Server;
  await listen(server, options);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}/v1`,
    async stop(graceMs = defaultGraceMs) {
      draining = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const late = setTimeout(() => ending.abort(stopping()), graceMs);
      // Who does not read its answer is not waited for.
      const cut = setTimeout(() => server.closeAllConnections(), graceMs + lastWordsMs);
      if (busy > 0) {
        await new Promise<void>((resolve) => {
          whenIdle = resolve;
        });
      }
      clearTimeout(late);
      clearTimeout(cut);
      // Clients keep theirs open for a next request.
      server.closeAllConnections();
      await closed;
    },
  };
}

function stopping(): ApiError {
  return new ApiError(503, "the server was stopped before the answer was complete", { code: "stopping" });
}

/** Whoever reaches the port can use the machine. @throws AgentRLError USAGE */
export function assertGuarded(host: string, apiKey: string | undefined): void {
  const local = host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
  if (local || apiKey !== undefined) return;
  throw new AgentRLError("USAGE", "Other machines could use the model without a key.", {
    got: `--host ${host}`,
    expected: "127.0.0.1, or an API key that every client must send",
    hint: "Put a secret into a variable, and name it: --api-key-env MODEL_API_KEY.",
  });
}

function listen(server: Server, { host, port }: ServeOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const taken = cause.code === "EADDRINUSE";
      reject(
        new AgentRLError("USAGE", `The server cannot listen on port ${port} of ${host}`, {
          got: cause.code ?? cause.message,
          hint: taken ? "Another program has it: choose another with --port." : "Choose another --host or --port.",
          cause,
        }),
      );
    });
    server.listen({ port, host, backlog: connectBacklog }, () => resolve());
  });
}
