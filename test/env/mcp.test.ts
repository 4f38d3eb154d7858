/** The tools of real MCP servers, over stdio and over HTTP, as an environment. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Action, Environment } from "../../src/env/environment.ts";
import { call, defineMcpEnvironment, type McpServer } from "../../src/env/index.ts";
import { runScripted } from "../../src/env/scripted.ts";
import { failureOf } from "../failure.ts";

const server = fileURLToPath(new URL("./fixtures/notes-server.mjs", import.meta.url));
const stdio = { command: process.execPath, args: [server] };
const answer = (text: string): Action => ({ text, calls: [] });

const open = (where: McpServer, more: { callTimeoutMs?: number; tools?: string[] } = {}) =>
  defineMcpEnvironment({
    name: "notes",
    server: where,
    ...more,
    maxTurns: 4,
    tasks: ["milk", "bread", "tea", "salt", "figs"].map((text) => ({ text })),
    start: ({ text }) => [{ role: "user", content: `Write a note called shopping that says ${text}.` }],
    reward: async ({ task, calls, callTool }) => {
      expect(calls.length).toBeGreaterThan(0);
      return (await callTool("read_note", { name: "shopping" })).text === task.text ? 1 : 0;
    },
    expert: ({ text }, { turn }) =>
      turn === 0 ? call("write_note", { name: "shopping", text }) : answer("I wrote the note."),
  }).open({});

describe.each(["stdio", "http"])("over %s", (kind) => {
  let environment: Environment;
  let stop = () => {};
  beforeAll(async () => {
    let where: McpServer = stdio;
    if (kind === "http") {
      const child = spawn(process.execPath, [server, "--http"], { stdio: ["ignore", "pipe", "inherit"] });
      stop = () => child.kill();
      const [line] = (await once(child.stdout!, "data")) as [Buffer];
      where = { url: line.toString().trim() };
    }
    environment = await open(where, { callTimeoutMs: 2000 });
  });
  afterAll(async () => {
    await environment.close();
    stop();
  });

  it("offers the server's tools by their own schemas", () => {
    expect(environment.tools.map(({ name, description }) => [name, description])).toEqual([
      ["write_note", "Writes a note."],
      ["read_note", "Reads a note."],
      ["fail", "Fails."],
    ]);
    expect(environment.tools[0]!.jsonSchema).toMatchObject({
      type: "object",
      properties: { name: { type: "string", minLength: 1, description: "The note's name." }, text: { type: "string" } },
      required: ["name", "text"],
    });
  });

  it("the expert earns the user's reward, and sessions do not see each other's notes", async () => {
    expect(await runScripted(environment, { split: "train", policy: "expert" })).toMatchObject({
      success: 1,
      episodes: 4,
    });
    const [a, b] = await Promise.all([environment.start("train", 0, 1), environment.start("train", 0, 1)]);
    await a.step(call("write_note", { name: "shopping", text: "milk" }));
    expect((await b.step(call("read_note", { name: "shopping" }))).messages[0]!.content).toBe("no note shopping");
    expect(await a.step(answer("done"))).toMatchObject({ done: true, reward: 1 });
    expect(await b.step(answer("done"))).toMatchObject({ done: true, reward: 0 });
    await Promise.all([a.close(), b.close()]);
  });

  it("what is wrong in a call comes back in words, for each call of the turn", async () => {
    const session = await environment.start("train", 1, 1);
    const calls = [
      { id: "1", name: "write_note", arguments: { name: "" } },
      { id: "2", name: "write_note", arguments: { name: 3, text: "x" } },
      { id: "3", name: "delete_note", arguments: {} },
      { id: "4", name: "read_note", arguments: { name: "nothing" } },
      { id: "5", name: "fail", arguments: { how: "gently" } },
    ];
    const result = await session.step({ text: "", calls });
    expect(result.messages.map(({ toolCallId, content }) => [toolCallId, content])).toEqual([
      ["1", "Error: write_note: argument text: missing."],
      ["2", "Error: write_note: argument name: must be string."],
      ["3", 'Error: unknown tool "delete_note". Tools: write_note, read_note, fail.'],
      ["4", "no note nothing"],
      ["5", 'Error: fail: argument how: expected one of ["crash","hang"].'],
    ]);
    expect(result).toMatchObject({ done: false, failedCalls: 5 });
    await session.close();
  });
});

describe("a server that fails", () => {
  it("by a crash is a fault with what it said last, and the next session has a fresh one", async () => {
    const environment = await open(stdio);
    const session = await environment.start("train", 0, 1);
    const result = await session.step(call("fail", { how: "crash" }));
    expect(result).toMatchObject({ done: true, reward: 0, endReason: "env error" });
    expect(result.messages.at(-1)!.content).toMatch(/MCP server fails in fail[\s\S]*on stderr: out of paper/);
    await session.close();
    const next = await environment.start("train", 0, 1);
    expect(await next.step(call("write_note", { name: "n", text: "t" }))).toMatchObject({ done: false });
    await next.close();
    await environment.close();
  });

  it("by hanging is a fault after its time", async () => {
    const environment = await open(stdio, { callTimeoutMs: 3_000 });
    const session = await environment.start("train", 0, 1);
    const result = await session.step(call("fail", { how: "hang" }));
    expect(result).toMatchObject({ done: true, endReason: "env error" });
    expect(result.messages.at(-1)!.content).toMatch(/timed out[\s\S]*within 3000 ms/);
    await session.close();
  });

  it("at its start, or that is not there, or lacks a tool, is told with its command", async () => {
    const broken = await failureOf(Promise.resolve(open({ command: process.execPath, args: [server, "--broken"] })));
    expect(broken).toMatchObject({ code: "ENVIRONMENT" });
    expect(broken.message).toMatch(/does not start[\s\S]*--broken[\s\S]*cannot find my paper/);
    const absent = await failureOf(Promise.resolve(open({ command: "no-such-mcp-server" })));
    expect(absent.message).toMatch(/no-such-mcp-server[\s\S]*ENOENT/);
    const refused = await failureOf(Promise.resolve(open({ url: "http://127.0.0.1:1/mcp" })));
    expect(refused.code).toBe("ENVIRONMENT");
    const lacking = await failureOf(Promise.resolve(open(stdio, { tools: ["read_note", "burn_note"] })));
    expect(lacking.detail).toMatchObject({ got: "write_note, read_note, fail", expected: "burn_note" });
  });
});
