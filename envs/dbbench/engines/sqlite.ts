/**
 * SQLite (sql.js, WebAssembly) behind MySQL's face: what this process and the threads for slow statements share.
 */
import initSqlJs, { type Database, type SqlJsStatic } from "sql.js";
import { type Cell, reprRows } from "../../../src/env/python-repr.ts";
import { AgentRLError } from "../../../src/errors.ts";
import type { SqlResult } from "../engine.ts";

let starting: Promise<SqlJsStatic> | undefined;

/** Once per thread. */
export function startSqlite(): Promise<SqlJsStatic> {
  starting ??= initSqlJs().catch((cause: unknown) => {
    starting = undefined;
    throw new AgentRLError("ENVIRONMENT", "sql.js did not start", { cause, hint: "reinstall it: npm ci" });
  });
  return starting;
}

/** An empty database, or the one that `Database.export` wrote. */
export function createDatabase(sqlite: SqlJsStatic, maxPages: number, bytes?: Uint8Array): Database {
  const database = new sqlite.Database(bytes);
  configure(database, maxPages);
  return database;
}

/** A database loses its settings and functions when it is exported. */
export function configure(database: Database, maxPages: number): void {
  // No file outlives the process or is shared: exclusive locking saves looking for journals, and a journal in memory
  // still makes a failed statement atomic.
  database.exec(
    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY",
  );
  limitPages(database, maxPages);
  for (const [name, func] of Object.entries(mysqlFunctions)) database.create_function(name, func);
}

/** Beyond so many pages of 4 KiB a statement fails: the database is full. */
export function limitPages(database: Database, maxPages: number): void {
  database.exec(`PRAGMA max_page_count = ${maxPages}`);
}

export function quoteName(name: string): string {
  return `\`${name.replaceAll("`", "``")}\``;
}

/** Runs one SQLite statement; its errors are the policy's. */
export function run(database: Database, sql: string): SqlResult {
  try {
    return { ok: true, text: reprRows(rows(database, sql)) };
  } catch (error) {
    if (isSqliteError(error)) return { ok: false, text: `Error: ${error.message}` };
    throw error;
  }
}

/** An option of sql.js that its published types leave out. */
interface BigIntStatement {
  get(parameters: null, config: { useBigInt: boolean }): Cell[];
}

export function* rows(database: Database, sql: string): Generator<Cell[]> {
  const statement = database.prepare(sql);
  try {
    // Integers as bigint, so that 3 and 3.0 stay apart as they do in Python.
    while (statement.step()) yield (statement as unknown as BigIntStatement).get(null, { useBigInt: true });
  } finally {
    statement.free();
  }
}

/** SQLite's own result codes for its insides failing; those are not the policy's errors. */
const FAULTS = new Set([2 /* INTERNAL */, 7 /* NOMEM */, 10 /* IOERR */, 11 /* CORRUPT */, 21 /* MISUSE */]);

/** sql.js marks SQLite's errors with the extended result code; its low byte is the primary code. */
export function isSqliteError(error: unknown): error is Error {
  return error instanceof Error && "errcode" in error && !FAULTS.has(Number(error.errcode) & 0xff);
}

type SqlValue = string | number | boolean | null | Uint8Array;

/** A function of any number of arguments: SQLite takes -1 for that, and sql.js reads `length`. */
function variadic(func: (...args: SqlValue[]) => SqlValue): (...args: SqlValue[]) => SqlValue {
  return Object.defineProperty(func, "length", { value: -1 });
}

/** Characters of a concatenation; a column that is joined to itself again and again doubles each time. */
const MAX_CONCAT = 1 << 16;

/** MySQL functions that SQLite lacks or defines otherwise. sql.js makes a number a float and a boolean an integer. */
const mysqlFunctions: Record<string, (...args: never[]) => SqlValue> = {
  concat: variadic((...args) => {
    if (args.includes(null)) return null;
    const text = args.join("");
    if (text.length > MAX_CONCAT) throw new Error(`the result of concat() is longer than ${MAX_CONCAT} characters`);
    return text;
  }),
  left: (text: SqlValue, count: SqlValue) => (text === null ? null : String(text).slice(0, Math.max(0, Number(count)))),
  right: (text: SqlValue, count: SqlValue) =>
    text === null ? null : Number(count) <= 0 ? "" : String(text).slice(-Number(count)),
  substring_index: (text: SqlValue, separator: SqlValue, count: SqlValue) => {
    if (text === null || separator === null || count === null) return null;
    const parts = String(text).split(String(separator));
    return (Number(count) >= 0 ? parts.slice(0, Number(count)) : parts.slice(Number(count))).join(String(separator));
  },
  // MySQL's REGEXP ignores case.
  regexp: (pattern: SqlValue, text: SqlValue) =>
    pattern === null || text === null ? null : new RegExp(String(pattern), "iu").test(String(text)),
};
