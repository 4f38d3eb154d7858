/**
 * Workers that dial in and are wrong or mean badly: each stream gets a bounded, clear end, or is passed over, and a session of
 * another worker goes on as if it had not come.
 */
import { type ClientHttp2Session, connect } from "node:http2";
import type { ClientDuplexStream, StatusObject } from "@grpc/grpc-js";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type RunningController, serveController } from "../../../src/env/controller/serve.ts";
import { type Envelope, loadGrpc, maxMessageBytes } from "../../../src/env/wire/grpc.ts";
import { codeOf, MemoryWorker, say } from "./support.ts";

type Stream = ClientDuplexStream<Envelope, Envelope>;

const token = "a-secret-of-the-test";
let running: RunningController;
let memory: MemoryWorker;
let session: number;
const closing: (() => void)[] = [];

beforeAll(async () => {
  const timings = { adoption: 0, silence: 600_000, redial: 50 };
  running = await serveController({ host: "127.0.0.1", port: 0, version: "test", token, timings });
  memory = new MemoryWorker("memory");
  running.controller.registry.beat({ name: "task", concurrency: 100, indices: [0, 1] }, "memory", () => memory);
});
afterAll(() => running.close());

/** A session that others must not disturb. */
beforeEach(async () => {
  session = (await running.controller.start({ name: "task", index: 0 })).session;
});
afterEach(async () => {
  for (const close of closing.splice(0)) close();
  expect(await running.controller.interact(session, say("end"), 1)).toMatchObject({ finish: true, reward: 1 });
});

async function dial(authorization: string | undefined = `Bearer ${token}`) {
  const { grpc, Client } = await loadGrpc();
  const client = new Client(running.url.replace("http://", ""), grpc.credentials.createInsecure());
  closing.push(() => client.close());
  const metadata = new grpc.Metadata();
  if (authorization !== undefined) metadata.set("authorization", authorization);
  const stream = client.WorkerStream!(metadata) as unknown as Stream;
  stream.on("error", () => {});
  const ended = new Promise<StatusObject>((resolve) => stream.on("status", resolve));
  return { stream, ended, status: grpc.status };
}

const beat = (id: string, name: string, changes: object = {}): Envelope => ({
  id: "beat",
  type: "HEARTBEAT",
  receive_heartbeat_request: { id, name, concurrency: 2, indices: [{ int_value: 0 }, { int_value: 1 }], ...changes },
});
const taskNames = () => [...running.controller.registry.tasks()].map(({ name }) => name);
const workerOf = (task: string, id: string) => running.controller.registry.findByAddress(task, `stream:${id}`);

async function until<T>(look: () => T | undefined): Promise<T> {
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

type Answer = (request: { endpoint: string; body: Record<string, unknown> }, envelope: Envelope) => void;

/** A worker on a stream: holds what it is asked to hold, and answers as the test says. */
async function worker(name: string, answer: (reply: (code: number, json: string) => void) => Answer) {
  const dialled = await dial();
  const { stream } = dialled;
  const id = `worker of ${name}`;
  stream.on("data", (envelope: Envelope) => {
    const { endpoint, json } = envelope.worker_request!;
    const reply = (code: number, text: string) => {
      const worker_response = { code, message: "", json: Buffer.from(text) };
      stream.write({ id: envelope.id, type: "RESPONSE", worker_response });
    };
    if (endpoint === "get_sessions") reply(200, "{}");
    else answer(reply)({ endpoint, body: JSON.parse(Buffer.from(json).toString("utf8")) }, envelope);
  });
  stream.write(beat(id, name));
  const entry = await until(() => workerOf(name, id));
  await entry.syncing;
  return { ...dialled, entry };
}

const output = (finish: boolean) => ({
  messages: [],
  tools: [],
  status: finish ? "completed" : "running",
  finish,
  reward: finish ? 1 : 0,
  metric: {},
});

describe("a stream without the token", () => {
  it.each([undefined, "Bearer wrong", "Bearer", `bearer ${token}x`])(
    "%s is refused, and registers nobody",
    async (given) => {
      const { stream, ended, status } = await dial(given ?? "");
      stream.write(beat("w", "intruder"));
      expect(await ended).toMatchObject({ code: status.UNAUTHENTICATED, details: "this controller needs a token" });
      expect(taskNames()).toEqual(["task"]);
    },
  );
});

/** Bytes on a gRPC stream as they are. Resolves with the status that the controller ends it with. */
function raw(path: string, bytes: Uint8Array): Promise<{ status: string | undefined; message: string }> {
  return new Promise((resolve, reject) => {
    const http2: ClientHttp2Session = connect(running.url);
    closing.push(() => http2.destroy());
    http2.on("error", reject);
    const stream = http2.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      te: "trailers",
      authorization: `Bearer ${token}`,
    });
    let headers: Record<string, unknown> = {};
    stream.on("response", (fields) => {
      headers = { ...headers, ...fields };
    });
    stream.on("trailers", (fields) => {
      headers = { ...headers, ...fields };
    });
    stream.on("error", () => {});
    stream.on("close", () => {
      http2.destroy();
      const status = headers["grpc-status"];
      resolve({
        status: status === undefined ? undefined : String(status),
        message: decodeURIComponent(String(headers["grpc-message"] ?? "")),
      });
    });
    stream.resume();
    stream.end(bytes);
  });
}

const method = "/agentbench.Controller/WorkerStream";
function frame(message: Uint8Array, length = message.length): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, message]);
}

describe("a message", () => {
  it("longer than the limit is refused by its length alone", async () => {
    const before = process.memoryUsage().rss;
    const { status, message } = await raw(method, frame(Buffer.alloc(1024), maxMessageBytes + 1));
    expect(status).toBe("8");
    expect(message).toContain("larger than max");
    expect(process.memoryUsage().rss - before).toBeLessThan(50 * 2 ** 20);
  });

  it("that is no envelope ends its stream alone, whatever its bytes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 60 }), async (bytes) => {
        await raw(method, frame(bytes));
        expect(taskNames()).toEqual(["task"]);
      }),
      { numRuns: 40 },
    );
  });

  it("of a method that does not exist is refused", async () => {
    expect((await raw("/agentbench.Controller/Shutdown", frame(Buffer.alloc(0)))).status).toBe("12");
  });
});

describe("a heartbeat", () => {
  it.each([
    ["no id", beat("", "other")],
    ["no name", beat("w", "")],
    ["a name without end", beat("w", "n".repeat(10_000))],
    ["no room", beat("w", "other", { concurrency: 0 })],
    ["other indices than its task's", beat("w", "task", { indices: [{ int_value: 7 }] })],
  ])("with %s is refused in words", async (_, envelope) => {
    const { stream, ended, status } = await dial();
    stream.write(envelope);
    const { code, details } = await ended;
    expect(code).toBe(status.INVALID_ARGUMENT);
    expect(details).toMatch(/needs an id|indices differ/);
    expect(details.length).toBeLessThan(300);
    expect(taskNames()).toEqual(["task"]);
  });

  it("of another worker on the same stream is refused, and the first is let go", async () => {
    const { stream, ended, entry, status } = await worker("turncoat", () => () => {});
    stream.write(beat("somebody else", "turncoat"));
    expect(await ended).toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining("one worker's"),
    });
    await until(() => (entry.status === "COMA" ? true : undefined));
    expect(workerOf("turncoat", "somebody else")).toBeUndefined();
  });
});

describe("a worker's answer", () => {
  const start = (name: string) => codeOf(running.controller.start({ name, index: 0 }));

  it.each([
    ["no JSON", "{"],
    ["of another shape", '{"finish": "no"}'],
    ["no object", "[]"],
    ["empty", ""],
    ["nested without end", "[".repeat(100_000)],
  ])("that is %s ends the sample as the worker's fault", async (what, json) => {
    await worker(`garbled ${what}`, (reply) => () => reply(200, json));
    expect(await start(`garbled ${what}`)).toBe("500 worker_failed");
  });

  it("that is given twice, or to no question, counts once", async () => {
    const { stream } = await worker("echo", (reply) => ({ endpoint, body }) => {
      const env_out = output(endpoint === "interact");
      const json = JSON.stringify(endpoint === "interact" ? { session_id: body.session_id, env_out } : env_out);
      reply(200, json);
      reply(200, json);
      reply(500, "");
    });
    const worker_response = { code: 200, message: "", json: Buffer.from("{}") };
    stream.write({ id: "a question of nobody", type: "RESPONSE", worker_response });
    const { session: own } = await running.controller.start({ name: "echo", index: 0 });
    expect(await running.controller.interact(own, say("x"), 1)).toMatchObject({ finish: true, reward: 1 });
    expect(await codeOf(running.controller.interact(own, say("x"), 1))).toBe("400 session_finished");
  });

  it("that never comes, since the stream breaks in mid-call, ends the session as lost", async () => {
    const { stream, entry } = await worker("gone", (reply) => ({ endpoint }) => {
      if (endpoint === "start_sample") reply(200, JSON.stringify(output(false)));
      else stream.cancel();
    });
    const { session: own } = await running.controller.start({ name: "gone", index: 0 });
    expect(await codeOf(running.controller.interact(own, say("x"), 1))).toBe("500 worker_lost");
    expect(entry.status).toBe("COMA");
    expect(await codeOf(running.controller.interact(own, say("x"), 1))).toBe("400 session_finished");
    expect(await start("gone")).toBe("400 no_worker");
  });

  it("about a session that the worker does not have is refused, and the session ends", async () => {
    await worker("forgetful", (reply) => ({ endpoint }) => {
      if (endpoint === "start_sample") reply(200, JSON.stringify(output(false)));
      else reply(400, '{"error": "no such session"}');
    });
    const { session: own } = await running.controller.start({ name: "forgetful", index: 0 });
    expect(await codeOf(running.controller.interact(own, say("x"), 1))).toMatch(/^400 session_finished/);
  });
});

describe("a notice", () => {
  it("of a session that is nobody's, or another worker's, changes nothing", async () => {
    const { stream, entry } = await worker("meddler", (reply) => () => reply(200, JSON.stringify(output(false))));
    for (const session_id of [session, 12345, -1]) {
      stream.write({ id: "n", type: "REQUEST", session_cancel_notice: { session_id } });
    }
    // What is answered after it has been read after it.
    const { session: own } = await running.controller.start({ name: "meddler", index: 0 });
    expect(running.controller.sessions.get(session)).toBeDefined();
    stream.write({ id: "n", type: "REQUEST", session_cancel_notice: { session_id: own } });
    await until(() => (entry.sessions.size === 0 ? true : undefined));
  });
});
