/** Prometheus' endpoint of a run that trains: GET /metrics on a port of this machine alone. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { RunStep } from "../../pipeline/run-log.ts";
import { contentType, type RunState, renderMetrics } from "./prometheus.ts";
import type { Sink } from "./sinks.ts";

export class MetricsServer implements Sink {
  readonly #server: Server;
  readonly #state: RunState;

  private constructor(steps: number) {
    this.#state = { steps, line: null, evaluated: null };
    this.#server = createServer((request, response) => {
      if (request.method !== "GET" || request.url?.split("?")[0] !== "/metrics") {
        response.writeHead(404, { "content-type": "text/plain" }).end("GET /metrics\n");
        return;
      }
      renderMetrics(this.#state).then(
        (text) => response.writeHead(200, { "content-type": contentType }).end(text),
        (error: unknown) => response.writeHead(500, { "content-type": "text/plain" }).end(`${String(error)}\n`),
      );
    });
    // It keeps no process alive.
    this.#server.unref();
  }

  /** @param port 0: any that is free. @throws the system's error, EADDRINUSE say. */
  static async listen(port: number, steps: number): Promise<MetricsServer> {
    const server = new MetricsServer(steps);
    server.#server.listen(port, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/metrics`;
  }

  line(line: RunStep): void {
    if (line.evaluation !== undefined) this.#state.evaluated = line;
    // The line of an evaluation may be of some steps ago.
    else this.#state.line = line;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}
