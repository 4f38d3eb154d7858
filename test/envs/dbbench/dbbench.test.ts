import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { EmbeddedEngine } from "../../../envs/dbbench/engines/embedded.ts";
import { createDbbench, dbbenchTasks, goldMd5 } from "../../../envs/dbbench/index.ts";
import { loadSamples } from "../../../envs/dbbench/load.ts";
import { promptMessages } from "../../../envs/dbbench/task.ts";
import type { ToolCall } from "../../../src/env/environment.ts";
import { reprCell } from "../../../src/env/python-repr.ts";
import { runScripted } from "../../../src/env/scripted.ts";
import { dataFile, sessionCost } from "../../env/support.ts";
import { testGeneratedTasks } from "../generated-tasks.ts";

const env = createDbbench({ prompt: "brief" });
afterAll(() => env.close());

const call = (name: string, args: unknown, id = "0") => ({
  text: "",
  calls: [{ id, name, arguments: args } as ToolCall],
});
const sql = (query: string) => call("execute_sql", { query });
const commit = (...answers: unknown[]) => call("commit_final_answer", { answers });

describe("generated tasks", () => {
  const { evalTasks, trainTasks } = testGeneratedTasks(env, dbbenchTasks);

  test("levels are even, tables small, prompts short and without rows", () => {
    for (const task of [...evalTasks, ...trainTasks]) {
      const [table] = task.tables;
      expect(table!.columns.length).toBeGreaterThanOrEqual(3);
      expect(table!.columns.length).toBeLessThanOrEqual(5);
      expect(table!.rows.length).toBeGreaterThanOrEqual(4);
      expect(table!.rows.length).toBeLessThanOrEqual(8);
      const words = promptMessages(task, "brief")
        .map(({ content }) => content)
        .join(" ")
        .match(/[\p{L}\p{N}]+/gu)!;
      expect(words.length).toBeLessThanOrEqual(40);
    }
    for (const level of [1, 2, 3, 4, 5]) expect(evalTasks.filter((task) => task.level === level)).toHaveLength(40);
  });

  test("the gold SQL gives exactly the gold answers, and gold writes change the table", async () => {
    const engine = await EmbeddedEngine.start(2);
    for (const task of [...evalTasks, ...trainTasks.slice(0, 500)]) {
      if (task.goal.kind === "write") {
        expect(await goldMd5(engine, task), task.question).toBeDefined();
        continue;
      }
      const database = await engine.open(task.tables);
      const [answer] = task.goal.answers;
      const cell = /^\d+$/.test(answer!) ? BigInt(answer!) : answer!;
      expect(await database.execute(task.sql!), task.question).toEqual({ ok: true, text: `[(${reprCell(cell)},)]` });
      await database.release();
    }
    await engine.close();
  });

  test("words: each is one word, and no value looks like a contraction after a quote", () => {
    const words = new Set<string>();
    for (const task of trainTasks) {
      for (const cell of task.tables[0]!.rows.flat()) words.add(String(cell));
    }
    for (const word of words) {
      expect(word).toMatch(/^([A-Z][a-z]+|\d{1,2})$/);
      expect(word).not.toMatch(/^(s|t|m|d|re|ve|ll)/i);
    }
    expect(words.size).toBeLessThan(220);
  });

  test("the expert solves all of eval and a part of train, in two turns", async () => {
    expect(await runScripted(env, { split: "eval", policy: "expert" })).toMatchObject({
      episodes: 200,
      success: 1,
      meanReward: 1,
      endReasons: { completed: 200 },
      levels: { "1": { episodes: 40, success: 1 }, "5": { episodes: 40, success: 1 } },
    });
    expect(await runScripted(env, { split: "train", policy: "expert", episodes: 300 })).toMatchObject({ success: 1 });
    const session = await env.start("eval", 0, 0);
    const expert = env.expert!("eval", 0, 0);
    await session.step(expert.act([]));
    expect(await session.step(expert.act([]))).toMatchObject({
      done: true,
      reward: 1,
      metrics: { turns: 2, level: 1 },
    });
    await session.close();
  });

  test("the random policy is near zero", async () => {
    for (const seed of [1, 2, 3]) {
      expect((await runScripted(env, { split: "eval", policy: "random", seed })).success).toBeLessThan(0.05);
    }
  });
});

describe("a session", () => {
  const start = () => env.start("eval", 3, 0); // Level 4: a write.

  test("brief and full prompts", async () => {
    const session = await start();
    expect(session.messages).toMatchInlineSnapshot(`
      [
        {
          "content": "Answer with SQL.",
          "role": "system",
        },
        {
          "content": "Table \`ships\`: \`Color\`,\`Speed\`,\`Ship\`,\`Port\`
      Remove all rows with \`Port\` 'Geneva'.",
          "role": "user",
        },
      ]
    `);
    const full = createDbbench();
    const long = await full.start("eval", 3, 0);
    expect(long.messages[0]!.content).toMatch(/execute_sql[\s\S]*commit_final_answer[\s\S]*15 turns/);
    expect(long.messages[1]!.content).toMatch(
      /^Table information: The name of this table is \w+, and the headers of this table are [\w,]+\.\nQuestion: /,
    );
    await Promise.all([session.close(), long.close(), full.close()]);
  });

  test("wrong calls and text get an error text, and the episode goes on to a right end", async () => {
    const session = await start();
    const texts: string[] = [];
    for (const action of [
      { text: "I think the answer is 3.", calls: [] },
      call("drop_everything", {}),
      call("execute_sql", { sql: "SELECT 1" }),
      call("execute_sql", { query: 5 }),
      call("commit_final_answer", {}),
      call("execute_sql", null),
      sql("SELEC 1"),
    ]) {
      const result = await session.step(action);
      expect(result).toMatchObject({ done: false, reward: 0 });
      texts.push(`${result.messages[0]!.role}: ${result.messages[0]!.content}`);
    }
    expect(texts).toMatchInlineSnapshot(`
      [
        "user: No tool call found. Call execute_sql, or commit_final_answer to finish.",
        "tool: Error: unknown tool "drop_everything". Tools: execute_sql, commit_final_answer.",
        "tool: Error: execute_sql: argument query: Invalid input: expected string, received undefined.",
        "tool: Error: execute_sql: argument query: Invalid input: expected string, received number.",
        "tool: Error: commit_final_answer: argument answers: Invalid input: expected array, received undefined.",
        "tool: Error: execute_sql: arguments: Invalid input: expected object, received null.",
        "tool: Error: SELEC statements are not supported here",
      ]
    `);
    const gold = env.expert!("eval", 3, 0);
    await session.step(gold.act([]));
    expect(await session.step(gold.act([]))).toMatchObject({
      done: true,
      reward: 1,
      endReason: "completed",
      metrics: { turns: 9, invalidCalls: 5, failedCalls: 1, textTurns: 1, level: 4 },
    });
    await session.close();
  });

  test("several calls of a turn all run, in order, until one ends the episode", async () => {
    const session = await start();
    const gold = env.expert!("eval", 3, 0);
    const [write, end] = [gold.act([]).calls[0]!, gold.act([]).calls[0]!];
    const select = { id: "9", name: "execute_sql", arguments: { query: "SELECT 1" } };
    const result = await session.step({ text: "", calls: [select, write, end, select] });
    expect(result).toMatchObject({ done: true, reward: 1 });
    expect(result.messages.map(({ toolCallId, name }) => [toolCallId, name])).toEqual([
      ["9", "execute_sql"],
      ["call_0", "execute_sql"],
      ["call_1", "commit_final_answer"],
    ]);
    await session.close();
  });

  test("the turn limit ends an episode without reward", async () => {
    const session = await start();
    for (let turn = 1; turn < 15; turn++) expect(await session.step(sql("SELECT 1"))).toMatchObject({ done: false });
    expect(await session.step(sql("SELECT 1"))).toMatchObject({ done: true, reward: 0, endReason: "turn limit" });
    await expect(session.step(sql("SELECT 1"))).rejects.toThrow(/session that is done/);
    await session.close();
    await session.close();
    await expect(session.step(sql("SELECT 1"))).rejects.toThrow(/session that is closed/);
  });

  test("an untouched table is no right answer to a write; answers as a bare string or number are taken", async () => {
    const write = await start();
    expect(await write.step(commit("done"))).toMatchObject({ done: true, reward: 0, endReason: "completed" });
    const task = dbbenchTasks.generate("eval", 1, 0);
    const [answer] = (task.goal as { answers: string[] }).answers;
    for (const answers of [answer, [Number(answer)], [`${answer}.0`]]) {
      const read = await env.start("eval", 1, 0);
      expect(await read.step(call("commit_final_answer", { answers }))).toMatchObject({ reward: 1 });
      await read.close();
    }
    await write.close();
  });

  test("no tool call, whatever its name and arguments, throws", async () => {
    const argument = fc.oneof(
      fc.jsonValue(),
      fc.record({ query: fc.jsonValue() }),
      fc.record({ answers: fc.jsonValue() }),
    );
    const action = fc.record({
      text: fc.string(),
      calls: fc.array(
        fc.record({
          id: fc.string(),
          name: fc.oneof(fc.string(), fc.constantFrom("execute_sql", "commit_final_answer")),
          arguments: argument,
        }),
        { maxLength: 3 },
      ),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 15 }), async (actions) => {
        const session = await start();
        for (const next of actions) {
          const result = await session.step(next as never);
          expect(result.endReason).not.toBe("env error");
          expect(result.messages.length).toBeGreaterThan(0);
          if (result.done) break;
        }
        await session.close();
      }),
      { numRuns: 150 },
    );
  });

  test("32 interleaved sessions do not disturb each other", async () => {
    const indices = Array.from({ length: 32 }, (_, index) => 5 * index + 3); // Writes, on tables that share names.
    const sessions = await Promise.all(indices.map((index) => env.start("train", index, 0)));
    const experts = indices.map((index) => env.expert!("train", index, 0));
    const before = await Promise.all(sessions.map((session) => session.step(sql("SHOW TABLES"))));
    for (const { messages } of before) expect(messages[0]!.content).toMatch(/^\[\('\w+',\)\]$/);
    for (let turn = 0; turn < 2; turn++) {
      const results = await Promise.all(sessions.map((session, at) => session.step(experts[at]!.act([]))));
      if (turn === 1) for (const result of results) expect(result).toMatchObject({ done: true, reward: 1 });
    }
    await Promise.all(sessions.map((session) => session.close()));
  });

  test("cost of a session (printed)", async () => {
    console.log(
      `dbbench: ${(await sessionCost(env)).toFixed(2)} ms of CPU a session (generate, start, two turns, close)`,
    );
  });
});

describe("AgentBench's file", () => {
  const file = dataFile("agentbench", "dbbench", "standard.jsonl");

  test.skipIf(file === undefined)("the expert gets at least 297 of 300", async () => {
    const real = createDbbench({ data: file! });
    const report = await runScripted(real, { split: "data", policy: "expert" });
    expect(report.episodes).toBe(300);
    expect(report.successes).toBeGreaterThanOrEqual(297);
    expect(() => real.split("eval")).toThrow(/one split/);
    await real.close();
  });

  test.skipIf(file === undefined)(
    "gold SQL on this engine reproduces at least 197 of the 200 published MD5s",
    async () => {
      const engine = await EmbeddedEngine.start(2);
      const writes = loadSamples(file!).filter((task) => task.goal.kind === "write");
      expect(writes).toHaveLength(200);
      let same = 0;
      for (const task of writes) {
        if (task.goal.kind === "write" && (await goldMd5(engine, task)) === task.goal.md5) same++;
      }
      expect(same).toBeGreaterThanOrEqual(197);
      await engine.close();
    },
  );

  test("malformed samples end at once, naming file, line and field", () => {
    const folder = mkdtempSync(join(tmpdir(), "agentrl-db-"));
    const path = join(folder, "bad.jsonl");
    const good = {
      description: "q",
      label: ["a"],
      table: { table_name: "t", table_info: { columns: [{ name: "x", type: "TEXT" }], rows: [["1"]] } },
      type: ["other"],
    };
    const cases: [unknown, RegExp][] = [
      [{ ...good, description: undefined }, /field description/],
      [{ ...good, label: undefined }, /field label[\s\S]*answers of a read/],
      [{ ...good, label: "a" }, /field label/],
      [{ ...good, type: ["INSERT"], label: undefined }, /field answer_md5/],
      [
        { ...good, table: { ...good.table, table_info: { ...good.table.table_info, rows: [["1", "2"]] } } },
        /field table[\s\S]*1 cells/,
      ],
      [{ ...good, table: { ...good.table, table_name: 5 } }, /field table/],
    ];
    for (const [bad, pattern] of cases) {
      writeFileSync(path, `${JSON.stringify(good)}\n${JSON.stringify(bad)}\n`);
      expect(() => createDbbench({ data: path })).toThrow(pattern);
      expect(() => createDbbench({ data: path })).toThrow(`${path}, line 2`);
    }
    writeFileSync(path, JSON.stringify(good).slice(0, 50));
    expect(() => createDbbench({ data: path })).toThrow(/not JSON[\s\S]*truncated/);
    writeFileSync(path, JSON.stringify({ ...good, table: [good.table, { ...good.table, table_name: "u" }] }));
    expect(loadSamples(path)[0]!.tables.map(({ name }) => name)).toEqual(["t", "u"]);
    rmSync(folder, { recursive: true });
  });
});
