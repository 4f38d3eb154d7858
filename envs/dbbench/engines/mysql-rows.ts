/** Rows of a MySQL result as they come, with the types that Python's connector gives them. */
import type { Connection, TypeCastField, TypeCastNext } from "mysql2";
import { type Cell, PythonObject } from "../../../src/env/python-repr.ts";

/** How the reading of a result ended: whole, cut because enough was seen, or because time was up. */
export interface RowsEnd {
  type: "done" | "cut" | "timeout";
  /** The server did not stop the statement: the connection is of no more use. */
  stuck?: boolean;
}

/** A server is told again and again: one that is between two statements of a loop forgets it. */
const STOP_EVERY_MS = 100;
const STOP_TRIES = 30;

/**
 * Runs a statement. `onRow` returns false when it has seen enough; then, or when time is up, `stop` makes the server end the
 * statement, and the rest of the result is passed over. Without `stop` the connection is left as it is.
 * Rejects with mysql2's error for SQL that fails.
 */
export function streamRows(
  connection: Connection,
  sql: string,
  timeoutMs: number,
  onRow: (row: Cell[]) => boolean,
  stop?: () => Promise<void>,
): Promise<RowsEnd> {
  return new Promise((resolve, reject) => {
    let stopped: RowsEnd["type"] | undefined;
    let timer: NodeJS.Timeout;
    let settled = false;
    let stopping = Promise.resolve();
    const settle = (action: () => void) => {
      settled = true;
      clearTimeout(timer);
      action();
    };
    const stopAgain = (tries: number) => {
      if (settled) return;
      if (tries === 0) return settle(() => resolve({ type: stopped!, stuck: true }));
      timer = setTimeout(() => stopAgain(tries - 1), STOP_EVERY_MS);
      stopping = stop!().catch((error: unknown) => settle(() => reject(error)));
    };
    const halt = (why: "cut" | "timeout") => {
      if (stopped !== undefined) return;
      stopped = why;
      if (stop === undefined) return settle(() => resolve({ type: why }));
      clearTimeout(timer);
      stopAgain(STOP_TRIES);
    };
    timer = setTimeout(() => halt("timeout"), timeoutMs);
    // An order to stop that is still on its way must not meet the next statement.
    const finish = () => settle(() => stopping.then(() => resolve({ type: stopped ?? "done" })));
    connection
      .query({ sql, rowsAsArray: true, typeCast: castField })
      .on("result", (row) => {
        // A statement without rows gives a header object.
        if (stopped === undefined && Array.isArray(row) && !onRow(row as unknown as Cell[])) halt("cut");
      })
      .on("error", (error) => {
        if (stopped !== undefined && !isLost(error)) finish();
        else settle(() => reject(error));
      })
      .on("end", finish);
  });
}

/** Whether an error says that the connection, not the statement, is at fault. */
export function isLost(error: unknown): boolean {
  const { fatal, errno, code } = error as { fatal?: boolean; errno?: number; code?: string };
  return fatal === true || errno === 1927 || errno === 1053 || errno === 2013 || code === "PROTOCOL_CONNECTION_LOST";
}

export function castField(field: TypeCastField, next: TypeCastNext): Cell {
  switch (field.type) {
    case "TINY":
    case "SHORT":
    case "INT24":
    case "LONG":
    case "LONGLONG":
    case "YEAR":
      return map(field.string(), BigInt);
    case "FLOAT":
    case "DOUBLE":
      return map(field.string(), Number);
    case "DECIMAL":
    case "NEWDECIMAL":
      return map(field.string(), PythonObject.decimal);
    case "DATE":
    case "NEWDATE":
    case "DATETIME":
    case "DATETIME2":
    case "TIMESTAMP":
    case "TIMESTAMP2":
      return map(field.string(), PythonObject.date);
    case "TIME":
    case "TIME2":
      return field.string();
    default:
      // Text as a string, binary as bytes.
      return next() as Cell;
  }
}

function map(text: string | null, convert: (text: string) => Cell): Cell {
  return text === null ? null : convert(text);
}
