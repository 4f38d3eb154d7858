/**
 * Reading files of samples: one error form for all that can be wrong with one. It names the file, the line or entry, the
 * field, what was there and what was expected.
 */
import { readFileSync } from "node:fs";
import type { z } from "zod";
import { AgentRLError } from "../errors.ts";

export interface SampleFileOptions {
  /** Keep `5.0` apart from `5`: numbers written with a point or exponent arrive as strings, as Python would print them. */
  keepFloats?: boolean;
}

/** One JSON value a line; blank lines are skipped. Throws SAMPLE_FILE. */
export function parseJsonLines<S extends z.ZodType>(
  path: string,
  schema: S,
  options: SampleFileOptions = {},
): z.infer<S>[] {
  const samples: z.infer<S>[] = [];
  const lines = readText(path).split("\n");
  for (const [number, line] of lines.entries()) {
    if (line.trim() === "") continue;
    const where = `${path}, line ${number + 1}`;
    samples.push(check(parse(options.keepFloats ? quoteFloats(line) : line, where, line), schema, where));
  }
  return nonEmpty(samples, path);
}

/** One JSON array of samples. Throws SAMPLE_FILE. */
export function parseJsonArray<S extends z.ZodType>(path: string, schema: S): z.infer<S>[] {
  const text = readText(path);
  const value = parse(text, path, text);
  if (!Array.isArray(value)) {
    throw new AgentRLError("SAMPLE_FILE", "a sample file of this task is one JSON array", {
      where: path,
      got: typeof value,
      expected: "[{…}, {…}, …]",
      hint: "give the task's own file in AgentBench's format",
    });
  }
  return checkAll(value, schema, path);
}

/** One JSON file: an array of samples, or a single one. */
export function parseJsonSamples<S extends z.ZodType>(path: string, schema: S): z.infer<S>[] {
  const text = readText(path);
  const value = parse(text, path, text);
  return Array.isArray(value) ? checkAll(value, schema, path) : [check(value, schema, path)];
}

function checkAll<S extends z.ZodType>(entries: unknown[], schema: S, path: string): z.infer<S>[] {
  return nonEmpty(
    entries.map((entry, index) => check(entry, schema, `${path}, entry ${index} (counted from 0)`)),
    path,
  );
}

function readText(path: string): string {
  const expected = "a readable file in AgentBench's format";
  return reading(path, () => readFileSync(path, "utf8"), { what: "the sample file", expected });
}

/** Reads a file or folder by `read`. @throws AgentRLError SAMPLE_FILE, "`what` cannot be read", for whatever that throws. */
export function reading<T>(
  path: string,
  read: () => T,
  texts: { what: string; expected: string /** @default to check the path */; hint?: string },
): T {
  const { what, expected, hint = "check the path; relative paths start at the working directory" } = texts;
  try {
    return read();
  } catch (cause) {
    const got = cause instanceof Error ? cause.message : cause;
    throw new AgentRLError("SAMPLE_FILE", `${what} cannot be read`, { where: path, got, expected, hint, cause });
  }
}

function parse(text: string, where: string, original: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new AgentRLError("SAMPLE_FILE", `not JSON: ${cause instanceof Error ? cause.message : cause}`, {
      where,
      got: original.length > 80 ? `…${original.slice(-80)}` : original,
      expected: "one complete JSON value",
      hint: "the file may be truncated: fetch it again and compare its size",
      cause,
    });
  }
}

function check<S extends z.ZodType>(value: unknown, schema: S, where: string): z.infer<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const field = issue.path.map(String).join(".") || "(the entry itself)";
  throw new AgentRLError("SAMPLE_FILE", `field ${field}: ${issue.message}`, {
    where,
    got: at(value, issue.path) ?? "nothing",
    expected: "expected" in issue ? String(issue.expected) : issue.message,
    hint: "correct or remove this sample, or give a file in AgentBench's format",
  });
}

function at(value: unknown, path: readonly PropertyKey[]): unknown {
  let found = value;
  for (const key of path) {
    if (found === null || typeof found !== "object") return undefined;
    found = (found as Record<PropertyKey, unknown>)[key];
  }
  return found;
}

function nonEmpty<T>(samples: T[], path: string): T[] {
  if (samples.length > 0) return samples;
  throw new AgentRLError("SAMPLE_FILE", "the sample file holds no sample", {
    where: path,
    got: "0 samples",
    expected: "at least 1",
    hint: "the file may be truncated: fetch it again and compare its size",
  });
}

/** Puts quotes around the numbers outside strings that have a point or an exponent. */
function quoteFloats(line: string): string {
  return line.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (token) =>
    token.startsWith('"') || /^-?\d+$/.test(token) ? token : `"${token}"`,
  );
}
