import { describe, expect, it } from "vitest";
import { z } from "zod";
import { call, defineEnvironment } from "../../src/env/define-environment.ts";
import { longestObservation } from "../../src/env/observation.ts";

/** An environment as an untyped file may define it: its tool and its start give whatever they are told. */
function open(given: { reply?: unknown; start?: unknown }) {
  const begun = { state: {}, messages: [{ role: "user", content: "Go." }] };
  return defineEnvironment({
    name: "loose",
    tasks: { count: 3, generate: (index) => index },
    start: () => ("start" in given ? given.start : begun) as never,
    say: () => given.reply as never,
    tools: { act: { description: "Acts.", parameters: { n: z.int() }, run: () => given.reply as never } },
    reward: () => 1,
  }).open({});
}

const circle: { content?: unknown } = {};
circle.content = circle;
const actions = { "tool act": call("act", { n: 1 }), "a turn without a call": { text: "hm", calls: [] } };

describe.each(Object.entries(actions))("what %s gives", (where, action) => {
  it.each([
    ["a number", Number.NaN, "NaN"],
    ["nothing", undefined, "undefined"],
    ["null", null, "null"],
    ["an object without content", { text: "no" }, "undefined"],
    ["a function", { content: () => 1, done: true }, "content"],
    ["a circle", circle, "Circular"],
  ])("is a fault of the environment where it is %s", async (_, reply, got) => {
    const session = await (await open({ reply })).start("train", 0, 1);
    const { messages, ...end } = await session.step(action);
    expect(end).toMatchObject({ done: true, endReason: "env error", reward: 0 });
    expect(messages.at(-1)!.content).toMatch(/something that is no text/);
    expect(messages.at(-1)!.content).toContain(where);
    expect(messages.at(-1)!.content).toContain(got);
  });

  it("is cut off where it is longer than a context could hold, and says by how much", async () => {
    const session = await (await open({ reply: "x".repeat(longestObservation + 5) })).start("train", 0, 1);
    const { messages, done } = await session.step(action);
    expect(done).toBe(false);
    expect(messages[0]!.content).toBe(`${"x".repeat(longestObservation)}\n[5 more characters are not shown]`);
  });
});

describe("the first messages", () => {
  it.each([
    ["nothing at all", undefined],
    ["no list", { state: {}, messages: "Go." }],
    ["an unknown role", { state: {}, messages: [{ role: "boss", content: "Go." }] }],
    ["a content that is no text", { state: {}, messages: [{ role: "user", content: 5 }] }],
  ])("are refused where they are %s, by the task's name", async (_, start) => {
    const environment = await open({ start });
    await expect(environment.start("train", 2, 1)).rejects.toMatchObject({
      code: "ENVIRONMENT",
      detail: { where: "start of loose, train[2]" },
    });
  });
});
