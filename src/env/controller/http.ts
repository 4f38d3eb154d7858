/** The controller over HTTP: the client's side of the protocol, and the workers' heartbeats. */
import { type HttpApp, type HttpAppOptions, type HttpContext, httpApp, readBody } from "../wire/http-app.ts";
import {
  heartbeat,
  interactRequest,
  markStaleRequest,
  sessionHeader,
  startSampleRequest,
  turnHeader,
} from "../wire/schemas.ts";
import { WireError } from "../wire/wire-error.ts";
import type { Controller } from "./controller.ts";
import { HttpTransport } from "./transport.ts";

export interface ControllerAppOptions extends HttpAppOptions {
  /** Answer of /api/version. */
  version: string;
}

export function controllerApp(controller: Controller, options: ControllerAppOptions): HttpApp {
  const app = httpApp(options);
  const { registry, sessions } = controller;

  app.post("/api/start_sample", async (c) => {
    const { session, output } = await controller.start(await readBody(c, startSampleRequest));
    c.header(sessionHeader, String(session));
    return c.json({ messages: output.messages, tools: output.tools ?? [] });
  });
  app.post("/api/interact", async (c) => {
    const id = sessionOf(c);
    const turn = wholeHeader(c, turnHeader);
    const { messages } = await readBody(c, interactRequest);
    const output = await controller.interact(id, messages, turn);
    return c.json({
      finish: output.finish,
      reward: output.reward,
      status: output.status,
      messages: output.messages,
      metrics: output.metric ?? {},
    });
  });
  app.post("/api/cancel", async (c) => {
    await controller.cancel(sessionOf(c));
    return c.json(null);
  });
  app.post("/api/cancel_all", async (c) => {
    await controller.cancelAll({ name: c.req.query("name"), force: c.req.query("force") === "true" });
    return c.json(null);
  });
  app.post("/api/cancel_notice", (c) => {
    controller.cancelNotice(sessionOf(c));
    return c.json(null);
  });

  app.get("/api/get_indices", (c) => c.json(registry.task(c.req.query("name") ?? "").indices));
  app.get("/api/list_workers", (c) => {
    const tasks = [...registry.tasks()].map((task) => {
      const workers = [...task.workers.values()].map((worker) => [
        worker.id,
        {
          id: worker.id,
          address: worker.transport.address,
          capacity: worker.capacity,
          current: worker.sessions.size,
          last_visit: new Date(worker.lastVisit).toISOString(),
          status: worker.status,
          stale: worker.stale,
          locked: worker.syncing !== undefined,
        },
      ]);
      return [task.name, { indices: task.indices, workers: Object.fromEntries(workers) }];
    });
    return c.json(Object.fromEntries(tasks));
  });
  app.get("/api/list_sessions", (c) => {
    const listed = [...sessions.values()].map((session) => [
      session.id,
      {
        name: session.task,
        index: session.index,
        custom_task: session.customTask,
        start: new Date(session.start).toISOString(),
        last_update: new Date(session.lastUpdate).toISOString(),
        worker_id: session.worker.id,
        locked: session.locked,
        cancelling: session.cancelling,
      },
    ]);
    return c.json(Object.fromEntries(listed));
  });
  app.get("/api/version", (c) => c.json({ version: options.version }));

  app.post("/api/receive_heartbeat", async (c) => {
    const beat = await readBody(c, heartbeat);
    const address = beat.address.replace(/\/+$/, "");
    registry.beat(beat, address, () => new HttpTransport(address, options.token));
    return c.json(null);
  });
  app.post("/api/mark_stale", async (c) => {
    const { name, worker_id, stale } = await readBody(c, markStaleRequest);
    registry.worker(name, worker_id).stale = stale;
    return c.json(null);
  });
  app.post("/api/sync_all", async (c) => {
    await registry.syncAll();
    return c.json(null);
  });
  // As the original's: these two look now at what is looked at regularly, and take nothing from anyone whose time is not up.
  app.post("/api/clean_worker", (c) => {
    registry.sweep();
    return c.json(null);
  });
  app.post("/api/clean_session", (c) => {
    controller.sweepSessions();
    return c.json(null);
  });
  return app;
}

function sessionOf(c: HttpContext): number {
  const id = wholeHeader(c, sessionHeader);
  if (id === undefined) throw new WireError(400, "bad_request", `the header field ${sessionHeader} is missing`);
  return id;
}

function wholeHeader(c: HttpContext, name: string): number | undefined {
  const text = c.req.header(name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value)) return value;
  throw new WireError(
    400,
    "bad_request",
    `the header field ${name} is ${JSON.stringify(text.slice(0, 40))}, no whole number`,
  );
}
