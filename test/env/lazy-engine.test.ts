import { expect, it } from "vitest";
import { LazyEngine } from "../../src/env/lazy-engine.ts";

/** Starts that end as the test says, one after another. */
function starts(...outcomes: (Error | "engine")[]) {
  const closed: string[] = [];
  let started = 0;
  const lazy = new LazyEngine(async () => {
    const number = ++started;
    const outcome = outcomes[number - 1]!;
    if (outcome instanceof Error) throw outcome;
    return { number, close: async () => void closed.push(`engine ${number}`) };
  });
  return { lazy, closed, count: () => started };
}

it("starts with the first use, once for all who ask", async () => {
  const { lazy, closed, count } = starts("engine");
  expect(count()).toBe(0);
  const [one, other] = await Promise.all([lazy.get(), lazy.get()]);
  expect(one).toBe(other);
  expect(count()).toBe(1);
  await lazy.close();
  await lazy.close();
  expect(closed).toEqual(["engine 1"]);
});

it("a start that fails is told to all who wait for it, and tried anew by the next", async () => {
  const { lazy, closed } = starts(new Error("not yet"), "engine");
  const waiting = [lazy.get(), lazy.get()];
  for (const outcome of await Promise.allSettled(waiting)) {
    expect(outcome).toMatchObject({ status: "rejected", reason: { message: "not yet" } });
  }
  expect(await lazy.get()).toMatchObject({ number: 2 });
  await lazy.close();
  expect(closed).toEqual(["engine 2"]);
});

it("closing waits for a start that is under way, and none that failed is closed", async () => {
  const { lazy, closed } = starts(new Error("no"), "engine");
  const failing = lazy.get();
  await lazy.close();
  await expect(failing).rejects.toThrow("no");
  const starting = lazy.get();
  await lazy.close();
  expect(closed).toEqual(["engine 2"]);
  await starting;
});
