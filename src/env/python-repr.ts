/**
 * Python's repr of a list of row tuples, which is what AgentBench shows a policy: `[('Ann', 3), ('Bob', None)]`, cut at
 * 800 characters.
 */

/** A cell as the engine gives it: `bigint` for integers, `number` for floats. */
export type Cell = string | number | bigint | null | Uint8Array | PythonObject;

/** A value of a type that Python has and JavaScript has not: decimals, dates. */
export class PythonObject {
  readonly text: string;
  readonly repr: string;

  constructor(text: string, repr: string) {
    this.text = text;
    this.repr = repr;
  }

  /** As MySQL writes it. */
  toString(): string {
    return this.text;
  }

  static decimal(text: string): PythonObject {
    return new PythonObject(text, `Decimal('${text}')`);
  }

  /** From MySQL's `YYYY-MM-DD[ hh:mm:ss[.ffffff]]`; what Python's datetime cannot hold, such as month 0, is None. */
  static date(text: string): PythonObject {
    const [date = "", time] = text.split(" ");
    const parts = date.split("-").map(Number);
    if (parts.includes(0)) return new PythonObject(text, "None");
    if (time === undefined) return new PythonObject(text, `datetime.date(${parts.join(", ")})`);
    const [hour = 0, minute = 0, second = 0, micros = 0] = time
      .split(/[:.]/)
      .map((part, at) => Number(at === 3 ? part.padEnd(6, "0") : part));
    const shown = [...parts, hour, minute, ...(micros > 0 ? [second, micros] : second > 0 ? [second] : [])];
    return new PythonObject(text, `datetime.datetime(${shown.join(", ")})`);
  }
}

export const RESULT_LIMIT = 800;

/** Python's repr of a str: single quotes unless the text has one and no double quote. */
export function reprString(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let out = quote;
  for (const char of text) {
    const code = char.codePointAt(0)!;
    if (char === quote || char === "\\") out += `\\${char}`;
    else if (char === "\n") out += "\\n";
    else if (char === "\r") out += "\\r";
    else if (char === "\t") out += "\\t";
    else if (code < 0x100 && !isPrintable(char)) out += `\\x${code.toString(16).padStart(2, "0")}`;
    else if (code < 0x10000 && !isPrintable(char)) out += `\\u${code.toString(16).padStart(4, "0")}`;
    else if (!isPrintable(char)) out += `\\U${code.toString(16).padStart(8, "0")}`;
    else out += char;
  }
  return out + quote;
}

/** Python's str.isprintable for one character: no "other" or "separator" category, except the space. */
function isPrintable(char: string): boolean {
  return char === " " || !/[\p{C}\p{Z}]/u.test(char);
}

/** Python's repr of a float: shortest digits, exponent form below 1e-4 and from 1e16 on. */
export function reprFloat(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const size = Math.abs(value);
  if (size >= 1e16 || size < 1e-4) {
    const [digits, exponent] = value.toExponential().split("e") as [string, string];
    const power = Math.abs(Number(exponent)).toString().padStart(2, "0");
    return `${digits}e${exponent.startsWith("-") ? "-" : "+"}${power}`;
  }
  const text = String(value);
  return text.includes(".") ? text : `${text}.0`;
}

export function reprCell(cell: Cell): string {
  if (cell === null) return "None";
  if (typeof cell === "string") return reprString(cell);
  if (typeof cell === "bigint") return cell.toString();
  if (typeof cell === "number") return reprFloat(cell);
  if (cell instanceof PythonObject) return cell.repr;
  const ascii = (text: string) => text.replace(/[\x80-\xff]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16)}`);
  return `b${ascii(reprString(Buffer.from(cell).toString("latin1")))}`;
}

export function reprRow(row: readonly Cell[]): string {
  return row.length === 1 ? `(${reprCell(row[0]!)},)` : `(${row.map(reprCell).join(", ")})`;
}

/** The text of a list of rows as they come, cut with a notice. */
export class RowsText {
  #text = "[";
  #first = true;

  /** True while there is room: what comes after that does not change the text. */
  add(row: readonly Cell[]): boolean {
    this.#text += `${this.#first ? "" : ", "}${reprRow(row)}`;
    this.#first = false;
    return this.#text.length <= RESULT_LIMIT;
  }

  toString(): string {
    const text = `${this.#text}]`;
    return text.length > RESULT_LIMIT ? `${text.slice(0, RESULT_LIMIT)}[TRUNCATED]` : text;
  }
}

/** Stops drawing rows once the cut is certain, so endless results end. */
export function reprRows(rows: Iterable<readonly Cell[]>): string {
  const text = new RowsText();
  for (const row of rows) if (!text.add(row)) break;
  return text.toString();
}
