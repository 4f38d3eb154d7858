import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { type Comparison, compare } from "../../../envs/os/check.ts";
import { createOs, osTasks } from "../../../envs/os/index.ts";
import { loadSamples } from "../../../envs/os/load.ts";
import { promptMessages } from "../../../envs/os/task.ts";
import type { Action, Environment, ToolCall } from "../../../src/env/environment.ts";
import type { EnvironmentOptions } from "../../../src/env/registry.ts";
import { runScripted } from "../../../src/env/scripted.ts";
import { TaskSource } from "../../../src/env/task-source.ts";
import { dataFile } from "../../env/support.ts";
import { canUseNamespaces } from "./engines.ts";

const env = createOs({ prompt: "brief" });
afterAll(() => env.close());

const call = (name: string, args: unknown): Action => ({
  text: "",
  calls: [{ id: "0", name, arguments: args } as ToolCall],
});

test("an engine that could not be started is started anew by the next session", async () => {
  const folder = mkdtempSync(join(tmpdir(), "agentrl-test-"));
  const socket = join(folder, "docker.sock");
  const os = createOs({ engine: "container", endpoint: socket, settings: { image: "none" } });
  await expect(os.start("eval", 0, 0)).rejects.toThrow("the container service does not answer");
  // A service that answers, and has no images.
  const service = createServer((request, response) => {
    response.writeHead(request.url!.endsWith("/_ping") ? 200 : 404, { "content-type": "application/json" });
    response.end("{}");
  });
  await once(service.listen(socket), "listening");
  await expect(os.start("eval", 0, 0)).rejects.toThrow("the container service does not have this image");
  await os.close();
  service.close();
  service.closeAllConnections();
  rmSync(folder, { recursive: true });
});

describe("generated tasks", () => {
  test("the splits are the frozen ones, and no task of eval is in train", () => {
    const evalKeys = new Set([...new TaskSource({ ...osTasks, samples: undefined }).tasks("eval")].map(osTasks.key));
    expect(env.split("eval").indices).toHaveLength(200);
    const train = new TaskSource({ ...osTasks, samples: undefined });
    for (const task of train.tasks("train")) expect(evalKeys.has(osTasks.key(task))).toBe(false);
  });

  test("the expert solves them, a random policy does not", async () => {
    const report = await runScripted(env, { split: "eval", policy: "expert", episodes: 100 });
    expect(report).toMatchObject({ successes: 100, episodes: 100 });
    expect(Object.keys(report.levels!)).toEqual(["1", "2", "3", "4", "5"]);
    expect((await runScripted(env, { split: "eval", policy: "random", episodes: 100 })).success).toBeLessThan(0.1);
  });

  test("the machine's answer is the generator's", async () => {
    const source = new TaskSource({ ...osTasks, samples: undefined });
    for (const index of env.split("eval").indices.slice(0, 100)) {
      const { judge, example } = source.task("eval", index);
      if (!("match" in judge)) continue;
      const session = await env.start("eval", index, 0);
      const { messages } = await session.step(call("bash_action", { script: example! }));
      expect([index, messages[0]!.content]).toEqual([index, judge.match]);
      await session.close();
    }
  });

  test("a wrong answer and an order not carried out earn nothing", async () => {
    const answered = await env.start("eval", 0, 0);
    expect(await answered.step(call("answer_action", { answer: "77" }))).toMatchObject({ done: true, reward: 0 });
    const order = await env.start("eval", 4, 0);
    expect(await order.step(call("finish_action", { thought: "" }))).toMatchObject({
      reward: 0,
      endReason: "completed",
    });
  });

  test("prompts are short", () => {
    const source = new TaskSource({ ...osTasks, samples: undefined });
    for (const index of env.split("eval").indices) {
      const text = promptMessages(source.task("eval", index), "brief")
        .map(({ content }) => content)
        .join(" ");
      expect(text.length).toBeLessThan(80);
    }
  });
});

describe("a session", () => {
  test("shows output cut at 800 characters, refuses a script of 100 MB, and says when there is nothing", async () => {
    const session = await env.start("eval", 0, 0);
    const long = await session.step(call("bash_action", { script: "printf 'x%.0s' {1..3000}" }));
    expect(long.messages[0]!.content).toBe(`${"x".repeat(800)}\n[cut: the output is too long]`);
    const huge = await session.step(call("bash_action", { script: `echo ${"a".repeat(100 << 20)}` }));
    expect(huge.messages[0]!.content).toMatch(/^The script has \d+ characters; at most 65536/);
    expect(huge).toMatchObject({ done: false, failedCalls: 1 });
    expect((await session.step(call("bash_action", { script: "true" }))).messages[0]!.content).toBe("(no output)");
    expect((await session.step({ text: "hello", calls: [] })).messages[0]!.content).toMatch(/^No tool call/);
    await session.close();
  });

  test("any call leaves it standing, within its turns", async () => {
    const name = fc.constantFrom("bash_action", "answer_action", "finish_action", "other");
    const script = fc.oneof(
      fc.string(),
      fc.constantFrom("ls ~", "cd /nowhere", "((", "exit 3", "unset PATH", "$(", "'"),
    );
    const args = fc.oneof(
      fc.record({ script }),
      fc.record({ answer: fc.string() }),
      fc.constant({}),
      fc.constant(null),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(name, args), { minLength: 1, maxLength: 10 }), async (calls) => {
        const session = await env.start("eval", 1, 0);
        for (const [tool, argument] of calls) {
          const result = await session.step(call(tool, argument));
          expect(result.reward).toBeGreaterThanOrEqual(0);
          expect(result.messages.length).toBeGreaterThan(0);
          if (result.done) {
            expect(result.endReason).toMatch(/completed|turn limit/);
            break;
          }
        }
        await session.close();
      }),
      { numRuns: 20 },
    );
  });
});

test("comparisons, as AgentBench's programs make them", () => {
  const cases: [Comparison, string, string, boolean][] = [
    ["integer-match", " 5\n", "5", true],
    ["integer-match", "05", "5", true],
    ["integer-match", "5.0", "5", false],
    ["integer-match", "five", "5", false],
    ["integer-match", "1_000", "1000", true],
    ["integer-match", "123456789012345678901", "123456789012345678902", false],
    ["string-match", "a\r\nb", "a\nb\n", true],
    ["string-match", "A", "a", false],
    ["size-match", "1K", "1024", true],
    ["size-match", "2MB", "2048K", true],
    ["size-match", "big", "1", false],
    ["containing", "the answer is 7", "7", true],
    ["containing", "7", "the answer is 7", false],
    ["in", "7", "one of 6, 7", true],
  ];
  for (const [name, answer, expected, passes] of cases)
    expect([name, answer, compare(name, answer, expected)]).toEqual([name, answer, passes]);
});

describe("AgentBench's files", () => {
  /** Samples of each way to judge: by an oracle's output, by a text of the file, by scripts alone. */
  function byJudge(path: string): Record<"oracle" | "text" | "scripts", number[]> {
    const groups = { oracle: [] as number[], text: [] as number[], scripts: [] as number[] };
    for (const [index, { judge }] of loadSamples(path).entries()) {
      groups["match" in judge ? "text" : judge.check.includes(null) ? "oracle" : "scripts"].push(index);
    }
    return groups;
  }

  /** Those samples that the expert does not solve. */
  async function failures(environment: Environment, indices: readonly number[]): Promise<number[]> {
    const failed: number[] = [];
    for (const index of indices) {
      let won = 0;
      const session = await environment.start("data", index, 0);
      const expert = environment.expert!("data", index, 0);
      const messages = [...session.messages];
      for (let done = false; !done; ) {
        const result = await session.step(expert.act(messages));
        messages.push(...result.messages);
        done = result.done;
        won += result.reward;
      }
      await session.close();
      if (won < 1) failed.push(index);
    }
    return failed;
  }

  const std = dataFile("agentbench", "os", "std");
  test.runIf(std)("std: the expert on an embedded machine, by the README's table", async () => {
    const { oracle, text, scripts } = byJudge(std!);
    expect(oracle).toHaveLength(123);
    expect(text).toEqual([21, 22, 23, 24, 25, 35, 36, 47, 48]);
    expect(scripts).toEqual([11, 34, 37, 38, 39, 49, 50, 51, 52, 53, 54, 55]);
    const environment = createOs({ data: std! });
    const failed = await failures(environment, [...oracle, ...text, ...scripts]);
    await environment.close();
    // No file owners in memory: 49, 54. No network to install sudo from: 52, 53, 55.
    expect(failed).toEqual([49, 52, 53, 54, 55]);
  });

  const training = dataFile("agentbench", "os", "training.json");
  test.runIf(training)("training: the first forty, embedded", async () => {
    const environment = createOs({ data: training! });
    const failed = await failures(environment, byJudge(training!).oracle.slice(0, 40));
    await environment.close();
    expect(failed).toEqual([]);
  });

  test.runIf(std !== undefined && canUseNamespaces())("std: twenty in namespaces", async () => {
    const environment = createOs({ data: std!, engine: "namespace" });
    const failed = await failures(environment, byJudge(std!).oracle.slice(0, 20));
    await environment.close();
    expect(failed).toEqual([]);
  });

  test("scripts named by file are read from the folder of scripts; one that is missing is a fault, not a reward", async () => {
    const folder = mkdtempSync(join(tmpdir(), "agentrl-os-"));
    try {
      mkdirSync(join(folder, "data", "9"), { recursive: true });
      mkdirSync(join(folder, "scripts", "9", "init"), { recursive: true });
      const sample = (file: string) => ({
        description: "How many?",
        create: { init: { file } },
        evaluation: {
          check: [null, { language: "python", file: "check/integer-match.py" }],
          example: "ls ~/here | wc -l",
        },
      });
      const data = join(folder, "data", "9", "a.json");
      writeFileSync(data, JSON.stringify([sample("init/make.sh"), sample("init/none.sh")]));
      writeFileSync(join(folder, "scripts", "9", "init", "make.sh"), "mkdir ~/here && touch ~/here/a ~/here/b");
      const environment = createOs({ data });
      expect(await failures(environment, [0])).toEqual([]);
      await expect(environment.start("data", 1, 0)).rejects.toThrow(/init\/none\.sh is not in/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test.each([
    ["[", "not JSON"],
    ["[]", "no sample"],
    ['[{"description": 1}]', "field description"],
    ['[{"description":"x","evaluation":{"check":[{"language":"python","file":"check/other.py"}]}}]', "Python checker"],
    ['[{"description":"x","evaluation":{"check":[{"language":"python","code":"exit(0)"}]}}]', "inline Python"],
  ])("%s is refused", (text, what) => {
    const folder = mkdtempSync(join(tmpdir(), "agentrl-os-"));
    try {
      const file = join(folder, "a.json");
      writeFileSync(file, text);
      expect(() => createOs({ data: file })).toThrow(what);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

test.each<[EnvironmentOptions, RegExp]>([
  [{ engine: "vm" }, /no engine is called "vm"[\s\S]*embedded, namespace, container/],
  [{ endpoint: "/run/docker.sock" }, /endpoint has no effect/],
  [{ settings: { memory: 64 } }, /settings\.memory has no effect/],
  [{ settings: { image: "x" } }, /settings\.image has no effect/],
  [{ settings: { timeuot: 3 } }, /timeuot[\s\S]*timeout, memory/],
  [{ settings: { timeout: -1 } }, /settings\.timeout/],
])("%j is refused", (options, message) => {
  expect(() => createOs(options)).toThrow(message);
});

test("a start may take as long as the scripts that prepare a machine: some of AgentBench's wait a minute", async () => {
  const environment = createOs();
  expect(environment.stepTimeoutMs).toBeGreaterThanOrEqual(120_000);
  await environment.close();
});
