/** The controller's side of workers that dial out: service agentbench.Controller, one stream a worker. */
import type { Socket } from "node:net";
import type { Metadata, ServerDuplexStream } from "@grpc/grpc-js";
import { type Envelope, indexFromWire, loadGrpc, maxMessageBytes } from "../wire/grpc.ts";
import { TokenCheck } from "../wire/token.ts";
import { WireError } from "../wire/wire-error.ts";
import type { Controller } from "./controller.ts";
import { StreamTransport } from "./stream-transport.ts";
import type { WorkerEntry } from "./worker-entry.ts";

type WorkerStream = ServerDuplexStream<Envelope, Envelope>;

export interface GrpcServer {
  /** Serves a connection whose first bytes are HTTP/2's preface. */
  connection(socket: Socket): void;
  close(): void;
}

/** @throws AgentRLError CONFIG where gRPC's packages are not installed. */
export async function grpcServer(controller: Controller, token: string | undefined): Promise<GrpcServer> {
  const { grpc, service } = await loadGrpc();
  const check = new TokenCheck(token);
  const server = new grpc.Server({
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
  });
  server.addService(service, {
    WorkerStream: (stream: WorkerStream) => {
      const fail = (code: number, details: string) =>
        stream.emit("error", Object.assign(new Error(details), { code, details }));
      if (!check.accepts(authorization(stream.metadata))) {
        fail(grpc.status.UNAUTHENTICATED, "this controller needs a token");
        return;
      }
      serveStream(controller, stream, (error) => fail(grpc.status.INVALID_ARGUMENT, error.message));
    },
  });
  const injector = server.createConnectionInjector(grpc.ServerCredentials.createInsecure());
  return {
    connection: (socket) => injector.injectConnection(socket),
    close: () => {
      injector.destroy();
      server.forceShutdown();
    },
  };
}

function authorization(metadata: Metadata): string | undefined {
  return metadata.get("authorization")[0]?.toString();
}

function serveStream(controller: Controller, stream: WorkerStream, refuse: (error: WireError) => void): void {
  const { registry } = controller;
  let worker: WorkerEntry | undefined;
  let transport: StreamTransport | undefined;
  const receive = (envelope: Envelope) => {
    const { receive_heartbeat_request: beat, session_cancel_notice: notice } = envelope;
    if (beat != null) {
      const indices = beat.indices.map(indexFromWire);
      const checked = checkBeat(beat);
      // The transport takes the stream before the registry asks the worker anything.
      const connect = () => new StreamTransport(beat.id, controller.timings.redial);
      const existing = registry.findByAddress(beat.name, `stream:${beat.id}`);
      if (worker !== undefined && existing !== worker) {
        throw new WireError(400, "bad_request", "a stream is one worker's: its id and name must not change");
      }
      const own = existing?.transport ?? connect();
      transport = own as StreamTransport;
      transport.attach(stream);
      worker = registry.beat({ ...checked, indices }, transport.address, () => own);
    } else if (notice != null) controller.cancelNotice(notice.session_id, worker);
    else if (envelope.type === "RESPONSE") transport?.answered(envelope);
  };
  stream.on("data", (envelope: Envelope) => {
    try {
      receive(envelope);
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      refuse(error);
    }
  });
  const gone = () => {
    if (worker !== undefined && transport?.detach(stream) === true) registry.silent(worker);
  };
  stream.on("end", () => {
    gone();
    stream.end();
  });
  stream.on("error", gone);
  stream.on("close", gone);
  stream.on("cancelled", gone);
}

/** @throws WireError */
function checkBeat({ id, name, concurrency }: { id: string; name: string; concurrency: number }) {
  if (id === "" || name === "" || name.length > 200 || concurrency < 1) {
    throw new WireError(400, "bad_request", "a heartbeat needs an id, a name and a concurrency of at least 1");
  }
  return { name, concurrency };
}
