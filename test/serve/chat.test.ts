/** `agentrl chat` and `agentrl serve` as processes of their own, driven through their pipes. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { openEnvironment } from "../../src/pipeline/environments.ts";
import { actionOf, formatCall } from "../../src/serve/play.ts";
import { inProcess } from "../cli/in-process.ts";
import { tiny } from "./support.ts";

const bin = fileURLToPath(new URL("../../bin/agentrl.js", import.meta.url));

function start(...args: string[]) {
  const child = spawn(process.execPath, [bin, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  let said = "";
  const listeners: (() => void)[] = [];
  child.stdout.on("data", (text) => {
    said += text;
    for (const listen of listeners) listen();
  });
  const ended = once(child, "close").then(([code]) => ({ code, said }));
  /** When the output matches. */
  const hears = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve) => {
      const look = () => {
        const found = pattern.exec(said);
        if (found !== null) resolve(found);
      };
      listeners.push(look);
      look();
    });
  return { child, ended, hears };
}

describe("agentrl chat --task", () => {
  it("shows a model's episode turn by turn to its reward, and ends while its input is open", async () => {
    const { child, ended, hears } = start("chat", tiny, "--task", "kg", "--level", "1", "--threads", "1");
    await hears(/user: .*\n/);
    child.stdin.write("\n\n\n\n\n\n\n\n");
    const { code, said } = await ended;
    expect(code).toBe(0);
    expect(said).toMatch(/call: get_relations \{"variable":"Kyoto"\}\nget_relations: \[/);
    expect(said).toMatch(/\nreward 1 \(completed\)\n$/);
  });

  it("is played by a person who knows the expert's calls; what is mistyped is said", async () => {
    const environment = await openEnvironment({ name: "kg", options: { prompt: "brief" } });
    const index = environment.split("eval").indices[0]!;
    const session = await environment.start("eval", index, 1);
    const expert = environment.expert!("eval", index, 1);
    const messages = [...session.messages];
    const lines = ["", "get_relations {oops}"];
    for (let done = false; !done; ) {
      const action = expert.act(messages);
      expect(action.calls.length).toBeLessThanOrEqual(1);
      lines.push(action.calls[0] === undefined ? action.text : formatCall(action.calls[0]));
      const result = await session.step(action);
      messages.push(...result.messages);
      done = result.done;
    }
    await session.close();
    await environment.close();

    const { child, ended } = start("chat", "--task", "kg", "--play");
    child.stdin.end(`${lines.join("\n")}\n`);
    const { code, said } = await ended;
    expect(code).toBe(0);
    expect(said).toContain("The arguments of get_relations are no JSON object");
    expect(said).toMatch(/\nreward 1 \(completed\)\n$/);
  });
});

describe("agentrl chat", () => {
  it("answers line by line, begins anew, and ends at the input's end", async () => {
    const options = ["--threads", "1", "--max-tokens", "6", "--temperature", "0"];
    const { child, ended } = start("chat", tiny, "--system", "Be brief.", ...options);
    child.stdin.end("hello\nhello\n/reset\nhello\n/what\n");
    const { code, said } = await ended;
    expect(code).toBe(0);
    const [first, second, third] = said
      .split("> hello\n")
      .slice(1)
      .map((part) => part.split("> ")[0]!);
    expect(first).toMatch(/\S/);
    // The same answer in a new conversation, and another where there was one before.
    expect(third).toBe(first);
    expect(second).not.toBe(first);
    expect(said).toContain("/what is no command");
  });

  it.each([
    [[tiny, "--play"], "--play has no effect without --task"],
    [[tiny, "--level", "1"], "--level has no effect without --task"],
    [[tiny, "--task", "kg", "--system", "x"], "--system has no effect with --task"],
    [[tiny, "--task", "kg", "--play"], "A model has no part"],
    [["--task", "kg", "--play", "--temperature", "1"], "--temperature has no effect with --play"],
    [["--task", "kg"], "No model is given"],
    [["--task", "kg", "--play", "--index", "9999999"], "There is no such task"],
    [["--task", "kg", "--play", "--level", "99"], "There is no such task"],
    [["expert"], "This is no model"],
  ])("%j is refused", async (args, why) => {
    const { code, stderr } = await inProcess("chat", ...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(why)]);
  });
});

describe("a typed turn", () => {
  const environment = { tools: [{ name: "f", description: "", parameters: undefined as never }] };

  it("is a call of a tool that there is, or text", () => {
    expect(actionOf('f {"a": [1]}', environment)).toEqual({
      text: "",
      calls: [{ id: "0", name: "f", arguments: { a: [1] } }],
    });
    expect(actionOf(" f ", environment)).toEqual({ text: "", calls: [{ id: "0", name: "f", arguments: {} }] });
    expect(actionOf("Final Answer: #0", environment)).toEqual({ text: "Final Answer: #0", calls: [] });
    expect(actionOf("", environment)).toMatch(/^Type a call/);
  });
});

describe("agentrl serve", () => {
  it("serves until it is told to stop, and ends well", async () => {
    const { child, ended, hears } = start("serve", tiny, "--port", "0", "--threads", "1", "--context", "256");
    const [, url] = await hears(/tiny on (http:\S+) \(context 256, 8 answers at once\)/);
    const body = JSON.stringify({ model: "tiny", messages: [{ role: "user", content: "hi" }], max_tokens: 3 });
    const answer = await fetch(`${url}/chat/completions`, { method: "POST", body });
    expect(await answer.json()).toMatchObject({ usage: { completion_tokens: 3 } });
    child.kill("SIGTERM");
    expect(await ended).toMatchObject({ code: 0, said: expect.stringContaining("stopping") });
  });

  it("is not opened to other machines without a key", async () => {
    const { code, stderr } = await inProcess("serve", tiny, "--host", "0.0.0.0");
    expect([code, stderr]).toEqual([2, expect.stringContaining("without a key")]);
    const unset = await inProcess("serve", tiny, "--api-key-env", "NO_SUCH_KEY");
    expect([unset.code, unset.stderr]).toEqual([2, expect.stringContaining("NO_SUCH_KEY")]);
  });
});
