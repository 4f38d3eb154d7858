/**
 * SQLite in this process. The engine starts once per process; each session borrows a database of its own from a pool and
 * gives it back empty, so sessions cannot see each other and none pays for start-up. Statements that are sure to be quick
 * run here, all others on a thread with a time limit.
 */
import type { Database, SqlJsStatic } from "sql.js";
import type { Cell } from "../../../src/env/python-repr.ts";
import { isQuick } from "../cost.ts";
import { MAX_GRADED_ROWS, type SqlDatabase, type SqlEngine, type SqlResult } from "../engine.ts";
import { tableMd5, tablesMd5 } from "../grade.ts";
import { rewrite } from "../mysql.ts";
import type { DbTable } from "../task.ts";
import { SlowStatements } from "./slow-statements.ts";
import { configure, createDatabase, isSqliteError, limitPages, quoteName, rows, run, startSqlite } from "./sqlite.ts";

/** Pages of 4 KiB of a session's database; where the task's own tables are large, pages on top of them. */
const PAGES = 1024;
/** SQLite's own limit. */
const MOST_PAGES = 0xfffffffe;
/** Cells of tables that surely leave most of the pages free. */
const FEW_CELLS = 10_000;

export class EmbeddedEngine implements SqlEngine {
  readonly #sqlite: SqlJsStatic;
  readonly #slow: SlowStatements;
  readonly #idle: Database[] = [];
  #closed = false;

  private constructor(sqlite: SqlJsStatic, timeout: number) {
    this.#sqlite = sqlite;
    this.#slow = new SlowStatements(timeout);
  }

  /** @param timeout Seconds that one statement may take. */
  static async start(timeout: number): Promise<EmbeddedEngine> {
    return new EmbeddedEngine(await startSqlite(), timeout);
  }

  async open(tables: readonly DbTable[]): Promise<EmbeddedDatabase> {
    const few = tables.reduce((sum, { rows, columns }) => sum + rows.length * columns.length, 0) <= FEW_CELLS;
    const database = few
      ? (this.#idle.pop() ?? createDatabase(this.#sqlite, PAGES))
      : createDatabase(this.#sqlite, MOST_PAGES);
    try {
      for (const table of tables) createTable(database, table);
      const maxPages = few ? PAGES : pages(database) + PAGES;
      if (!few) limitPages(database, maxPages);
      return new EmbeddedDatabase(database, tables, maxPages, this);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const database of this.#idle.splice(0)) database.close();
    await this.#slow.close();
  }

  /** Runs a statement on a thread, on a copy; `bytes` is the database after a write that went well. */
  async runSlowly(
    database: Database,
    sql: string,
    writes: boolean,
    maxPages: number,
  ): Promise<{ result: SqlResult; bytes?: Uint8Array }> {
    const copy = database.export();
    configure(database, maxPages);
    return this.#slow.run({ database: copy, sql, writes, maxPages });
  }

  restore(bytes: Uint8Array, maxPages: number): Database {
    return createDatabase(this.#sqlite, maxPages, bytes);
  }

  /** Takes back an emptied database, unless it may have grown large. */
  giveBack(database: Database, maxPages: number): void {
    if (this.#closed || maxPages > PAGES) database.close();
    else this.#idle.push(database);
  }
}

function pages(database: Database): number {
  return Number(database.exec("PRAGMA page_count")[0]!.values[0]![0]);
}

function createTable(database: Database, { name, columns, rows }: DbTable): void {
  // NOCASE stands in for MySQL's case-insensitive collation (ASCII letters only).
  const definitions = columns.map(
    (column) => `${quoteName(column.name)} ${column.type}${column.type === "TEXT" ? " COLLATE NOCASE" : ""}`,
  );
  database.exec(`CREATE TABLE ${quoteName(name)} (${definitions.join(",")})`);
  if (rows.length === 0) return;
  const values = rows.map((row) => `(${row.map(quoteValue).join(",")})`);
  database.exec(`INSERT INTO ${quoteName(name)} VALUES ${values.join(",")}`);
}

function quoteValue(value: string | number): string {
  if (typeof value === "number") return String(value);
  // A NUL would end the statement's text.
  return `'${value.replaceAll("'", "''").replaceAll("\0", "")}'`;
}

export class EmbeddedDatabase implements SqlDatabase {
  #database: Database | undefined;
  readonly #tables: readonly DbTable[];
  readonly #maxPages: number;
  readonly #engine: EmbeddedEngine;

  constructor(database: Database, tables: readonly DbTable[], maxPages: number, engine: EmbeddedEngine) {
    this.#database = database;
    this.#tables = tables;
    this.#maxPages = maxPages;
    this.#engine = engine;
  }

  async execute(sql: string): Promise<SqlResult> {
    const rewritten = rewrite(sql);
    if ("error" in rewritten) return { ok: false, text: `Error: ${rewritten.error}` };
    if ("empty" in rewritten) return { ok: true, text: "[]" };
    const database = this.#open();
    if (isQuick(rewritten, this.#rowCounts())) return run(database, rewritten.sql);
    const { result, bytes } = await this.#engine.runSlowly(database, rewritten.sql, rewritten.writes, this.#maxPages);
    // Where the session was released meanwhile, nobody waits for what the statement did.
    if (bytes !== undefined && this.#database === database) {
      this.#database = this.#engine.restore(bytes, this.#maxPages);
      database.close();
    }
    return result;
  }

  async md5(): Promise<string | undefined> {
    try {
      const hashes: (string | undefined)[] = [];
      for (const { name, columns } of this.#tables) {
        if ((this.#count(name) ?? 0) > MAX_GRADED_ROWS) return undefined;
        const list = columns.map((column) => quoteName(column.name)).join(",");
        hashes.push(tableMd5(this.#rows(`SELECT ${list} FROM ${quoteName(name)}`)));
      }
      return tablesMd5(hashes);
    } catch (error) {
      if (isSqliteError(error)) return undefined;
      throw error;
    }
  }

  /** Empties the database and gives it back to the pool. */
  async release(): Promise<void> {
    const database = this.#database;
    this.#database = undefined;
    if (database === undefined) return;
    try {
      const [found] = database.exec(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
      );
      for (const [name] of found?.values ?? []) database.exec(`DROP TABLE ${quoteName(String(name))}`);
    } catch {
      // A database that cannot be emptied must not reach another session; a fresh one costs little.
      database.close();
      return;
    }
    this.#engine.giveBack(database, this.#maxPages);
  }

  #open(): Database {
    if (this.#database === undefined) throw new Error("the session's database was released");
    return this.#database;
  }

  #rows(sql: string): Generator<Cell[]> {
    return rows(this.#open(), sql);
  }

  #count(table: string): number {
    return Number([...this.#rows(`SELECT COUNT(*) FROM ${quoteName(table)}`)][0]?.[0] ?? 0);
  }

  /** Row counts by table, asked for only when a statement mentions the table. */
  #rowCounts(): (table: string) => number | undefined {
    const names = new Set<string>();
    for (const [name] of this.#rows("SELECT lower(name) FROM sqlite_master WHERE type = 'table'"))
      names.add(String(name));
    const counts = new Map<string, number>();
    return (table) => {
      if (!names.has(table)) return undefined;
      const count = counts.get(table) ?? this.#count(table);
      counts.set(table, count);
      return count;
    };
  }
}
