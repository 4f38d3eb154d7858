/**
 * A MySQL-compatible server: our own MariaDB, or one at an address. Each session has a database and a user of its own, whose
 * rights end at that database; what the SQL does to its own connection, another one of ours undoes.
 */
import { randomBytes } from "node:crypto";
import type { Connection, ConnectionOptions, PoolOptions } from "mysql2";
import type { Connection as AdminConnection, Pool } from "mysql2/promise";
import { RowsText } from "../../../src/env/python-repr.ts";
import { AgentRLError } from "../../../src/errors.ts";
import { MAX_GRADED_ROWS, type SqlDatabase, type SqlEngine, type SqlResult, tooSlow } from "../engine.ts";
import { joinRowHashes, rowHash, tablesMd5 } from "../grade.ts";
import { MAX_LENGTH, TOO_LONG } from "../mysql.ts";
import type { DbSettings } from "../settings.ts";
import type { DbTable } from "../task.ts";
import { type SharedServer, shareServer } from "./mariadb-server.ts";
import { castField, isLost, streamRows } from "./mysql-rows.ts";

type Mysql = typeof import("mysql2");

/** What a session may do to its own database. No FILE, no routines, triggers, views or events. */
const RIGHTS =
  "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, LOCK TABLES, CREATE TEMPORARY TABLES";
/** Bytes of one INSERT, below every server's max_allowed_packet. */
const INSERT_BYTES = 256 << 10;
const CONNECT_TIMEOUT_MS = 10_000;
const GRADING_TIMEOUT_MS = 20_000;
/** Bytes of a table's cells that are read for grading. */
const MAX_GRADED_BYTES = 32 << 20;

interface Address {
  connect: ConnectionOptions;
  /** The host part of a session's user. */
  host: "localhost" | "%";
}

export class MariadbEngine implements SqlEngine {
  readonly #mysql: Mysql;
  readonly #admin: Pool;
  readonly #address: Address;
  readonly #timeout: number;
  readonly #server: SharedServer | undefined;

  private constructor(mysql: Mysql, admin: Pool, address: Address, timeout: number, server: SharedServer | undefined) {
    this.#mysql = mysql;
    this.#admin = admin;
    this.#address = address;
    this.#timeout = timeout;
    this.#server = server;
  }

  /** @throws AgentRLError CONFIG for an endpoint that is no address, ENVIRONMENT where no server can be reached. */
  static async start({ endpoint, timeout }: DbSettings): Promise<MariadbEngine> {
    const mysql = await loadMysql();
    const given = endpoint === undefined ? undefined : parseEndpoint(endpoint);
    const server = given === undefined ? await shareServer() : undefined;
    const address = given ?? socketAddress(server!.socket);
    const options: PoolOptions = { ...address.connect, connectTimeout: CONNECT_TIMEOUT_MS, connectionLimit: 4 };
    const admin = mysql.createPool(options).promise();
    try {
      await admin.query("SELECT 1");
    } catch (cause) {
      await admin.end();
      await server?.release();
      throw new AgentRLError("ENVIRONMENT", "dbbench: the MySQL server cannot be reached", {
        where: endpoint ?? "the server of our own",
        got: cause instanceof Error ? cause.message : cause,
        hint: "check the address, the user and the password, and that the server runs",
        cause,
      });
    }
    return new MariadbEngine(mysql, admin, address, timeout, server);
  }

  async open(tables: readonly DbTable[]): Promise<SqlDatabase> {
    // No "_" in the name: in GRANT it would match any character.
    const name = `agentrl${randomBytes(8).toString("hex")}`;
    const password = randomBytes(16).toString("hex");
    const { host } = this.#address;
    const connection = await this.#admin.getConnection();
    try {
      await connection.query(`CREATE DATABASE ${name} CHARACTER SET utf8mb4${await this.#collation(connection)}`);
      for (const table of tables) await createTable(connection, name, table);
      await connection.query(`CREATE USER '${name}'@'${host}' IDENTIFIED BY '${password}'`);
      await connection.query(`GRANT ${RIGHTS} ON ${name}.* TO '${name}'@'${host}'`);
    } catch (cause) {
      await this.drop(name).catch(() => {});
      throw new AgentRLError("ENVIRONMENT", "dbbench: a session's database could not be made", {
        where: `tables ${tables.map((table) => table.name).join(", ")}`,
        got: cause instanceof Error ? cause.message : cause,
        hint: "the server's user must be allowed to make databases and users, and to grant rights on them",
        cause,
      });
    } finally {
      connection.release();
    }
    return new MariadbDatabase(this, name, password, tables, this.#timeout);
  }

  async close(): Promise<void> {
    await this.#admin.end();
    await this.#server?.release();
  }

  /** A connection with the rights of one session. */
  connect(name: string, password: string): Promise<Connection> {
    const connection = this.#mysql.createConnection({
      ...this.#address.connect,
      user: name,
      password,
      database: name,
      connectTimeout: CONNECT_TIMEOUT_MS,
      charset: "utf8mb4",
      // The server can ask a client for its files; this one has none to give.
      flags: ["-LOCAL_FILES"],
      rowsAsArray: true,
      typeCast: castField,
    });
    return new Promise((resolve, reject) => {
      // An error between two statements shows at the next one.
      connection.on("error", () => {});
      connection.connect((error) => {
        if (error !== null) return reject(error);
        connection.query("SET SESSION sql_mode = ''", (failure) => (failure ? reject(failure) : resolve(connection)));
      });
    });
  }

  /** Stops what a connection is doing, or ends it. It may be over already. */
  async kill(threadId: number, what: "QUERY" | "CONNECTION"): Promise<void> {
    await this.#admin.query(`KILL ${what} ${threadId}`).catch((error: { errno?: number }) => {
      if (error.errno !== 1094) throw error;
    });
  }

  async ping(): Promise<void> {
    await this.#admin.query("SELECT 1");
  }

  async drop(name: string): Promise<void> {
    await this.#admin.query(`DROP DATABASE IF EXISTS ${name}`);
    await this.#admin.query(`DROP USER IF EXISTS '${name}'@'${this.#address.host}'`);
  }

  /** Row hashes of a table, read with our own rights; undefined where it cannot be read or is too large. */
  async rowHashes(database: string, table: DbTable): Promise<string[] | undefined> {
    const list = table.columns.map((column) => quoteName(column.name)).join(",");
    const sql = `SELECT ${list} FROM ${database}.${quoteName(table.name)}`;
    const connection = await this.#admin.getConnection();
    const hashes: string[] = [];
    let bytes = 0;
    try {
      const end = await streamRows(connection.connection as unknown as Connection, sql, GRADING_TIMEOUT_MS, (row) => {
        bytes += row.reduce<number>((sum, cell) => sum + (typeof cell === "string" ? cell.length : 8), 0);
        hashes.push(rowHash(row));
        return hashes.length <= MAX_GRADED_ROWS && bytes <= MAX_GRADED_BYTES;
      });
      if (end.type === "done") {
        connection.release();
        return hashes;
      }
      // The rest of the rows is on its way: the connection is of no more use.
      connection.destroy();
      if (end.type === "timeout") throw new Error(`reading a table for grading took over ${GRADING_TIMEOUT_MS} ms`);
      return undefined;
    } catch (error) {
      if (isLost(error)) connection.destroy();
      else connection.release();
      // The table or one of its columns is gone.
      if (!isLost(error) && (error as { errno?: number }).errno !== undefined) return undefined;
      throw error;
    }
  }

  /** As MySQL 8 compares texts, where the server knows that collation; our own server has it by default. */
  async #collation(connection: AdminConnection): Promise<string> {
    if (this.#server !== undefined) return " COLLATE utf8mb4_uca1400_nopad_ai_ci";
    const [found] = await connection.query("SHOW COLLATION WHERE Collation = 'utf8mb4_uca1400_nopad_ai_ci'");
    return (found as unknown[]).length > 0 ? " COLLATE utf8mb4_uca1400_nopad_ai_ci" : "";
  }
}

class MariadbDatabase implements SqlDatabase {
  readonly #engine: MariadbEngine;
  readonly #name: string;
  readonly #password: string;
  readonly #tables: readonly DbTable[];
  readonly #timeout: number;
  #connection: Connection | undefined;
  #released = false;

  constructor(engine: MariadbEngine, name: string, password: string, tables: readonly DbTable[], timeout: number) {
    this.#engine = engine;
    this.#name = name;
    this.#password = password;
    this.#tables = tables;
    this.#timeout = timeout;
  }

  async execute(sql: string): Promise<SqlResult> {
    if (sql.length > MAX_LENGTH) return { ok: false, text: `Error: ${TOO_LONG}` };
    const text = new RowsText();
    try {
      this.#connection ??= await this.#engine.connect(this.#name, this.#password);
      const { threadId } = this.#connection;
      const end = await streamRows(
        this.#connection,
        sql,
        this.#timeout * 1000,
        (row) => text.add(row),
        () => this.#engine.kill(threadId, "QUERY"),
      );
      if (end.stuck) await this.#disconnect();
      // Told to stop after it had ended, the server would stop the next statement.
      else if (end.type !== "done") await this.#pass(this.#connection);
      return end.type === "timeout" ? tooSlow(this.#timeout) : { ok: true, text: text.toString() };
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      if (!isLost(error)) return { ok: false, text: `Error: ${error.message}` };
      await this.#disconnect();
      // The server is there: then the statement ended its own connection, changed its password, or dropped its database.
      await this.#engine.ping();
      return { ok: false, text: "Error: the connection was closed; the next statement opens a new one" };
    }
  }

  async md5(): Promise<string | undefined> {
    // AgentBench commits after each statement.
    await this.execute("COMMIT");
    await this.execute("UNLOCK TABLES");
    const hashes: (string | undefined)[] = [];
    for (const table of this.#tables) {
      const rows = await this.#engine.rowHashes(this.#name, table);
      if (rows === undefined) return undefined;
      hashes.push(joinRowHashes(rows));
    }
    return tablesMd5(hashes);
  }

  async release(): Promise<void> {
    if (this.#released) return;
    this.#released = true;
    await this.#disconnect();
    await this.#engine.drop(this.#name);
  }

  #pass(connection: Connection): Promise<void> {
    return new Promise((resolve) => connection.query("DO 0", () => resolve()));
  }

  /** A statement that still runs would go on without its connection, and hold the database. */
  async #disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection === undefined) return;
    connection.destroy();
    await this.#engine.kill(connection.threadId, "CONNECTION");
  }
}

async function loadMysql(): Promise<Mysql> {
  try {
    const { default: mysql } = await import("mysql2");
    return mysql;
  } catch (cause) {
    throw new AgentRLError("ENVIRONMENT", 'dbbench: engine "mariadb" needs the package mysql2', {
      hint: "npm install mysql2",
      cause,
    });
  }
}

function socketAddress(socketPath: string): Address {
  return { connect: { socketPath, user: "root" }, host: "localhost" };
}

/** A unix socket's path (for its root user), or mysql://user:password@host:port. */
export function parseEndpoint(endpoint: string): Address {
  if (endpoint.startsWith("/")) return socketAddress(endpoint);
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (url?.protocol === "mysql:" && url.hostname !== "") {
    return {
      connect: {
        host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
        port: url.port === "" ? 3306 : Number(url.port),
        user: decodeURIComponent(url.username) || "root",
        password: decodeURIComponent(url.password),
      },
      host: "%",
    };
  }
  throw new AgentRLError("CONFIG", "dbbench: the endpoint is no address of a MySQL server", {
    got: endpoint,
    expected: "the path of a unix socket, or mysql://user:password@host:port",
  });
}

async function createTable(connection: AdminConnection, database: string, table: DbTable): Promise<void> {
  const name = `${database}.${quoteName(table.name)}`;
  const columns = table.columns.map((column) => `${quoteName(column.name)} ${column.type}`);
  await connection.query(`CREATE TABLE ${name} (${columns.join(",")})`);
  let values: string[] = [];
  let bytes = 0;
  const insert = async () => {
    if (values.length > 0) await connection.query(`INSERT INTO ${name} VALUES ${values.join(",")}`);
    values = [];
    bytes = 0;
  };
  for (const row of table.rows) {
    const text = `(${row.map(quoteValue).join(",")})`;
    if (bytes + text.length > INSERT_BYTES) await insert();
    values.push(text);
    bytes += Buffer.byteLength(text);
  }
  await insert();
}

function quoteName(name: string): string {
  return `\`${name.replaceAll("`", "``")}\``;
}

function quoteValue(value: string | number): string {
  return typeof value === "number" ? String(value) : `'${value.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
}
