/** A user's own file as an environment: loaded, hosted in threads, and what goes wrong in it kept to one session. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Action, Environment } from "../../src/env/environment.ts";
import { openModule } from "../../src/env/module.ts";
import { openOffLoop } from "../../src/env/off-loop.ts";
import { AgentRLError } from "../../src/errors.ts";

const guess = fileURLToPath(new URL("./fixtures/guess.ts", import.meta.url));
const quit = (how: string): Action => ({ text: "", calls: [{ id: "q", name: "quit", arguments: { how } }] });
const say = (number: number): Action => ({ text: "", calls: [{ id: "g", name: "guess", arguments: { number } }] });

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-module-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("sessions in threads", () => {
  let environment: Environment;
  beforeAll(async () => {
    environment = await openOffLoop(guess, {}, { maxHeapMb: 64 });
  });
  afterAll(() => environment.close());

  it("answer as the environment does in this thread", async () => {
    const { environment: local } = await openModule(guess, {});
    expect(environment.split("eval")).toEqual(local.split("eval"));
    const action = environment.expert!("eval", 3, 1).act([]);
    const results = [];
    for (const each of [environment, local]) {
      const session = await each.start("eval", 3, 1);
      results.push([session.messages, await session.step(say(99)), await session.step(action)]);
      await session.close();
    }
    expect(results[0]).toEqual(results[1]);
    expect(results[0]![2]).toMatchObject({ done: true, reward: 1, metrics: { tries: 1, turns: 2, invalidCalls: 1 } });
  });

  it.each([
    ["stuck", /did not return within 2500 ms/],
    ["exit", /exit code 3/],
    ["memory", /memory/],
  ])("%s ends its own session alone, and this event loop never waits for it", async (how, why) => {
    const [bad, good] = await Promise.all([environment.start("train", 0, 1), environment.start("train", 1, 1)]);
    let beats = 0;
    const heart = setInterval(() => beats++, 20);
    const error = await bad.step(quit(how)).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    clearInterval(heart);
    expect(error).toBeInstanceOf(AgentRLError);
    expect(error).toMatchObject({ code: "ENVIRONMENT", message: expect.stringMatching(why) });
    if (how === "stuck") expect(beats).toBeGreaterThan(10);
    await bad.close();
    expect(await good.step(environment.expert!("train", 1, 1).act([]))).toMatchObject({ done: true, reward: 1 });
    await good.close();
    const again = await environment.start("train", 0, 1);
    expect(await again.step(environment.expert!("train", 0, 1).act([]))).toMatchObject({ done: true, reward: 1 });
    await again.close();
  });

  it("a handler that throws ends its episode as env error, its session's thread goes on", async () => {
    const session = await environment.start("train", 0, 1);
    expect(await session.step(quit("throw"))).toMatchObject({ done: true, reward: 0, endReason: "env error" });
    await session.close();
  });
});

describe("a file is refused by name", () => {
  it.each([
    ["missing.ts", undefined, "CONFIG", /does not exist/],
    ["empty.mjs", "export const a = 1;", "CONFIG", /no default export/],
    ["number.mjs", "export default 3;", "CONFIG", /got: +number/],
    ["shape.mjs", "export default { split() {}, level() {} };", "CONFIG", /an object without start, close/],
    ["throws.mjs", "throw new RangeError('not today');", "ENVIRONMENT", /RangeError: not today/],
    [
      "factory.mjs",
      "export default () => { throw new Error('no key'); };",
      "ENVIRONMENT",
      /default export threw[\s\S]*no key/,
    ],
    ["syntax.mjs", "export default {;", "ENVIRONMENT", /the file threw/],
  ])("%s", async (name, source, code, message) => {
    const file = join(folder, name);
    if (source !== undefined) writeFileSync(file, source);
    const error = await openModule(file, {}).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(AgentRLError);
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
  });

  it("options that it cannot use are refused too", async () => {
    await expect(openModule(guess, { data: "x.json" })).rejects.toThrow(/data has no effect/);
    await expect(openModule(guess, { settings: { greting: "x" } })).rejects.toThrow(/greting[\s\S]*settings greeting/);
    const { environment } = await openModule(guess, { settings: { greeting: "Find" } });
    expect((await environment.start("eval", 0, 0)).messages[0]!.content).toBe("Find a number from 1 to 9.");
  });
});
