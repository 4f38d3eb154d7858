/**
 * SQLite (sql.js, WebAssembly) behind MySQL's face. The engine starts once per process; each session borrows a database of
 * its own from a pool and gives it back empty, so sessions cannot see each other and none pays for start-up.
 */
import initSqlJs, { type Database, type SqlJsStatic } from "sql.js";
import { AgentRLError } from "../../src/errors.ts";
import { tableMd5, tablesMd5 } from "./grade.ts";
import { costBound, rewrite, type Token } from "./mysql.ts";
import { type Cell, reprRows } from "./repr.ts";
import type { DbTable } from "./task.ts";

/** Rows that a read's nested loops may visit (some 10 million a second), and rows that a write may make. */
const READ_COST = 2_000_000;
const WRITE_COST = 100_000;

function isWrite(verb: string, tokens: readonly Token[]): boolean {
  if (verb === "with") return tokens.some(({ word }) => ["insert", "update", "delete", "replace"].includes(word));
  return verb !== "select" && verb !== "values" && verb !== "(";
}

/** An option of sql.js that its published types leave out. */
interface BigIntStatement {
  get(parameters: null, config: { useBigInt: boolean }): Cell[];
}

export type SqlResult = { ok: true; text: string } | { ok: false; text: string };

let starting: Promise<SqlJsStatic> | undefined;

function startSqlite(): Promise<SqlJsStatic> {
  starting ??= initSqlJs().catch((cause: unknown) => {
    starting = undefined;
    throw new AgentRLError("ENVIRONMENT", "sql.js did not start", { cause, hint: "reinstall it: npm ci" });
  });
  return starting;
}

export class SqlEngine {
  readonly #sqlite: SqlJsStatic;
  readonly #idle: Database[] = [];
  #closed = false;

  private constructor(sqlite: SqlJsStatic) {
    this.#sqlite = sqlite;
  }

  static async start(): Promise<SqlEngine> {
    return new SqlEngine(await startSqlite());
  }

  /** A database holding exactly these tables. Give it back with `release`. */
  open(tables: readonly DbTable[]): SessionDatabase {
    const database = this.#idle.pop() ?? this.#create();
    try {
      for (const table of tables) createTable(database, table);
    } catch (error) {
      database.close();
      throw error;
    }
    return new SessionDatabase(database, tables, (emptied) => this.#giveBack(emptied));
  }

  close(): void {
    this.#closed = true;
    for (const database of this.#idle.splice(0)) database.close();
  }

  #create(): Database {
    const database = new this.#sqlite.Database();
    // No file outlives the process or is shared: exclusive locking saves looking for journals, and a journal in memory
    // still makes a failed statement atomic.
    database.exec(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY",
    );
    for (const [name, func] of Object.entries(mysqlFunctions)) database.create_function(name, func);
    return database;
  }

  #giveBack(database: Database): void {
    if (this.#closed) database.close();
    else this.#idle.push(database);
  }
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

function quoteName(name: string): string {
  return `\`${name.replaceAll("`", "``")}\``;
}

function quoteValue(value: string | number): string {
  if (typeof value === "number") return String(value);
  // A NUL would end the statement's text.
  return `'${value.replaceAll("'", "''").replaceAll("\0", "")}'`;
}

export class SessionDatabase {
  #database: Database | undefined;
  readonly #tables: readonly DbTable[];
  readonly #giveBack: (database: Database) => void;

  constructor(database: Database, tables: readonly DbTable[], giveBack: (database: Database) => void) {
    this.#database = database;
    this.#tables = tables;
    this.#giveBack = giveBack;
  }

  /** Runs one MySQL statement; the text is what the policy sees. SQL errors come back as text, never as a throw. */
  execute(sql: string): SqlResult {
    const rewritten = rewrite(sql);
    if ("error" in rewritten) return { ok: false, text: `Error: ${rewritten.error}` };
    if ("empty" in rewritten) return { ok: true, text: "[]" };
    const writes = isWrite(rewritten.verb, rewritten.tokens);
    const mentions = rewritten.tokens.length === 0 ? 1 : costBound(rewritten.tokens, this.#rowCounts());
    if (mentions > (writes ? WRITE_COST : READ_COST)) {
      return { ok: false, text: "Error: this statement would visit too many rows; join fewer tables" };
    }
    try {
      return { ok: true, text: reprRows(this.#rows(rewritten.sql)) };
    } catch (error) {
      if (isSqliteError(error)) return { ok: false, text: `Error: ${error.message}` };
      throw error;
    }
  }

  /** The MD5 of the tables as they are now, or undefined when one of them is gone or lost a column. */
  md5(): string | undefined {
    try {
      return tablesMd5(
        this.#tables.map(({ name, columns }) => {
          const list = columns.map((column) => quoteName(column.name)).join(",");
          return tableMd5(this.#rows(`SELECT ${list} FROM ${quoteName(name)}`));
        }),
      );
    } catch (error) {
      if (isSqliteError(error)) return undefined;
      throw error;
    }
  }

  /** Empties the database and gives it back to the pool; safe to call twice. */
  release(): void {
    const database = this.#database;
    this.#database = undefined;
    if (database === undefined) return;
    try {
      const [found] = database.exec(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
      );
      const [temporary] = database.exec("SELECT name FROM sqlite_temp_master WHERE type = 'table'");
      for (const [name] of [...(temporary?.values ?? []), ...(found?.values ?? [])]) {
        database.exec(`DROP TABLE ${quoteName(String(name))}`);
      }
    } catch {
      // A database that cannot be emptied must not reach another session; a fresh one costs little.
      database.close();
      return;
    }
    this.#giveBack(database);
  }

  *#rows(sql: string): Generator<Cell[]> {
    if (this.#database === undefined) throw new Error("the session's database was released");
    const statement = this.#database.prepare(sql);
    try {
      // Integers as bigint, so that 3 and 3.0 stay apart as they do in Python.
      while (statement.step()) yield (statement as unknown as BigIntStatement).get(null, { useBigInt: true });
    } finally {
      statement.free();
    }
  }

  /** Row counts by table, asked for only when a statement mentions the table. */
  #rowCounts(): (table: string) => number | undefined {
    const names = new Set<string>();
    for (const [name] of this.#rows("SELECT lower(name) FROM sqlite_master WHERE type = 'table'"))
      names.add(String(name));
    const counts = new Map<string, number>();
    return (table) => {
      if (!names.has(table)) return undefined;
      let count = counts.get(table);
      if (count === undefined) {
        count = Number([...this.#rows(`SELECT COUNT(*) FROM ${quoteName(table)}`)][0]?.[0] ?? 0);
        counts.set(table, count);
      }
      return count;
    };
  }
}

/** SQLite's own result codes for its insides failing; those are not the policy's errors. */
const FAULTS = new Set([
  2 /* INTERNAL */, 7 /* NOMEM */, 10 /* IOERR */, 11 /* CORRUPT */, 13 /* FULL */, 21 /* MISUSE */,
]);

/** sql.js marks SQLite's errors with the extended result code; its low byte is the primary code. */
function isSqliteError(error: unknown): error is Error {
  return error instanceof Error && "errcode" in error && !FAULTS.has(Number(error.errcode) & 0xff);
}

type SqlValue = string | number | boolean | null | Uint8Array;

/** A function of any number of arguments: SQLite takes -1 for that, and sql.js reads `length`. */
function variadic(func: (...args: SqlValue[]) => SqlValue): (...args: SqlValue[]) => SqlValue {
  return Object.defineProperty(func, "length", { value: -1 });
}

/** MySQL functions that SQLite lacks or defines otherwise. sql.js makes a number a float and a boolean an integer. */
const mysqlFunctions: Record<string, (...args: never[]) => SqlValue> = {
  concat: variadic((...args) => (args.includes(null) ? null : args.join(""))),
  left: (text: SqlValue, count: SqlValue) => (text === null ? null : String(text).slice(0, Math.max(0, Number(count)))),
  right: (text: SqlValue, count: SqlValue) =>
    text === null ? null : Number(count) <= 0 ? "" : String(text).slice(-Number(count)),
  substring_index: (text: SqlValue, separator: SqlValue, count: SqlValue) => {
    if (text === null || separator === null || count === null) return null;
    const parts = String(text).split(String(separator));
    return (Number(count) >= 0 ? parts.slice(0, Number(count)) : parts.slice(Number(count))).join(String(separator));
  },
  regexp: (pattern: SqlValue, text: SqlValue) =>
    pattern === null || text === null ? null : matchRegexp(String(pattern), String(text)),
};

/** MySQL's REGEXP ignores case. Repeated groups are refused: JavaScript could backtrack for ever on them. */
function matchRegexp(pattern: string, text: string): boolean {
  if (/\)[+*{]/.test(pattern)) throw new Error("repeated groups in a regular expression are not supported here");
  return new RegExp(pattern, "iu").test(text);
}
