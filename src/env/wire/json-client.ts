/**
 * JSON over HTTP to one server, on kept-alive connections: what the controller uses towards its workers, a worker towards its
 * controller, and a remote environment towards both. Every request has a deadline and every answer a size limit.
 */
import * as http from "node:http";
import * as https from "node:https";
import type { Socket } from "node:net";

export interface JsonAnswer {
  status: number;
  headers: http.IncomingHttpHeaders;
  /** The body, parsed; the text itself where it is no JSON. */
  body: unknown;
}

export interface JsonRequest {
  method: "GET" | "POST";
  /** Appended to the base URL. */
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
  timeoutMs: number;
}

/** Why no answer came. "refused" and "unsent": the server never saw the request; it is safe to ask again. */
export class NoAnswer extends Error {
  readonly reason: "refused" | "unsent" | "broken" | "timeout" | "too large";

  constructor(reason: NoAnswer["reason"], message: string) {
    super(message);
    this.name = "NoAnswer";
    this.reason = reason;
  }
}

/** Servers close idle connections after 5 s (uvicorn, Node): ours let go of them before. */
const idleMs = 3_500;
/**
 * Node accepts one connection per turn of the server's event loop (libuv 1.45 and later). Thousands that come at once are
 * therefore served after seconds, while those that were accepted first idle. So a request takes a free connection where
 * there is one; new ones are opened a few at a time. A connection is young until its first answer, or for 250 ms.
 */
const maxYoung = 32;
const youngMs = 250;
/** As the gRPC transport's. */
const maxAnswerBytes = 100 * 2 ** 20;

export class JsonClient {
  readonly base: string;
  readonly #request: typeof http.request;
  readonly #agent: http.Agent;
  readonly #headers: Record<string, string>;
  /** Requests that wait for a connection. */
  readonly #waiting: (() => void)[] = [];
  readonly #young = new Set<Socket>();
  /** Requests whose connection is not known yet. */
  #starting = 0;

  /** @param base For example http://localhost:5021/api; a user and password in it are sent as Basic authorization. */
  constructor(base: string, token?: string) {
    const url = new URL(base);
    const secure = url.protocol === "https:";
    this.#request = secure ? https.request : http.request;
    this.#agent = new (secure ? https : http).Agent({ keepAlive: true, timeout: idleMs, maxFreeSockets: 512 });
    const basic = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    this.#headers = {
      ...(url.username !== "" && { authorization: `Basic ${Buffer.from(basic).toString("base64")}` }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    url.username = url.password = "";
    this.base = url.href.replace(/\/+$/, "");
  }

  /** @throws NoAnswer */
  async request(request: JsonRequest): Promise<JsonAnswer> {
    const body = request.body === undefined ? undefined : Buffer.from(JSON.stringify(request.body));
    // A kept connection may be closed by the server in the moment we write to it: that is no fault, and asked again once.
    try {
      return await this.#send(request, body);
    } catch (error) {
      if (!(error instanceof NoAnswer) || error.reason !== "unsent") throw error;
      return this.#send(request, body);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #send(request: JsonRequest, body: Buffer | undefined): Promise<JsonAnswer> {
    // In turn: whoever comes while others wait would take their connections, and they might wait for ever. Who waited is
    // counted by #next, so that it lets no more through than there is room for.
    if (this.#waiting.length > 0 || this.#mustWait()) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#starting++;
    try {
      return await this.#exchange(request, body);
    } finally {
      // By then the connection is free again.
      setImmediate(() => this.#next());
    }
  }

  #mustWait(): boolean {
    const free = Object.values(this.#agent.freeSockets).reduce((sum, sockets) => sum + (sockets?.length ?? 0), 0);
    return this.#starting >= free && this.#young.size + this.#starting - free >= maxYoung;
  }

  #next(): void {
    while (this.#waiting.length > 0 && !this.#mustWait()) {
      this.#starting++;
      this.#waiting.shift()!();
    }
  }

  #assigned(socket: Socket, reused: boolean): void {
    this.#starting--;
    if (reused) return;
    this.#young.add(socket);
    const grown = () => {
      clearTimeout(timer);
      if (this.#young.delete(socket)) this.#next();
    };
    const timer = setTimeout(grown, youngMs).unref();
    socket.once("data", grown);
    socket.once("close", grown);
  }

  #exchange({ method, path, headers, timeoutMs }: JsonRequest, body: Buffer | undefined): Promise<JsonAnswer> {
    return new Promise((resolve, reject) => {
      const sent = this.#request(`${this.base}${path}`, {
        method,
        agent: this.#agent,
        headers: {
          ...this.#headers,
          ...(body !== undefined && { "content-type": "application/json", "content-length": body.length }),
          ...headers,
        },
      });
      sent.once("socket", (socket) => this.#assigned(socket, sent.reusedSocket));
      const fail = (reason: NoAnswer["reason"], why: string) => {
        clearTimeout(deadline);
        reject(new NoAnswer(reason, `${this.base}${path}: ${why}`));
        sent.destroy();
      };
      const deadline = setTimeout(() => fail("timeout", `no answer within ${timeoutMs} ms`), timeoutMs);
      sent.on("error", (error: NodeJS.ErrnoException) => {
        const reset = error.code === "ECONNRESET" || error.code === "EPIPE";
        if (error.code === "ECONNREFUSED") fail("refused", "connection refused");
        else fail(reset && sent.reusedSocket ? "unsent" : "broken", error.message);
      });
      sent.on("response", (response) => {
        const parts: Buffer[] = [];
        let size = 0;
        response.on("data", (part: Buffer) => {
          parts.push(part);
          size += part.length;
          if (size > maxAnswerBytes) fail("too large", `answer of more than ${maxAnswerBytes} bytes`);
        });
        response.on("error", (error) => fail("broken", error.message));
        response.on("end", () => {
          clearTimeout(deadline);
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: parse(Buffer.concat(parts)) });
        });
      });
      sent.end(body);
    });
  }
}

function parse(bytes: Buffer): unknown {
  const text = bytes.toString("utf8");
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
