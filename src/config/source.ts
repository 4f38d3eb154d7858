/**
 * A config as it was written: the YAML file with the place of every key, and the `--set path=value` flags laid over it.
 * Keeps who set what, so that an error can name the line or the flag.
 */
import { readFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  LineCounter,
  type Node,
  parse,
  parseDocument,
} from "yaml";
import { AgentRLError } from "../errors.ts";

export class ConfigSource {
  /** What was written, as plain data. */
  readonly data: Record<string, unknown>;
  readonly file: string;
  readonly #document: Document;
  readonly #lines: LineCounter;
  /** Dotted path → the flag that set it. */
  readonly #flags = new Map<string, string>();
  readonly #flagFolder: string;

  /**
   * @param flagFolder Folder that relative paths in `sets` refer to.
   * @throws AgentRLError CONFIG for an unreadable file or malformed YAML, USAGE for a malformed --set.
   */
  constructor(file: string, sets: readonly string[] = [], flagFolder: string = process.cwd()) {
    this.file = file;
    this.#flagFolder = flagFolder;
    this.#lines = new LineCounter();
    this.#document = parseDocument(readConfig(file), { lineCounter: this.#lines, prettyErrors: false });
    const problem = this.#document.errors[0] ?? this.#document.warnings[0];
    if (problem) {
      throw new AgentRLError("CONFIG", `The config is not valid YAML: ${problem.message}`, {
        where: this.#place(problem.pos[0]),
        expected: "YAML: `key: value` lines, sections indented by spaces",
        hint: "Correct this line.",
      });
    }
    const data: unknown = this.#toPlain();
    if (data === null || typeof data !== "object" || Array.isArray(data)) {
      throw new AgentRLError("CONFIG", "The config is not a map of sections.", {
        where: display(file),
        got: data ?? "an empty file",
        expected: "YAML: `key: value` lines at the top level",
        hint: "Start from models/tiny/demo.yaml.",
      });
    }
    this.data = data as Record<string, unknown>;
    for (const set of sets) this.#apply(set);
  }

  /** Folder that relative paths at `path` refer to: the config file's, or the flags'. */
  baseOf(path: readonly PropertyKey[]): string {
    return this.#flagAt(path) === undefined ? dirname(resolve(this.file)) : this.#flagFolder;
  }

  /** Where `path` was written: "demo.yaml:12:5 (rollout.groupSize)" or "--set rollout.groupSize=x". */
  where(path: readonly PropertyKey[]): string {
    const flag = this.#flagAt(path);
    if (flag !== undefined) return flag;
    const dotted = path.map(String).join(".");
    const offset = this.#offsetOf(path);
    const place = offset === undefined ? display(this.file) : this.#place(offset);
    return dotted === "" ? place : `${place} (${dotted})`;
  }

  /** Orders places as a reader meets them: the file from top to bottom, then the flags. */
  order(path: readonly PropertyKey[]): number {
    return this.#flagAt(path) === undefined ? (this.#offsetOf(path) ?? 0) : Number.MAX_SAFE_INTEGER;
  }

  /** Dotted paths of all values that somebody wrote. */
  explicit(): string[] {
    return [...leafPaths(this.data)];
  }

  #toPlain(): unknown {
    try {
      return this.#document.toJS();
    } catch (cause) {
      throw new AgentRLError("CONFIG", `The config is not valid YAML: ${(cause as Error).message}`, {
        where: display(this.file),
        hint: "Write the repeated part out instead of using aliases.",
        cause,
      });
    }
  }

  #flagAt(path: readonly PropertyKey[]): string | undefined {
    for (let length = path.length; length > 0; length--) {
      const flag = this.#flags.get(path.slice(0, length).map(String).join("."));
      if (flag !== undefined) return flag;
    }
    return undefined;
  }

  /** Offset in the file of the key at `path`, or of the deepest part of it that exists. */
  #offsetOf(path: readonly PropertyKey[]): number | undefined {
    let node: Node | null | undefined = this.#document.contents as Node | null;
    let offset = node?.range?.[0];
    for (const part of path) {
      if (isAlias(node)) node = (node as { resolve(doc: Document): Node }).resolve(this.#document);
      if (!isCollection(node)) break;
      if (isMap(node)) {
        const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(part));
        if (!pair) break;
        offset = (pair.key as Node).range?.[0] ?? offset;
        node = pair.value as Node | null;
      } else {
        const item = node.items[Number(part)];
        if (item === undefined || isPair(item)) break;
        node = item as Node;
        offset = node.range?.[0] ?? offset;
      }
    }
    return offset;
  }

  #place(offset: number): string {
    const { line, col } = this.#lines.linePos(offset);
    return `${display(this.file)}:${line}:${col}`;
  }

  /** `a.b=value` with a YAML value. Null (or nothing) removes the key, so that its default applies. */
  #apply(set: string): void {
    const flag = `--set ${set}`;
    const refusal = (got: string, expected: string, hint: string) =>
      new AgentRLError("USAGE", "A --set flag cannot be applied.", { where: flag, got, expected, hint });
    const equals = set.indexOf("=");
    const path = equals < 0 ? [] : set.slice(0, equals).trim().split(".");
    if (path.length === 0 || !path.every((part) => /^([A-Za-z][A-Za-z0-9_-]*|\d+)$/.test(part))) {
      throw refusal(set, "path=value, for example rollout.groupSize=4", "Quote the flag if the shell splits it.");
    }
    let value: unknown;
    try {
      value = parse(set.slice(equals + 1)) ?? null;
    } catch (cause) {
      throw refusal((cause as Error).message, "a YAML value", "Put the value in quotes.");
    }

    let at: Record<string, unknown> | unknown[] = this.data;
    const resolved: string[] = [];
    for (const [depth, part] of path.entries()) {
      const last = depth === path.length - 1;
      let key: string | number = part;
      if (Array.isArray(at)) {
        // A task may be named instead of counted: tasks.dbbench.weight=2.
        key = /^\d+$/.test(part)
          ? Number(part)
          : at.findIndex((item) => (item as { name?: unknown } | null)?.name === part);
        if (key < 0 || key > at.length || (key === at.length && !last)) {
          const names = at.map((item, i) => String((item as { name?: unknown } | null)?.name ?? i)).join(", ");
          throw refusal(part, `an index from 0 to ${at.length - 1}, or one of ${names}`, "Name an entry of the list.");
        }
      }
      resolved.push(String(key));
      const box = at as Record<string | number, unknown>;
      if (last) {
        if (value !== null) box[key] = value;
        else if (Array.isArray(at)) at.splice(Number(key), 1);
        else delete box[key];
      } else {
        const child = Object.hasOwn(box, key) ? (box[key] ?? {}) : {};
        if (typeof child !== "object") {
          throw refusal(JSON.stringify(child), `a section at ${resolved.join(".")}`, "Check the path.");
        }
        box[key] = child;
        at = child as Record<string, unknown>;
      }
    }
    this.#flags.set(resolved.join("."), flag);
  }
}

function readConfig(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new AgentRLError("CONFIG", "The config file cannot be read.", {
      where: file,
      got: (cause as Error).message,
      expected: "a YAML file",
      hint: "Check the path; models/tiny/demo.yaml is an example.",
      cause,
    });
  }
}

/** Relative to the working folder where that is shorter to read. */
export function display(file: string): string {
  const short = relative(process.cwd(), resolve(file));
  return short.startsWith("..") ? file : short;
}

/** Dotted paths of everything in `value` that is not a map or a list. */
export function* leafPaths(value: unknown, prefix = ""): Generator<string> {
  if (value !== null && typeof value === "object") {
    for (const [key, child] of Object.entries(value)) yield* leafPaths(child, prefix === "" ? key : `${prefix}.${key}`);
  } else if (prefix !== "") {
    yield prefix;
  }
}
