/**
 * AgentBench's grading of DB answers: numbers compare with a tolerance after commas and percent signs are gone, lists as
 * multisets of numbers or sets of texts, and changed tables by an MD5 over MD5 prefixes of their rows.
 */
import { createHash } from "node:crypto";
import type { Cell } from "../../src/env/python-repr.ts";

const NULLS = new Set(["", "none", "null", "undefined", "nan", "inf", "infinity", "-inf", "-infinity"]);
const TOLERANCE = 1e-2;

/** One answer in normal form. */
export function normalizeAnswer(value: string): string {
  let text = value
    .trim()
    .replace(/^['"]+|['"]+$/g, "")
    .trim();
  if (text.endsWith("%")) return text.slice(0, -1).trim();
  if (text.includes(",") && !text.startsWith("[") && !text.endsWith("]")) text = text.replaceAll(",", "");
  return NULLS.has(text.toLowerCase()) ? "0" : text;
}

/** Whether the committed answers equal the expected ones. */
export function answersMatch(given: readonly string[], expected: readonly string[]): boolean {
  const got = given.map(normalizeAnswer);
  const want = expected.map(normalizeAnswer);
  const gotNumbers = got.map(parseFloatLikePython);
  const wantNumbers = want.map(parseFloatLikePython);
  if (allNumbers(gotNumbers) && allNumbers(wantNumbers)) return sameNumbers(gotNumbers, wantNumbers);
  if (got.length === 1 && want.length === 1) return got[0] === want[0];
  const wanted = new Set(want);
  const gotten = new Set(got);
  return gotten.size === wanted.size && [...gotten].every((item) => wanted.has(item));
}

function allNumbers(values: (number | undefined)[]): values is number[] {
  return values.every((value) => value !== undefined);
}

/** Every given number takes the first expected one within the tolerance; none may be left over. */
function sameNumbers(given: readonly number[], expected: readonly number[]): boolean {
  if (given.length !== expected.length) return false;
  const left = [...expected];
  return given.every((value) => {
    const at = left.findIndex((other) => Math.abs(value - other) <= TOLERANCE);
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}

/** What Python's float() takes, less its names for infinity and nan, which normalise to 0 before. */
export function parseFloatLikePython(text: string): number | undefined {
  const trimmed = text.trim();
  if (!/^[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)([eE][+-]?\d+(_\d+)*)?$/.test(trimmed)) return undefined;
  return Number(trimmed.replaceAll("_", ""));
}

/**
 * MySQL's `md5(group_concat(rowhash order by rowhash))` over `substring(md5(concat_ws(',', columns)), 1, 5)`: a table's
 * fingerprint, whatever the order of its rows. Undefined for an empty table, where MySQL gives NULL.
 */
export function tableMd5(rows: Iterable<readonly Cell[]>): string | undefined {
  return joinRowHashes(Array.from(rows, rowHash));
}

export function rowHash(row: readonly Cell[]): string {
  return md5(row.filter((cell) => cell !== null).join(",")).slice(0, 5);
}

export function joinRowHashes(hashes: string[]): string | undefined {
  return hashes.length === 0 ? undefined : md5(hashes.sort().join(","));
}

/** The fingerprint of several tables together. */
export function tablesMd5(hashes: readonly (string | undefined)[]): string {
  return hashes
    .map((hash) => hash ?? "None")
    .sort()
    .join("_");
}

/** The hex digest inside AgentBench's `[('…',)]`. */
export function parseAnswerMd5(text: string): string {
  return text
    .replace(/^[[(]+|[\])]+$/g, "")
    .split(",")[0]!
    .trim()
    .replace(/^'+|'+$/g, "");
}

function md5(text: string): string {
  return createHash("md5").update(text).digest("hex");
}
