/** Workers with real host processes behind a real controller: faults, deaths and restarts, and what a remote client sees. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { type RunningController, serveController } from "../../../src/env/controller/serve.ts";
import type { Action, Session } from "../../../src/env/environment.ts";
import { openRemoteEnvironment } from "../../../src/env/remote.ts";
import { type RunningWorker, runWorker } from "../../../src/env/worker/serve.ts";

const fixture = (name: string) => new URL(`./fixtures/${name}`, import.meta.url);
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function controllerOn(port = 0): Promise<RunningController> {
  const running = await serveController({ host: "127.0.0.1", port, version: "test" });
  closing.push(() => running.close());
  return running;
}

async function worker(
  controller: string,
  options: Partial<Parameters<typeof runWorker>[0]> = {},
): Promise<RunningWorker> {
  const running = await runWorker({
    name: "moody",
    task: { environment: "moody", options: {}, split: "eval" },
    controller,
    host: "127.0.0.1",
    port: 0,
    concurrency: 8,
    processes: 2,
    hostModule: fixture("moody-host.ts"),
    ...options,
  });
  closing.push(() => running.close());
  return running;
}

async function remote({ url }: RunningController, patienceMs = 20_000) {
  const environment = await openRemoteEnvironment({ controller: `${url}/api`, task: "moody", patienceMs });
  closing.push(() => environment.close());
  return environment;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

const registered = (running: RunningController, count = 1) =>
  until(() => {
    const [task] = [...running.controller.registry.tasks()];
    return [...(task?.workers.values() ?? [])].filter(({ status }) => status === "ALIVE").length === count;
  });

const act = (how: string): Action => ({ text: "", calls: [{ id: "0", name: "act", arguments: { how } }] });
const failure = (session: Session, how: string) =>
  session.step(act(how)).then(
    (result) => result,
    (error: unknown) => error,
  );

describe.each(["http", "grpc"])("a worker over %s", (transport) => {
  const urlOf = ({ url }: RunningController) =>
    transport === "grpc" ? url.replace("http://", "grpc://") : `${url}/api`;

  it("plays a sample to its reward, as in this process", async () => {
    const controller = await controllerOn();
    await worker(urlOf(controller));
    await registered(controller);
    const environment = await remote(controller);
    expect(environment.tools.map(({ name }) => name)).toEqual(["act"]);
    expect(environment.split("data").indices).toEqual([0, 1, 2]);
    const session = await environment.start("data", 2, 99);
    expect(session.messages).toEqual([{ role: "user", content: "task 2, seed 99" }]);
    expect(await session.step(act("half"))).toMatchObject({ reward: 0.25, done: false });
    // The wire's last reward is the whole episode's, 1.0; the last step's share of it is 0.75.
    const last = await session.step(act("end"));
    expect(last).toEqual({
      messages: [{ role: "tool", content: "end: done", toolCallId: "0", name: "act" }],
      reward: 0.75,
      done: true,
      endReason: "completed",
      metrics: { f1: 0.5, score: 1 },
    });
    expect(controller.controller.sessions.size).toBe(0);
  });

  it("a session that throws, hangs, blocks or crashes ends as a fault; the worker goes on", async () => {
    const controller = await controllerOn();
    const running = await worker(urlOf(controller));
    await registered(controller);
    const environment = await remote(controller);
    for (const how of ["throw", "fault", "hang", "block", "crash"]) {
      const [bad, good] = [await environment.start("data", 0, 1), await environment.start("data", 1, 1)];
      expect(await failure(bad, how)).toMatchObject({ name: "AgentRLError", code: "ENVIRONMENT" });
      // The other session runs in the other host process.
      expect(await good.step(act("end"))).toMatchObject({ done: true, reward: 0.75 });
      // A process that blocks is ended once it has not answered a ping either; the next session starts another.
      if (how === "block") await until(() => running.pool.pids.length === 1);
    }
    expect(running.table.size).toBe(0);
    expect(running.pool.pids.length).toBeGreaterThan(0);
  });

  it("drains: no more sessions, those that run end well", async () => {
    const controller = await controllerOn();
    const running = await worker(urlOf(controller));
    await registered(controller);
    const environment = await remote(controller, 1_500);
    const session = await environment.start("data", 0, 1);
    // As a worker ends that is told to: the last answer must not be lost in it.
    const drained = running.drain(20_000).then(() => running.close());
    const [entry] = [...controller.controller.registry.task("moody").workers.values()];
    await until(() => entry!.stale);
    await expect(environment.start("data", 1, 1)).rejects.toMatchObject({ code: "ENVIRONMENT" });
    expect(await session.step(act("end"))).toMatchObject({ done: true, reward: 0.75 });
    await drained;
  });

  it("a controller that is restarted goes on with the sessions that run", async () => {
    const first = await controllerOn();
    await worker(urlOf(first));
    await registered(first);
    const environment = await remote(first);
    const session = await environment.start("data", 0, 1);
    expect(await session.step(act("go on"))).toMatchObject({ done: false });
    await first.close();
    const turn = session.step(act("go on"));
    const second = await controllerOn(Number(new URL(first.url).port));
    expect(await turn).toMatchObject({ done: false });
    expect(await session.step(act("end"))).toMatchObject({ done: true, reward: 0.75 });
    expect(second.controller.sessions.size).toBe(0);
  });

  it("a start at a restarted controller waits until its workers are back; for a task that never was, it does not", async () => {
    const first = await controllerOn();
    const before = await worker(urlOf(first));
    await registered(first);
    const environment = await remote(first);
    await before.close();
    await first.close();
    const second = await controllerOn(Number(new URL(first.url).port));
    let started = false;
    const session = environment.start("data", 0, 1).finally(() => {
      started = true;
    });
    // By the time this is refused, the start above, which was sent before, has been refused as well.
    await expect(remote(second)).rejects.toMatchObject({ code: "CONFIG" });
    expect(started).toBe(false);
    await worker(urlOf(second));
    expect(await (await session).step(act("end"))).toMatchObject({ done: true, reward: 0.75 });
  });
});

describe("a worker that is killed", () => {
  async function start(controller: string): Promise<ChildProcess> {
    const child = fork(fileURLToPath(fixture("worker-process.ts")), [controller, "1"], {
      execArgv: ["--import", "tsx"],
    });
    closing.push(() => child.kill("SIGKILL"));
    await once(child, "message");
    return child;
  }

  it.each(["http", "grpc"])("over %s: its sessions end as faults and are played anew elsewhere", async (transport) => {
    const controller = await controllerOn();
    const url = transport === "grpc" ? controller.url.replace("http://", "grpc://") : `${controller.url}/api`;
    const child = await start(url);
    await registered(controller);
    const environment = await remote(controller);
    const doomed = await Promise.all([0, 1, 2, 0].map((index) => environment.start("data", index, 1)));
    for (const session of doomed) expect(await session.step(act("go on"))).toMatchObject({ done: false });
    await worker(url);
    await registered(controller, 2);
    const inFlight = failure(doomed[0]!, "hang");
    await until(() => [...controller.controller.sessions.values()].some(({ locked }) => locked));
    child.kill("SIGKILL");
    const outcomes = await Promise.all([inFlight, ...doomed.slice(1).map((session) => failure(session, "end"))]);
    for (const outcome of outcomes) expect(outcome).toMatchObject({ name: "AgentRLError", code: "ENVIRONMENT" });
    const again = await Promise.all([0, 1, 2, 0].map((index) => environment.start("data", index, 1)));
    for (const session of again) expect(await session.step(act("end"))).toMatchObject({ done: true, reward: 0.75 });
    expect(controller.controller.sessions.size).toBe(0);
  });
});
