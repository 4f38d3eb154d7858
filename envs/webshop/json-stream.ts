/**
 * The members of one large JSON array or object, one at a time: the original catalogue is larger than the longest string
 * that JavaScript can hold.
 */
import { closeSync, openSync, readSync } from "node:fs";
import { StringDecoder } from "node:string_decoder";
import { reading } from "../../src/env/sample-file.ts";
import { AgentRLError } from "../../src/errors.ts";

export interface Member {
  /** Set for the members of an object. */
  key: string | undefined;
  value: unknown;
  /** Counted from 0. */
  index: number;
}

const CHUNK = 1 << 20;
const [QUOTE, BACKSLASH, COMMA] = [...'"\\,'].map((char) => char.charCodeAt(0));
const OPENING = new Set([..."[{"].map((char) => char.charCodeAt(0)));
const CLOSING = new Set([..."]}"].map((char) => char.charCodeAt(0)));

/** Throws SAMPLE_FILE for what cannot be read, is no JSON, or ends too early. */
export function* jsonMembers(path: string): Generator<Member> {
  let kind: "[" | "{" | undefined;
  let depth = 0;
  let inString = false;
  let escaped = false;
  let pending = "";
  let index = 0;
  for (const text of chunks(path)) {
    let start = 0;
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (inString) {
        if (escaped) escaped = false;
        else if (code === BACKSLASH) escaped = true;
        else if (code === QUOTE) inString = false;
      } else if (code === QUOTE) inString = true;
      else if (OPENING.has(code) && depth++ === 0) {
        kind = text[at] as "[" | "{";
        start = at + 1;
      } else if (CLOSING.has(code) ? --depth === 0 : code === COMMA && depth === 1) {
        const member = pending + text.slice(start, at);
        if (member.trim() !== "" || index > 0) yield parseMember(member, kind!, { path, index });
        index++;
        pending = "";
        start = at + 1;
      }
    }
    if (depth > 0) pending += text.slice(start);
  }
  if (kind === undefined || depth !== 0) throw broken(path, index, "the file ends too early", pending);
}

function parseMember(text: string, kind: "[" | "{", { path, index }: { path: string; index: number }): Member {
  try {
    if (kind === "[") return { key: undefined, value: JSON.parse(text), index };
    const [entry] = Object.entries(JSON.parse(`{${text}}`) as Record<string, unknown>);
    return { key: entry![0], value: entry![1], index };
  } catch (cause) {
    throw broken(path, index, `not JSON: ${cause instanceof Error ? cause.message : cause}`, text, cause);
  }
}

function* chunks(path: string): Generator<string> {
  const expected = "a readable file of the WebShop catalogue";
  const file = reading(path, () => openSync(path, "r"), { what: "the file", expected });
  const decoder = new StringDecoder("utf8");
  const buffer = Buffer.allocUnsafe(CHUNK);
  try {
    for (;;) {
      const bytes = reading(path, () => readSync(file, buffer), { what: "the file", expected });
      if (bytes === 0) break;
      yield decoder.write(buffer.subarray(0, bytes));
    }
  } finally {
    closeSync(file);
  }
}

function broken(path: string, index: number, what: string, text: string, cause?: unknown): AgentRLError {
  return new AgentRLError("SAMPLE_FILE", what, {
    where: `${path}, entry ${index} (counted from 0)`,
    got: text.trim().slice(-80),
    expected: "one complete JSON array or object",
    hint: "the file may be truncated: fetch it again and compare its size",
    cause,
  });
}
