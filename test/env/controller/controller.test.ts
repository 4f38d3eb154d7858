/** The controller's rules, on a clock that the test turns: docs/controller.md states them. */
import { describe, expect, it } from "vitest";
import { Controller } from "../../../src/env/controller/controller.ts";
import { controllerApp } from "../../../src/env/controller/http.ts";
import { codeOf, MemoryWorker, say, settle, testController } from "./support.ts";

describe("dispatch", () => {
  it("goes to the live, undrained worker with most free slots, and says when all are full", async () => {
    const { controller, beat, clock } = testController();
    const [small, large] = [new MemoryWorker("small"), new MemoryWorker("large")];
    beat(small, 1);
    const entry = beat(large, 3);
    const on = async () =>
      controller.sessions.get((await controller.start({ name: "task", index: 0 })).session)!.worker;
    expect([await on(), await on()].map(({ transport }) => transport.address)).toEqual(["large", "large"]);
    entry.stale = true;
    expect((await on()).transport.address).toBe("small");
    const error = await controller.start({ name: "task", index: 0 }).catch((reason) => reason);
    expect(error).toMatchObject({ status: 400, code: "no_worker", retryAfter: 1 });
    entry.stale = false;
    clock.now += controller.timings.silence + 1;
    controller.sweep();
    expect(await codeOf(controller.start({ name: "task", index: 0 }))).toBe("400 no_worker");
    expect(entry.status).toBe("COMA");
    beat(large, 3);
    expect((await on()).transport.address).toBe("large");
  });

  it("a worker that says 406 or is gone is passed over", async () => {
    const { controller, beat } = testController();
    const [full, gone, good] = ["full", "gone", "good"].map((name) => new MemoryWorker(name));
    beat(full!, 9).transport;
    const dead = beat(gone!, 8);
    beat(good!, 7);
    await settle();
    full!.full = true;
    gone!.fault = "refused";
    const { session } = await controller.start({ name: "task", index: 0 });
    expect(controller.sessions.get(session)!.worker.transport).toBe(good);
    expect(dead.status).toBe("DEAD");
  });

  it("indices: unknown ones are refused; where all are names a number is a position", async () => {
    const { controller, beat } = testController(["apple", "pear"]);
    const worker = new MemoryWorker("w");
    beat(worker);
    const { session } = await controller.start({ name: "task", index: 1 });
    expect(worker.held.get(session)).toBe("pear");
    await controller.start({ name: "task", index: "apple" });
    for (const index of [2, -1, "plum"]) {
      expect(await codeOf(controller.start({ name: "task", index }))).toBe("400 unknown_index");
    }
    expect(await codeOf(controller.start({ name: "other", index: 0 }))).toBe("400 unknown_task");
  });

  it("a worker with other indices than its task's is refused", async () => {
    const { controller, beat } = testController();
    beat(new MemoryWorker("w"));
    const other = () =>
      controller.registry.beat({ name: "task", concurrency: 1, indices: [0] }, "x", () => new MemoryWorker("x"));
    expect(other).toThrow(/differ/);
  });
});

describe("a session", () => {
  it("takes one interaction at a time, in order, and is over when it is over", async () => {
    const { controller, beat } = testController();
    const worker = new MemoryWorker("w");
    beat(worker);
    const { session } = await controller.start({ name: "task", index: 0 });
    let open = () => {};
    worker.gate = new Promise((resolve) => {
      open = resolve;
    });
    const first = controller.interact(session, say("hello"), 1);
    expect(await codeOf(controller.interact(session, say("hello"), 1))).toBe("409 session_busy");
    open();
    expect(await first).toMatchObject({ finish: false, status: "running" });
    expect(await codeOf(controller.interact(session, say("hello"), 1))).toBe("409 turn_mismatch");
    expect(await codeOf(controller.interact(session, say("hello"), 3))).toBe("409 turn_mismatch");
    expect(await controller.interact(session, say("end"), 2)).toMatchObject({ finish: true, reward: 1 });
    expect(await codeOf(controller.interact(session, say("end"), 2))).toBe("400 session_finished");
    expect(await codeOf(controller.interact(12345, say("end")))).toBe("400 session_not_found");
    expect(controller.sessions.size).toBe(0);
  });

  it("idle for five minutes is cancelled with notice, and its place is free after the notice", async () => {
    const { controller, beat, clock } = testController();
    const worker = new MemoryWorker("w");
    beat(worker, 1);
    const { session } = await controller.start({ name: "task", index: 0 });
    clock.now += 299_000;
    beat(worker, 1);
    controller.sweep();
    expect(worker.calls).not.toContain("cancel_with_notice");
    clock.now += 2_000;
    beat(worker, 1);
    controller.sweep();
    await settle();
    expect(worker.calls).toContain("cancel_with_notice");
    expect(await codeOf(controller.interact(session, say("late")))).toBe("400 session_finished");
    expect(await codeOf(controller.start({ name: "task", index: 0 }))).toBe("400 no_worker");
    controller.cancelNotice(session);
    expect(await codeOf(controller.start({ name: "task", index: 0 }))).toBeUndefined();
  });

  it("whose worker is lost ends as a fault at once, also the ones between turns", async () => {
    const { controller, beat } = testController();
    const worker = new MemoryWorker("w");
    beat(worker);
    const ids = [0, 1].map(async (index) => (await controller.start({ name: "task", index })).session);
    const [first, second] = await Promise.all(ids);
    worker.fault = "refused";
    expect(await codeOf(controller.interact(first!, say("x")))).toBe("500 worker_lost");
    const error = await controller.interact(second!, say("x")).catch((reason) => reason);
    expect(error).toMatchObject({ status: 400, code: "session_finished", message: /worker was lost/ });
    expect(controller.sessions.size).toBe(0);
  });

  it("whose worker takes longer than allowed is ended and cancelled", async () => {
    const { controller, beat } = testController();
    const worker = new MemoryWorker("w");
    beat(worker);
    const { session } = await controller.start({ name: "task", index: 0 });
    worker.fault = "timeout";
    expect(await codeOf(controller.interact(session, say("x")))).toBe("500 worker_timeout");
    expect(await codeOf(controller.interact(session, say("x")))).toMatch(/^400 session_finished/);
  });
});

describe("sync", () => {
  it("ends what the worker no longer has and adopts what the controller does not know", async () => {
    const { controller, beat } = testController();
    const worker = new MemoryWorker("w");
    const entry = beat(worker, 5);
    const { session } = await controller.start({ name: "task", index: 0 });
    worker.held.delete(session);
    worker.held.set(77, 2);
    await controller.registry.sync(entry);
    expect(controller.sessions.get(session)).toBeUndefined();
    expect(controller.sessions.get(77)).toMatchObject({ index: 2, task: "task" });
    expect(await controller.interact(77, say("end"))).toMatchObject({ reward: 1 });
  });

  it("frees the place of a session that ended here while its worker still holds it", async () => {
    const { controller, beat } = testController();
    const worker = new MemoryWorker("w");
    const entry = beat(worker, 1);
    const { session } = await controller.start({ name: "task", index: 0 });
    await settle();
    worker.fault = "broken";
    expect(await codeOf(controller.interact(session, say("x")))).toBe("500 worker_lost");
    await entry.syncing;
    worker.fault = undefined;
    beat(worker, 1);
    await entry.syncing;
    await settle();
    expect(worker.calls.at(-1)).toBe("cancel");
    expect(worker.held.size).toBe(0);
    expect(await codeOf(controller.start({ name: "task", index: 0 }))).toBeUndefined();
  });

  it("leaves alone a session whose turn is under way", async () => {
    const { controller, beat } = testController();
    const worker = new MemoryWorker("w");
    const entry = beat(worker, 5);
    const { session } = await controller.start({ name: "task", index: 0 });
    let open = () => {};
    worker.gate = new Promise((resolve) => {
      open = resolve;
    });
    const turn = controller.interact(session, say("end"));
    const sync = controller.registry.sync(entry);
    open();
    expect(await turn).toMatchObject({ finish: true, reward: 1 });
    await sync;
  });

  it("happens every minute", async () => {
    const { controller, beat, clock } = testController();
    const worker = new MemoryWorker("w");
    beat(worker);
    await settle();
    const before = worker.calls.length;
    clock.now += 61_000;
    beat(worker);
    controller.sweep();
    await settle();
    expect(worker.calls.slice(before)).toContain("get_sessions");
  });

  it("a client that comes before its worker, after a restart, waits for the adoption", async () => {
    const clock = { now: 5_000_000 };
    const controller = new Controller({ now: () => clock.now });
    const turn = controller.interact(4711, say("end"));
    const unknown = codeOf(controller.interact(4712, say("end")));
    const worker = new MemoryWorker("w");
    worker.held.set(4711, 0);
    controller.registry.beat({ name: "task", concurrency: 2, indices: [0] }, "w", () => worker);
    expect(await turn).toMatchObject({ finish: true, reward: 1 });
    clock.now += controller.timings.adoption;
    controller.sweep();
    expect(await unknown).toBe("400 session_not_found");
  });
});

describe("workers", () => {
  it("in COMA without a session are forgotten after five minutes, and their task with the last", async () => {
    const { controller, beat, clock } = testController();
    beat(new MemoryWorker("w"));
    for (const passed of [12_000, 1, 299_000]) {
      clock.now += passed;
      controller.sweep();
      expect([...controller.registry.tasks()]).toHaveLength(1);
    }
    clock.now += 2_000;
    controller.sweep();
    expect([...controller.registry.tasks()]).toHaveLength(0);
  });

  it("clean_worker and clean_session take nothing whose time is not up, as in the original", async () => {
    const { controller, beat, clock } = testController();
    const app = controllerApp(controller, { version: "test" });
    const clean = async (what: string) =>
      expect((await app.request(`/api/clean_${what}`, { method: "POST" })).status).toBe(200);
    const [holds, empty] = [new MemoryWorker("holds"), new MemoryWorker("empty")];
    const holder = beat(holds, 9);
    const { session } = await controller.start({ name: "task", index: 0 });
    beat(empty);
    clock.now += controller.timings.silence + 1;
    await clean("worker");
    // Both are noticed to be silent, and neither they nor the session are gone.
    expect(holder.status).toBe("COMA");
    await clean("session");
    expect([...controller.registry.task("task").workers.values()]).toHaveLength(2);
    expect(controller.sessions.get(session)).toBeDefined();
    clock.now += controller.timings.removal + 1;
    await clean("worker");
    expect([...controller.registry.task("task").workers.values()]).toEqual([holder]);
    await clean("session");
    await settle();
    expect(holds.calls).toContain("cancel_with_notice");
    expect(controller.sessions.get(session)?.cancelling).toBe(true);
  });

  it("cancel_all needs to know the task where there are several", async () => {
    const { controller, beat } = testController();
    const [a, b] = [new MemoryWorker("a"), new MemoryWorker("b")];
    beat(a, 2, "one");
    await controller.start({ name: "one", index: 0 });
    beat(b, 2, "two");
    await controller.start({ name: "two", index: 0 });
    expect(await codeOf(controller.cancelAll({}))).toBe("403 ambiguous_task");
    await controller.cancelAll({ name: "one" });
    expect([a.held.size, b.held.size, controller.sessions.size]).toEqual([0, 1, 1]);
    await controller.cancelAll({ force: true });
    expect(controller.sessions.size).toBe(0);
  });
});
