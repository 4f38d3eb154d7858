/**
 * Python's repr of a list of row tuples, which is what AgentBench shows a policy: `[('Ann', 3), ('Bob', None)]`, cut at
 * 800 characters.
 */

/** A cell as the engine gives it: `bigint` for integers, `number` for floats. */
export type Cell = string | number | bigint | null | Uint8Array;

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
  const ascii = (text: string) => text.replace(/[\x80-\xff]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16)}`);
  return `b${ascii(reprString(Buffer.from(cell).toString("latin1")))}`;
}

export function reprRow(row: readonly Cell[]): string {
  return row.length === 1 ? `(${reprCell(row[0]!)},)` : `(${row.map(reprCell).join(", ")})`;
}

/** The list of rows, cut with a notice. Stops drawing rows once the cut is certain, so endless results end. */
export function reprRows(rows: Iterable<readonly Cell[]>): string {
  let text = "[";
  let first = true;
  for (const row of rows) {
    if (!first) text += ", ";
    first = false;
    text += reprRow(row);
    if (text.length > RESULT_LIMIT) return `${text.slice(0, RESULT_LIMIT)}[TRUNCATED]`;
  }
  text += "]";
  return text.length > RESULT_LIMIT ? `${text.slice(0, RESULT_LIMIT)}[TRUNCATED]` : text;
}
