/** The tie of a worker that dials out: one gRPC stream carries its heartbeats and the controller's requests. */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { ClientDuplexStream } from "@grpc/grpc-js";
import { type Envelope, indexToWire, type LoadedGrpc, loadGrpc, maxMessageBytes, stamp } from "../wire/grpc.ts";
import { WireError } from "../wire/wire-error.ts";
import { BeatLog, ControllerApi, type ControllerLink, heartbeatMs, type Identity } from "./controller-link.ts";
import type { Endpoint } from "./endpoints.ts";
import { Outstanding } from "./outstanding.ts";

type Stream = ClientDuplexStream<Envelope, Envelope>;

const redialMs = 1_000;

export class StreamLink implements ControllerLink {
  /** Names the machine: in the controller's list of workers, and for a probe that looks for its own container there. */
  readonly #id = `${hostname()}/${randomUUID()}`;
  readonly #target: string;
  readonly #token: string | undefined;
  readonly #identity: Identity;
  readonly #loaded: LoadedGrpc;
  readonly #endpoints: () => Readonly<Record<string, Endpoint>>;
  readonly #log: BeatLog;
  readonly #api: ControllerApi;
  readonly #answers = new Outstanding();
  #stream: Stream | undefined;
  /** The controller has taken the stream. */
  #connected = false;
  #hangUp: () => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #redial: NodeJS.Timeout | undefined;
  #stopped = false;

  /** @param url grpc://host:port. @throws AgentRLError CONFIG where gRPC's packages are not installed. */
  static async open(
    url: string,
    token: string | undefined,
    identity: Identity,
    endpoints: () => Readonly<Record<string, Endpoint>>,
    log: (line: string) => void,
  ): Promise<StreamLink> {
    return new StreamLink(await loadGrpc(), url, token, identity, endpoints, log);
  }

  private constructor(
    loaded: LoadedGrpc,
    url: string,
    token: string | undefined,
    identity: Identity,
    endpoints: () => Readonly<Record<string, Endpoint>>,
    log: (line: string) => void,
  ) {
    this.#loaded = loaded;
    this.#target = url.replace(/^grpc:\/\//, "").replace(/\/+$/, "");
    this.#token = token;
    this.#identity = identity;
    this.#endpoints = endpoints;
    this.#log = new BeatLog(log);
    // The same port speaks HTTP.
    this.#api = new ControllerApi(`http://${this.#target}/api`, token);
  }

  start(): void {
    this.#dial();
    this.#timer = setInterval(() => this.#beat(), heartbeatMs);
  }

  async notice(session: number): Promise<void> {
    this.#send({ id: randomUUID(), type: "REQUEST", session_cancel_notice: { session_id: session } });
  }

  leave(): Promise<void> {
    return this.#api.markStale(this.#identity.name, `stream:${this.#id}`);
  }

  async finish(): Promise<void> {
    await this.#answers.settled();
    this.#stopped = true;
    const stream = this.#stream;
    if (stream !== undefined && this.#connected) {
      // The controller ends its half when it has read all of ours.
      const read = new Promise((resolve) => stream.once("end", resolve).once("error", resolve));
      stream.end();
      await read;
    }
    this.stop();
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
    clearTimeout(this.#redial);
    this.#hangUp();
    this.#api.close();
  }

  #dial(): void {
    const { grpc, Client } = this.#loaded;
    const client = new Client(this.#target, grpc.credentials.createInsecure(), {
      "grpc.max_receive_message_length": maxMessageBytes,
      "grpc.max_send_message_length": maxMessageBytes,
    });
    const metadata = new grpc.Metadata();
    if (this.#token !== undefined) metadata.set("authorization", `Bearer ${this.#token}`);
    const stream = client.WorkerStream!(metadata) as unknown as Stream;
    this.#stream = stream;
    this.#hangUp = () => {
      stream.cancel();
      client.close();
    };
    let over = false;
    const again = (why: string) => {
      if (over) return;
      over = true;
      this.#connected = false;
      this.#hangUp();
      if (this.#stopped) return;
      this.#log.say(`the stream to ${this.#target} ended: ${why}`);
      this.#redial = setTimeout(() => this.#dial(), redialMs);
    };
    stream.on("data", (envelope: Envelope) => this.#answers.add(this.#answer(stream, envelope)));
    stream.on("metadata", () => {
      this.#connected = true;
      this.#log.say(`registered as ${this.#identity.name} by a stream to ${this.#target}`);
    });
    stream.on("error", (error) => again(error.message));
    stream.on("end", () => again("the controller closed it"));
    this.#beat();
  }

  #beat(): void {
    const { name, concurrency, indices } = this.#identity;
    this.#send({
      id: randomUUID(),
      type: "HEARTBEAT",
      receive_heartbeat_request: { id: this.#id, name, concurrency, indices: indices.map(indexToWire) },
    });
  }

  #send(envelope: Envelope): void {
    this.#stream?.write({ ...envelope, timestamp: stamp(Date.now()) });
  }

  async #answer(stream: Stream, { id, worker_request: request }: Envelope): Promise<void> {
    if (request == null) return;
    const worker_response = await respond(this.#endpoints()[request.endpoint], request.json);
    // To the stream that asked: the controller no longer waits for answers on another.
    stream.write({ id, type: "RESPONSE", timestamp: stamp(Date.now()), worker_response });
  }
}

async function respond(
  endpoint: Endpoint | undefined,
  json: Uint8Array,
): Promise<{ code: number; message: string; json: Uint8Array }> {
  try {
    if (endpoint === undefined) throw new WireError(404, "not_found", "no such endpoint");
    const answer = await endpoint.handle(json.length === 0 ? undefined : parse(json));
    return { code: 200, message: "", json: Buffer.from(JSON.stringify(answer ?? null)) };
  } catch (error) {
    const known = error instanceof WireError ? error : new WireError(500, "internal", (error as Error).message);
    return { code: known.status, message: known.message, json: Buffer.alloc(0) };
  }
}

/** @throws WireError 400 */
function parse(json: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(json).toString("utf8"));
  } catch (error) {
    throw new WireError(400, "malformed_json", `the body is no JSON: ${(error as Error).message}`);
  }
}
