/** JSON inside a turn: where a value ends, what it says, and how it is written. */
import { type CallContent, isRecord } from "./format.ts";

/** JSON with `, ` and `: ` between items: what Python's json.dumps, and so the chat templates' `tojson`, writes. */
export function formatJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(formatJson).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    const items = Object.entries(value).filter(([, item]) => item !== undefined);
    return `{${items.map(([key, item]) => `${JSON.stringify(key)}: ${formatJson(item)}`).join(", ")}}`;
  }
  if (typeof value === "number") return pythonNumber(value);
  return JSON.stringify(value) ?? "null";
}

/** Python writes small numbers with an exponent sooner than JavaScript, and the exponent with two digits. */
export function pythonNumber(value: number): string {
  if (value === 0 || Math.abs(value) >= 1e-4) return JSON.stringify(value);
  return value.toExponential().replace(/e-(\d)$/, "e-0$1");
}

/** Index after the object or list that starts at `from`, by its brackets; -1 while it is open. */
export function jsonEnd(text: string, from: number): number {
  let depth = 0;
  let inString = false;
  for (let i = from; i < text.length; i++) {
    const character = text[i];
    if (inString) {
      if (character === "\\") i++;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") {
      depth--;
      if (depth === 0) return i + 1;
    }
  }
  return -1;
}

/** undefined where the text is not JSON. */
export function tryJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** {"name": non-empty string, KEY: object} with one of the keys. */
export function toCall(value: unknown, ...keys: string[]): CallContent | undefined {
  if (!isRecord(value)) return undefined;
  const { name } = value;
  const args = keys.map((key) => value[key]).find((item) => item !== undefined);
  if (typeof name !== "string" || name === "" || !isRecord(args)) return undefined;
  return { name, arguments: args };
}

/** A call, or a list of one or more; undefined when anything in it is not one. */
export function toCalls(value: unknown, ...keys: string[]): CallContent[] | undefined {
  const calls = (Array.isArray(value) ? value : [value]).map((item) => toCall(item, ...keys));
  return calls.length > 0 && calls.every((call) => call !== undefined) ? calls : undefined;
}
