/** Evaluations against a real endpoint and a user's real environment: what is counted, retried, written and resumed. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { serveController } from "../../src/env/controller/serve.ts";
import { type EvalReport, successOf } from "../../src/env/report.ts";
import { runWorker } from "../../src/env/worker/serve.ts";
import type { EvaluatedEpisode, PlayedEpisode } from "../../src/pipeline/eval-episodes.ts";
import { type EvaluationOptions, runEvaluation } from "../../src/pipeline/evaluate.ts";
import { retryAfter } from "../../src/policy/endpoint.ts";
import { inProcess } from "../cli/in-process.ts";
import { failureOf } from "../failure.ts";
import { type ChatRequest, type Reply, startEndpoint, type TestEndpoint } from "./eval-endpoint.ts";

const guess = fileURLToPath(new URL("../env/fixtures/guess.ts", import.meta.url));
const unwell = fileURLToPath(new URL("../fixtures/unwell.ts", import.meta.url));
const tiny = fileURLToPath(new URL("../../models/tiny", import.meta.url));
const bin = fileURLToPath(new URL("../../bin/agentrl.js", import.meta.url));
let folder: string;
const open: TestEndpoint[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-eval-"));
});
afterEach(() => Promise.all(open.splice(0).map((endpoint) => endpoint.close())));
afterAll(() => rmSync(folder, { recursive: true }));

async function endpoint(answer: (body: ChatRequest, number: number) => Reply | Promise<Reply>): Promise<TestEndpoint> {
  const started = await startEndpoint(answer);
  open.push(started);
  return started;
}

/** Halving: a policy that needs no luck, at most four guesses for nine numbers. */
function halving({ messages }: ChatRequest): Reply {
  let [low, high] = [1, 9];
  for (const [at, { role, content }] of messages.entries()) {
    if (role !== "tool") continue;
    const number = JSON.parse(messages[at - 1]!.tool_calls![0]!.function.arguments).number as number;
    if (content === "higher") low = number + 1;
    if (content === "lower") high = number - 1;
  }
  return { calls: [{ name: "guess", arguments: JSON.stringify({ number: Math.floor((low + high) / 2) }) }] };
}

function evaluate(policy: string | string[], more: Partial<EvaluationOptions> = {}): Promise<EvalReport> {
  // Each session in progress has a thread of its own, which takes a second of work to start.
  return runEvaluation({ task: guess, policy, seed: 1, concurrency: 1, ...more });
}

const lines = (file: string) =>
  readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe("an endpoint", () => {
  it("plays whole episodes; the transcript and the requests hold what was said", async () => {
    const { url, requests } = await endpoint(halving);
    const out = join(folder, "halving.jsonl");
    const report = await evaluate(`${url}#m`, { out, apiKeys: ["secret"], temperature: 0.5, maxTokensPerTurn: 77 });
    expect(report).toMatchObject({ episodes: 10, success: 1, meanReward: 1, endReasons: { completed: 10 } });
    expect(requests[0]).toMatchObject({
      authorization: "Bearer secret",
      body: { model: "m", temperature: 0.5, max_tokens: 77 },
    });
    expect(requests[0]!.body.tools!.map((tool) => tool.function.name)).toEqual(["guess", "quit"]);
    expect(requests[0]!.body.messages).toEqual([{ role: "user", content: "Guess a number from 1 to 9." }]);

    const [header, ...episodes] = lines(out) as [Record<string, unknown>, ...PlayedEpisode[]];
    expect(header).toMatchObject({ type: "evaluation", settings: { split: "eval", tasks: 10, policy: `${url}#m` } });
    expect(readFileSync(out, "utf8")).not.toContain("secret");
    expect(episodes.map(({ index }) => index).sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for (const { messages, turns } of episodes) {
      expect(messages).toHaveLength(1 + 2 * turns);
      expect(messages.at(-1)).toMatchObject({ role: "tool", content: "right", name: "guess", toolCallId: "call_0" });
    }
  });

  it("reads why a call was refused: no JSON, no object, wrong type, unknown tool, beside a call that is carried out", async () => {
    const seen: string[][] = [];
    const { url } = await endpoint((body, number) => {
      if (number === 0) {
        const bad = ["{number: 3}", "[3]", '{"number":"three"}', '{"number":3}'];
        // One id for all: the answers must still be told apart.
        return {
          calls: [...bad.map((args) => ({ id: "x", name: "guess", arguments: args })), { name: "gess", arguments: "" }],
        };
      }
      seen.push(body.messages.filter(({ role }) => role === "tool").map(({ content }) => content));
      expect(new Set(body.messages.at(1)!.tool_calls!.map(({ id }) => id)).size).toBe(5);
      return halving({ ...body, messages: body.messages.slice(0, 1) });
    });
    const report = await evaluate(`${url}#m`, { episodes: 1 });
    expect(seen[0]).toEqual([
      'Error: guess: the arguments are not a JSON object: "{number: 3}".',
      'Error: guess: the arguments are not a JSON object: "[3]".',
      "Error: guess: argument number: Invalid input: expected number, received string.",
      expect.stringMatching(/^(higher|lower)$/),
      'Error: unknown tool "gess". Tools: guess, quit.',
    ]);
    expect(report.episodes).toBe(1);
  });

  it("that is overloaded is asked again, when it says", async () => {
    const failures: Reply[] = [
      { status: 429, headers: { "retry-after": "0.4" } },
      { status: 503 },
      { status: 200, text: "<html>" },
    ];
    const { url, requests } = await endpoint((body, number) => failures[number] ?? halving(body));
    expect(await evaluate(`${url}#m`, { episodes: 1 })).toMatchObject({ success: 1 });
    expect(requests[1]!.at - requests[0]!.at).toBeGreaterThan(390);
    // The same question each time.
    expect(requests[3]!.body).toEqual(requests[0]!.body);
  });

  it("ends an episode at its limits, and the evaluation when it refuses", async () => {
    const { url } = await endpoint(({ model }) => {
      if (model === "long") return { content: "I think", finish: "length" };
      if (model === "full") return { status: 400, text: '{"error":{"code":"context_length_exceeded"}}' };
      return { status: 401, text: "no such key" };
    });
    expect(await evaluate(`${url}#long`)).toMatchObject({ success: 0, endReasons: { "length limit": 10 } });
    expect(await evaluate(`${url}#full`)).toMatchObject({ success: 0, endReasons: { "context limit": 10 } });
    const error = await failureOf(evaluate(`${url}#locked`));
    expect(error.message).toMatch(/HTTP 401: no such key/);
  });

  it("several take turns by a seeded draw, the same whatever the order of episodes", async () => {
    const { url } = await endpoint(halving);
    const play = async (name: string, concurrency: number) => {
      const out = join(folder, `${name}.jsonl`);
      await evaluate([`${url}#a`, `${url}#b`], { out, concurrency, runs: 2 });
      const episodes = lines(out).slice(1) as unknown as PlayedEpisode[];
      return new Map(episodes.map(({ run, index, policies }) => [`${run}/${index}`, policies!]));
    };
    const first = await play("mixed-1", 1);
    expect(await play("mixed-7", 7)).toEqual(first);
    const turns = [...first.values()].flat();
    const share = turns.filter((name) => name.endsWith("#a")).length / turns.length;
    // Some 50 fair draws: five standard errors.
    expect(Math.abs(share - 0.5)).toBeLessThan(0.35);
    expect([...first.values()].some((policies) => new Set(policies).size === 2)).toBe(true);
  });
});

describe("a broken environment", () => {
  it("costs the episode another try, and is no reward when it fails in all", async () => {
    let hung = 0;
    const { url } = await endpoint(({ messages }, number) => {
      const how = number === 0 ? "stuck" : number === 1 ? "exit" : undefined;
      if (how !== undefined) hung++;
      if (how !== undefined) return { calls: [{ name: "quit", arguments: JSON.stringify({ how }) }] };
      return halving({ messages } as ChatRequest);
    });
    const out = join(folder, "hung.jsonl");
    const report = await evaluate(`${url}#m`, { out, concurrency: 1, episodes: 3 });
    expect(hung).toBe(2);
    expect(report).toMatchObject({ episodes: 3, success: 1 });
    expect(report.faults).toBeUndefined();
    expect(lines(out)[1]).toMatchObject({ index: 0, retries: 2, reward: 1 });
  });

  it("is reported apart from the rewards; resuming plays those episodes again", async () => {
    let broken = true;
    // Both tries of the first task ask the same question, with the same seed.
    let firstSeed: number | undefined;
    const { url } = await endpoint((body) => {
      firstSeed ??= body.seed;
      if (broken && body.seed === firstSeed) return { calls: [{ name: "quit", arguments: '{"how":"throw"}' }] };
      return halving(body);
    });
    const out = join(folder, "faults.jsonl");
    const options = { out, concurrency: 1, episodes: 3, tries: 2 };
    const report = await evaluate(`${url}#m`, options);
    expect(report).toMatchObject({ episodes: 2, success: 1, meanReward: 1, faults: 1 });
    expect(report.faultCauses).toEqual([{ cause: expect.stringContaining("the handler broke"), episodes: 1 }]);
    expect(lines(out)[1]).toMatchObject({
      type: "fault",
      index: 0,
      tries: 2,
      error: expect.stringContaining("the handler broke"),
    });
    broken = false;
    const again = await evaluate(`${url}#m`, { ...options, resume: true });
    expect(again).toMatchObject({ episodes: 3, success: 1 });
    expect(again.faults).toBeUndefined();
  });

  it("that plays no episode is an error of the command, with its causes; no success of 0 is reported", async () => {
    const json = join(folder, "unwell.json");
    const { code, stdout, stderr } = await inProcess(
      ...["eval", "--task", unwell, "--setting", "of=1", "--policy", "random", "--episodes", "4", "--tries", "1"],
      ...["--json", json],
    );
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /unwell: no episode could be played[\s\S]*not counted: 4 episodes[\s\S]* 4 × .*no way to begin/,
    );
    expect(stderr).toMatch(/No episode of unwell could be played[\s\S]*4 × .*no way to begin/);
    const report = JSON.parse(readFileSync(json, "utf8")) as EvalReport;
    expect(report).toMatchObject({ episodes: 0, success: null, meanReward: null, faults: 4 });
    expect(() => successOf(report)).toThrow(/no way to begin/);
  });

  it("that never works ends the evaluation with its cause", async () => {
    const { url } = await endpoint(() => ({ calls: [{ name: "quit", arguments: '{"how":"throw"}' }] }));
    const error = await failureOf(evaluate(`${url}#m`, { tries: 1 }));
    expect(error.message).toMatch(/failed 10 episodes in a row[\s\S]*the handler broke/);
  });
});

describe("a saved evaluation", () => {
  it("is resumed without playing an episode twice, a torn last line aside; other settings are refused", async () => {
    const out = join(folder, "resumed.jsonl");
    const { url, requests } = await endpoint(halving);
    const whole = await evaluate(`${url}#m`, { out, runs: 2 });
    const asked = requests.length;
    expect(await evaluate(`${url}#m`, { out, runs: 2, resume: true })).toEqual(whole);
    expect(requests.length).toBe(asked);

    // The last line is cut in the middle, as a killed process leaves it.
    const last = readFileSync(out, "utf8").trimEnd().split("\n").at(-1)!;
    truncateSync(out, readFileSync(out).length - 20);
    expect(await evaluate(`${url}#m`, { out, runs: 2, resume: true })).toEqual(whole);
    const strip = ({ seconds, ...rest }: Record<string, unknown>) => rest;
    expect(strip(lines(out).at(-1)!)).toEqual(strip(JSON.parse(last)));

    expect((await failureOf(evaluate(`${url}#m`, { out, runs: 2 }))).message).toContain("exists already");
    const other = await failureOf(evaluate(`${url}#m`, { out, runs: 3, seed: 2, resume: true }));
    expect(other.detail).toMatchObject({ got: "seed 2, runs 3", expected: "seed 1, runs 2" });
    appendFileSync(out, "{}\n");
    expect((await failureOf(evaluate(`${url}#m`, { out, runs: 2, resume: true }))).message).toContain(
      "not one of an evaluation",
    );
  });

  it("survives kill -9 in the middle: the resumed report is the uninterrupted one", async () => {
    const [halfway, reachHalfway] = event();
    const [killed, tellKilled] = event();
    const { url, requests } = await endpoint(async (body, number) => {
      // In the middle of the evaluation the server keeps silent until its client is dead.
      if (number === 25) reachHalfway();
      if (number >= 25) await killed;
      return halving(body);
    });
    const out = join(folder, "killed.jsonl");
    const json = join(folder, "killed.json");
    const args = ["eval", "--task", guess, "--policy", `${url}#m`, "--runs", "2", "--concurrency", "2", "--out", out];
    const child = spawn(process.execPath, [bin, ...args], { stdio: "ignore" });
    await halfway;
    child.kill("SIGKILL");
    await once(child, "exit");
    tellKilled();
    const before = lines(out).length - 1;
    expect(before).toBeGreaterThan(3);
    expect(before).toBeLessThan(20);
    const finished = new Set(
      lines(out)
        .slice(1)
        .map(({ run, index }) => `${run}/${index}`),
    );

    const asked = requests.length;
    expect(
      await exitCode(spawn(process.execPath, [bin, ...args, "--resume", "--json", json], { stdio: "ignore" })),
    ).toBe(0);
    expect(
      lines(out)
        .slice(1, 1 + before)
        .map(({ run, index }) => `${run}/${index}`),
    ).toEqual([...finished]);
    expect(
      new Set(
        lines(out)
          .slice(1)
          .map(({ run, index }) => `${run}/${index}`),
      ).size,
    ).toBe(20);
    expect(lines(out)).toHaveLength(21);
    const turnsLeft = (lines(out).slice(1 + before) as unknown as PlayedEpisode[]).reduce(
      (sum, { turns }) => sum + turns,
      0,
    );
    expect(requests.length - asked).toBe(turnsLeft);

    const uninterrupted = await evaluate(`${url}#m`, { runs: 2 });
    expect(JSON.parse(readFileSync(json, "utf8"))).toEqual(uninterrupted);
  });
});

describe("a controller's workers", () => {
  it("are played on by a model as the environment in this process is: the same transcripts, the same rewards", async () => {
    const { url, controller, close } = await serveController({ host: "127.0.0.1", port: 0, version: "test" });
    const worker = await runWorker({
      name: "kg-std",
      task: { environment: "kg", options: { prompt: "brief" }, split: "eval" },
      controller: `${url}/api`,
      host: "127.0.0.1",
      port: 0,
      concurrency: 4,
      processes: 1,
      hostModule: new URL("../../src/cli/worker-host.ts", import.meta.url),
      stepTimeoutMs: 30_000,
    });
    try {
      const play = async (name: string, more: Partial<EvaluationOptions>) => {
        const out = join(folder, `${name}.jsonl`);
        const report = await evaluate(tiny, { out, concurrency: 4, episodes: 12, ...more });
        const episodes = lines(out).slice(1) as unknown as PlayedEpisode[];
        return { report, said: new Map(episodes.map(({ index, reward, messages }) => [index, { reward, messages }])) };
      };
      const here = await play("here", { task: "kg" });
      // The worker has told the controller of itself.
      while ([...controller.registry.tasks()].length === 0) await new Promise((resolve) => setImmediate(resolve));
      const there = await play("there", { task: "kg-std", controller: { url } });
      expect(there.report).toMatchObject({ task: "kg-std", success: here.report.success, levels: here.report.levels });
      expect(there.report).not.toHaveProperty("split");
      expect(there.report.endReasons).toEqual(here.report.endReasons);
      expect(there.said).toEqual(here.said);
      // The model knows the task, so that what is compared is not twelve failures.
      expect(here.report.success).toBeGreaterThan(0.3);
      expect(here.said.size).toBe(12);

      // The header says of the tasks what the wire tells, and no more; the levels are the worker's.
      const out = join(folder, "there.jsonl");
      const [header] = lines(out) as unknown as [{ settings: Record<string, unknown> }];
      expect(Object.keys(header.settings).sort()).toEqual(
        ["controller", "indicesHash", "model", "policy", "runs", "seed", "task", "tasks"].sort(),
      );
      expect(header.settings).toMatchObject({ task: "kg-std", controller: url, tasks: 12 });

      // Killed in the middle of its sixth episode, and resumed: the rest is played, and all is as before.
      const whole = readFileSync(out, "utf8").split("\n");
      writeFileSync(out, `${whole.slice(0, 6).join("\n")}\n${whole[6]!.slice(0, 40)}`);
      const resumed = await play("there", { task: "kg-std", controller: { url }, resume: true });
      expect(resumed.said).toEqual(here.said);
      expect(resumed.report).toEqual(there.report);
      expect(readFileSync(out, "utf8").startsWith(`${whole.slice(0, 6).join("\n")}\n`)).toBe(true);
    } finally {
      await worker.close();
      await close();
    }
  });
});

describe("the command line", () => {
  it("prints runs, spread, interval, pass@k; keys come from a variable", async () => {
    const { url, requests } = await endpoint(halving);
    vi.stubEnv("MY_KEY", "k");
    const { code, stdout } = await inProcess(
      ...["eval", "--task", guess, "--policy", `${url}#m`, "--runs", "3", "--api-key-env", "MY_KEY"],
      ...["--setting", "greeting=Find", "--concurrency", "2"],
    );
    vi.unstubAllEnvs();
    expect(code).toBe(0);
    expect(stdout).toContain("100.0 % of 30 episodes succeeded (mean reward 1.000)");
    expect(stdout).toContain("3 runs: 1.000, 1.000, 1.000 (standard deviation 0.000)");
    expect(stdout).toContain("pass@1 100.0 %  pass@2 100.0 %  pass@3 100.0 %");
    expect(requests[0]).toMatchObject({
      authorization: "Bearer k",
      body: { messages: [{ content: "Find a number from 1 to 9." }] },
    });
  });
});

describe("progress", () => {
  it("tells each episode once, with how many are done", async () => {
    const seen: [EvaluatedEpisode["type"], number, number][] = [];
    await evaluate("expert", { episodes: 4, onEpisode: (episode, done, of) => seen.push([episode.type, done, of]) });
    expect(seen).toEqual([1, 2, 3, 4].map((done) => ["episode", done, 4]));
  });
});

it("Retry-After is seconds or a date (RFC 9110, 10.2.3)", () => {
  const now = Date.parse("Wed, 21 Oct 2015 07:28:00 GMT");
  expect(retryAfter("120", now)).toBe(120_000);
  expect(retryAfter("Wed, 21 Oct 2015 07:28:30 GMT", now)).toBe(30_000);
  expect(retryAfter("Wed, 21 Oct 2015 07:27:00 GMT", now)).toBe(0);
  expect(retryAfter("soon", now)).toBeUndefined();
  expect(retryAfter(null, now)).toBeUndefined();
});

function event(): [happened: Promise<void>, happen: () => void] {
  let happen!: () => void;
  const happened = new Promise<void>((resolve) => {
    happen = resolve;
  });
  return [happened, happen];
}

async function exitCode(child: ChildProcess): Promise<number | null> {
  const [code] = (await once(child, "exit")) as [number | null];
  return code;
}
