import { expect, test } from "vitest";
import { z } from "zod";
import { defineTool } from "../../src/env/define.ts";
import type { Message } from "../../src/env/environment.ts";
import { type Outcome, ToolSession } from "../../src/env/tool-session.ts";

/** A session whose one tool fails on demand. */
class Probe extends ToolSession {
  readonly messages: Message[] = [];
  released = 0;

  constructor() {
    super([defineTool("probe", "Probes.", { fault: z.boolean() })], 3);
  }

  protected override taskMetrics(): Record<string, number> {
    return { level: 7 };
  }

  protected override call(_name: string, args: Record<string, unknown>): Outcome {
    if (args.fault === true) throw new TypeError("the engine broke");
    return { content: "fine" };
  }

  protected override say(text: string): Outcome {
    return text === "end" ? { content: "bye", reward: 1 } : { content: "call a tool" };
  }

  protected override release(): void {
    this.released++;
  }
}

const probe = (fault: boolean) => ({ text: "", calls: [{ id: "a", name: "probe", arguments: { fault } }] });

test("an engine fault ends the episode as env error, without reward, and says what broke", async () => {
  const session = new Probe();
  expect(await session.step(probe(false))).toEqual({
    messages: [{ role: "tool", content: "fine", toolCallId: "a", name: "probe" }],
    reward: 0,
    done: false,
    failedCalls: 0,
  });
  const result = await session.step(probe(true));
  expect(result).toMatchObject({ done: true, reward: 0, endReason: "env error", metrics: { level: 7, turns: 2 } });
  expect(result.messages.at(-1)!.content).toContain("the engine broke");
  await expect(session.step(probe(false))).rejects.toThrow(/done/);
});

test("a step says how many of its own calls were refused", async () => {
  const session = new Probe();
  const refused = { id: "b", name: "no such tool", arguments: {} };
  const turn = { text: "", calls: [...probe(false).calls, refused, refused] };
  expect(await session.step(turn)).toMatchObject({ done: false, failedCalls: 2 });
  expect(await session.step(probe(false))).toMatchObject({ done: false, failedCalls: 0 });
});

test("an end on the last turn counts, and closing twice releases once", async () => {
  const session = new Probe();
  await session.step(probe(false));
  await session.step({ text: "hm", calls: [] });
  expect(await session.step({ text: "end", calls: [] })).toMatchObject({
    done: true,
    reward: 1,
    endReason: "completed",
    metrics: { turns: 3, textTurns: 1, invalidCalls: 0, failedCalls: 0 },
  });
  await session.close();
  await session.close();
  expect(session.released).toBe(1);
});
