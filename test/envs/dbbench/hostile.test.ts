import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SqlDatabase, SqlEngine } from "../../../envs/dbbench/engine.ts";
import { startEngine } from "../../../envs/dbbench/engine.ts";
import { createDbbench } from "../../../envs/dbbench/index.ts";
import type { DbTable } from "../../../envs/dbbench/task.ts";
import type { ToolCall } from "../../../src/env/environment.ts";
import { hasMariadb } from "./servers.ts";

const TIMEOUT = 0.2;
/** A statement is stopped some time after its limit; the machine may be busy. */
const STOPPED_MS = 5000;

const numbers: DbTable = {
  name: "numbers",
  columns: [
    { name: "n", type: "INTEGER" },
    { name: "t", type: "TEXT" },
  ],
  rows: Array.from({ length: 100 }, (_, n) => [n, `text ${n}`]),
};

const endless = {
  embedded: [
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n",
    "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n",
    "SELECT COUNT(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e",
    "INSERT INTO numbers SELECT a.n, a.t FROM numbers a, numbers b, numbers c, numbers d WHERE a.n + b.n + c.n + d.n < 0",
    "SELECT COUNT(*) FROM numbers WHERE CONCAT('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', t) REGEXP '^(a+)+$'",
    `SELECT COUNT(*) FROM ${[..."abcdefghij"].map((name) => `json_each('[1,1,1,1,1,1,1,1,1,1]') ${name}`).join(", ")}`,
  ],
  mariadb: [
    "SELECT SLEEP(1000)",
    "SELECT BENCHMARK(100000000000, MD5('x'))",
    "SET STATEMENT max_statement_time = 0 FOR SELECT SLEEP(1000)",
    "SELECT COUNT(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e",
    "SELECT a.t FROM numbers a, numbers b, numbers c, numbers d ORDER BY RAND()",
    "BEGIN NOT ATOMIC WHILE 1 DO SET @a = 1; END WHILE; END",
    "INSERT INTO numbers SELECT a.n, a.t FROM numbers a, numbers b, numbers c, numbers d",
  ],
};

/** What reaches for the host's files, for other sessions or for the engine, in each engine's own words. */
const outOfReach = {
  embedded: ({ secret, made }: Record<"secret" | "made" | "other", string>) => [
    `ATTACH DATABASE '${secret}' AS other`,
    `ATTACH DATABASE '${made}' AS other`,
    `VACUUM INTO '${made}'`,
    `SELECT readfile('${secret}')`,
    `SELECT writefile('${made}', 'x')`,
    `SELECT load_extension('${secret}')`,
    `SELECT LOAD_FILE('${secret}')`,
    `SELECT 'x' INTO OUTFILE '${made}'`,
    `LOAD DATA INFILE '${secret}' INTO TABLE numbers`,
    `CREATE VIRTUAL TABLE files USING csv(filename = '${secret}')`,
    "PRAGMA writable_schema = 1",
    `PRAGMA temp_store_directory = '${tmpdir()}'`,
    "UPDATE sqlite_master SET sql = ''",
    "SHOW DATABASES",
  ],
  mariadb: ({ secret, made, other }: Record<"secret" | "made" | "other", string>) => [
    `DROP DATABASE ${other}`,
    `SELECT * FROM ${other}.numbers`,
    `USE ${other}`,
    "SELECT * FROM mysql.user",
    "SET GLOBAL max_connections = 1",
    "SHUTDOWN",
    `SELECT 'x' INTO OUTFILE '${made}'`,
    `LOAD DATA INFILE '${secret}' INTO TABLE numbers`,
    `LOAD DATA LOCAL INFILE '${secret}' INTO TABLE numbers`,
    "CREATE USER intruder",
    `GRANT ALL ON ${other}.* TO CURRENT_USER()`,
    "INSTALL SONAME 'ha_federatedx'",
    "CREATE FUNCTION f() RETURNS INT RETURN 1",
    "CREATE EVENT e ON SCHEDULE EVERY 1 SECOND DO SELECT 1",
    "CREATE TABLE numbers.t (a INT)",
  ],
};

describe.each(["embedded", "mariadb"] as const)("hostile SQL on %s", (name) => {
  const skip = name === "mariadb" && !hasMariadb;
  let engine: SqlEngine;
  beforeAll(async () => {
    if (!skip) engine = await startEngine({ engine: name, endpoint: undefined, timeout: TIMEOUT });
  });
  afterAll(() => engine?.close());

  /** Runs the statements in one session; another one beside it must be as it was. */
  async function play(
    statements: readonly string[],
    look?: (database: SqlDatabase) => Promise<void>,
  ): Promise<string[]> {
    const [mine, other] = [await engine.open([numbers]), await engine.open([numbers])];
    const before = await other.md5();
    const texts: string[] = [];
    for (const sql of statements) texts.push((await mine.execute(sql)).text);
    await look?.(mine);
    expect(await other.md5()).toBe(before);
    expect((await other.execute("SELECT COUNT(*) FROM numbers")).text).toBe("[(100,)]");
    await mine.release();
    await other.release();
    for (const text of texts) expect(text.length).toBeLessThan(1000);
    return texts;
  }

  test.skipIf(skip).each(endless[name])("is stopped: %s", async (sql) => {
    const begin = performance.now();
    // The event loop goes on meanwhile.
    let ticks = 0;
    const timer = setInterval(() => ticks++, 10);
    const texts = await play([sql], async (mine) => {
      // The session goes on, with its table as it was.
      expect((await mine.execute("SELECT COUNT(*), SUM(n) FROM numbers")).text).toMatch(/^\[\(100, .*4950/);
    });
    expect(texts[0]).toBe(`Error: the statement did not end within ${TIMEOUT} seconds and was stopped`);
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(5);
    expect(performance.now() - begin).toBeLessThan(STOPPED_MS);
  });

  test.skipIf(skip)("several statements in one are refused, and none of them runs", async () => {
    const [text] = await play(["SELECT 1; DROP TABLE numbers"], async (mine) => {
      expect((await mine.execute("SELECT COUNT(*) FROM numbers")).text).toBe("[(100,)]");
    });
    expect(text).toMatch(/^Error: /);
  });

  test.skipIf(skip)("a huge result is cut, a huge statement refused", async () => {
    const [rows, text, long] = await play([
      "SELECT a.t FROM numbers a, numbers b, numbers c",
      "SELECT t FROM numbers WHERE n = 5",
      `SELECT '${"x".repeat(100 << 20)}'`,
    ]);
    expect(rows).toMatch(/^\[\('text .*\[TRUNCATED\]$/);
    expect(text).toBe("[('text 5',)]");
    expect(long).toBe("Error: statement longer than 20000 characters");
  });

  test.skipIf(skip)("a value or a table that grows without end meets a limit", async () => {
    const grow = Array.from({ length: 40 }, () => "UPDATE numbers SET t = CONCAT(t, t)");
    const texts = await play(grow, async (mine) => {
      // What is left can be read, or is too large to be graded; neither is a fault.
      await mine.md5();
    });
    expect(texts[0]).toBe("[]");
    if (name === "embedded") expect(texts.at(-1)).toMatch(/longer than|full/);
  });

  test.skipIf(skip)("a statement that runs on while its session is released", async () => {
    const database = await engine.open([numbers]);
    const running = database.execute(endless[name][0]!).catch((error: Error) => error);
    await database.release();
    await running;
    const next = await engine.open([numbers]);
    expect((await next.execute("SELECT COUNT(*) FROM numbers")).text).toBe("[(100,)]");
    await next.release();
  });

  test.skipIf(skip)("a 100 MB argument and calls that are no calls, through a session", async () => {
    const env = createDbbench({ engine: name, settings: { timeout: TIMEOUT } });
    const session = await env.start("eval", 0, 0);
    for (const [args, pattern] of [
      [{ query: "x".repeat(100 << 20) }, /longer than 20000 characters/],
      [{ query: ["SELECT 1"] }, /expected string/],
      [{}, /expected string/],
    ] as const) {
      const result = await session.step({
        text: "",
        calls: [{ id: "0", name: "execute_sql", arguments: args as ToolCall["arguments"] }],
      });
      expect(result.done).toBe(false);
      expect(result.messages[0]!.content).toMatch(pattern);
      expect(result.messages[0]!.content.length).toBeLessThan(500);
    }
    await session.close();
    await env.close();
  });

  test.skipIf(skip)("files, other databases and the engine itself are out of reach", async () => {
    const folder = mkdtempSync(join(tmpdir(), "agentrl-test-"));
    const [secret, made] = [join(folder, "secret"), join(folder, "made")];
    writeFileSync(secret, "secret");
    const other = await engine.open([numbers]);
    const otherName = /agentrl[0-9a-f]+/.exec((await other.execute("SELECT DATABASE()")).text)?.[0] ?? "other";
    for (const text of await play(outOfReach[name]({ secret, made, other: otherName }))) {
      expect(text).toMatch(/^Error: /);
      expect(text).not.toMatch(/secret$/);
    }
    if (name === "mariadb") {
      expect(await play([`SELECT LOAD_FILE('${secret}')`, "SHOW DATABASES"])).toEqual([
        "[(None,)]",
        expect.stringMatching(/^\[\('agentrl[0-9a-f]+',\), \('information_schema',\)\]$/),
      ]);
      await play([`CREATE TABLE here (a TEXT) DATA DIRECTORY = '${folder}'`]);
    }
    expect(readdirSync(folder)).toEqual(["secret"]);
    await other.release();
    rmSync(folder, { recursive: true });
  });

  // The embedded engine has no connections.
  if (name === "mariadb") {
    test.skipIf(skip)("what a session does to its own connection costs only itself", async () => {
      expect(
        await play([
          "KILL CONNECTION_ID()",
          "SELECT COUNT(*) FROM numbers",
          "LOCK TABLES numbers WRITE",
          "SET max_session_mem_used = 1000000000000",
          "SELECT @@max_session_mem_used <= 67108864",
        ]),
      ).toEqual([
        "Error: the connection was closed; the next statement opens a new one",
        "[(100,)]",
        "[]",
        "[]",
        "[(1,)]",
      ]);
      const [dropped, after] = await play(["DROP DATABASE agentrl", "SET PASSWORD = PASSWORD('x')"]);
      expect(dropped).toMatch(/^Error: Access denied/);
      expect(after).toBe("[]");
    });
  }
});
