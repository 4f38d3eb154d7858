/** What several commands share: option parsers, the --json file, small tables. */
import { accessSync, constants, existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { AgentRLError } from "../errors.ts";
import { diskError } from "../observe/metrics.ts";

/** Parser of an option that takes a whole number from `least` to `most`. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  const expected = most === Number.MAX_SAFE_INTEGER ? `≥ ${least}` : `from ${least} to ${most}`;
  return (text) => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isSafeInteger(value) || value < least || value > most) {
      throw new InvalidArgumentError(`Expected a whole number ${expected}.`);
    }
    return value;
  };
}

/** Parser of an option that takes a number from `least` to `most`. */
export function numberFrom(least: number, most = Number.POSITIVE_INFINITY): (text: string) => number {
  const expected = Number.isFinite(most) ? `from ${least} to ${most}` : `≥ ${least}`;
  return (text) => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value) || value < least || value > most) {
      throw new InvalidArgumentError(`Expected a number ${expected}.`);
    }
    return value;
  };
}

/** Parser of an option that may be given several times. */
export function collect(text: string, before: string[] = []): string[] {
  return [...before, text];
}

/** The same, of an option whose values are numbers. */
export function collectNumbers(parse: (text: string) => number): (text: string, before?: number[]) => number[] {
  return (text, before = []) => [...before, parse(text)];
}

/** The `--setting` flags, `key=value`; a value that reads as a number or a boolean is one. */
export function settingsFrom(
  pairs: readonly string[] | undefined,
): Record<string, string | number | boolean> | undefined {
  if (pairs === undefined) return undefined;
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at < 1) {
        throw new AgentRLError("USAGE", "A --setting flag cannot be applied.", {
          got: pair,
          expected: "key=value",
          hint: "Quote the flag if the shell splits it.",
        });
      }
      const text = pair.slice(at + 1);
      const value =
        text === "true" ? true : text === "false" ? false : /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
      return [pair.slice(0, at), value];
    }),
  );
}

/** Keys come from the environment: what stands on a command line is read by every process of the machine. */
export function secretFrom(name: string, command: string): string {
  const key = process.env[name];
  if (key !== undefined && key !== "") return key;
  throw new AgentRLError("USAGE", "The API key's variable is not set.", {
    got: name,
    expected: "the name of an environment variable that holds the key",
    hint: `For example ${name.toUpperCase() === name ? name : "API_KEY"}=… ${command} …`,
  });
}

export function addJson(command: Command): Command {
  return command.option("--json <file>", "write the result as JSON");
}

export function addSet(command: Command): Command {
  return command.option(
    "--set <path=value>",
    "override one key of the config, for example rollout.groupSize=4 (repeatable)",
    collect,
  );
}

/**
 * A writer for the --json file. Made before the work starts, so that a path that cannot be written ends the command at
 * once and not after an hour. Without a file it writes nothing.
 */
export function jsonWriter(file: string | undefined, option = "--json"): (value: unknown) => void {
  if (file === undefined) return () => {};
  try {
    mkdirSync(dirname(file), { recursive: true });
    accessSync(existsSync(file) ? file : dirname(file), constants.W_OK);
  } catch (cause) {
    throw diskError(`The ${option} file cannot be written`, file, cause);
  }
  return (value) => {
    try {
      // A reader sees the old file or the whole new one. Devices (/dev/stdout) cannot be renamed over.
      const target = file.startsWith("/dev/") ? file : `${file}.tmp`;
      writeFileSync(target, `${JSON.stringify(value, null, 2)}\n`);
      if (target !== file) renameSync(target, file);
    } catch (cause) {
      throw diskError(`The ${option} file cannot be written`, file, cause);
    }
  };
}

/** Columns padded to equal width; numbers to the right. */
export function table(rows: readonly (readonly (string | number)[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => String(row[column] ?? "").length)));
  // A column is numeric when everything below its heading starts like a number.
  const numeric = widths.map((_, c) => rows.slice(1).every((row) => /^[-+]?(\d|—|$)/.test(String(row[c] ?? ""))));
  return rows
    .map((row) =>
      widths
        .map((width, c) => (numeric[c] ? String(row[c] ?? "").padStart(width) : String(row[c] ?? "").padEnd(width)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** 0.7349 → "73.5 %". */
export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
