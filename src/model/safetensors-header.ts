/**
 * The header of a safetensors file, checked so far that no tensor can be read wrongly later: every entry well formed,
 * no name twice, sizes that are the shapes', and tensors that cover the data exactly.
 */
import { AgentRLError } from "../errors.ts";

export interface TensorInfo {
  dtype: string;
  shape: number[];
}

const fetchAgain = "Fetch or export the file again; compare its size and checksum with the source's.";

export interface TensorEntry extends TensorInfo {
  /** Byte offsets into the data section. */
  start: number;
  end: number;
}

export interface Header {
  entries: ReadonlyMap<string, TensorEntry>;
  metadata: Readonly<Record<string, string>>;
}

/** Bytes an element, for every dtype of the format. Only F32, F16 and BF16 can be read as numbers here. */
export const bytesPerElement: Record<string, number> = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  F8_E8M0: 1,
  U16: 2,
  I16: 2,
  F16: 2,
  BF16: 2,
  U32: 4,
  I32: 4,
  F32: 4,
  U64: 8,
  I64: 8,
  F64: 8,
  C64: 8,
};

/** The error of a damaged file. */
export function malformed(file: string, what: string, got: string, expected: string): AgentRLError {
  return new AgentRLError("MODEL_FILE", `The safetensors file ${what}.`, {
    where: file,
    got,
    expected,
    hint: fetchAgain,
  });
}

/** `raw` is the header's bytes, `dataBytes` what follows it in the file. @throws AgentRLError MODEL_FILE */
export function parseHeader(file: string, raw: Uint8Array, dataBytes: number): Header {
  let header: unknown;
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(raw);
    header = JSON.parse(text);
  } catch (cause) {
    throw new AgentRLError("MODEL_FILE", "The safetensors file has a corrupt header.", {
      where: file,
      got: (cause as Error).message,
      expected: "a JSON object in UTF-8",
      hint: fetchAgain,
      cause,
    });
  }
  if (!isRecord(header)) {
    throw malformed(file, "has a corrupt header", JSON.stringify(header).slice(0, 100), "a JSON object");
  }
  const duplicate = findDuplicateKey(text);
  if (duplicate !== undefined) {
    throw malformed(file, `names "${duplicate}" twice`, `two entries "${duplicate}"`, "unique names");
  }

  const entries: [string, TensorEntry][] = [];
  let metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(header)) {
    if (name === "__metadata__") {
      if (!isRecord(value) || !Object.values(value).every((item) => typeof item === "string")) {
        throw malformed(file, "has corrupt metadata", JSON.stringify(value).slice(0, 100), "a map of strings");
      }
      metadata = value as Record<string, string>;
      continue;
    }
    entries.push([name, parseEntry(file, name, value)]);
  }

  // The format allows neither holes nor overlaps: the tensors cover the data section exactly.
  entries.sort(([, a], [, b]) => a.start - b.start || a.end - b.end);
  let covered = 0;
  for (const [name, { start, end }] of entries) {
    if (end > dataBytes) {
      throw malformed(
        file,
        `is truncated, or tensor "${name}" lies outside it`,
        `offsets [${start}, ${end}] with ${dataBytes} bytes of data`,
        `offsets within [0, ${dataBytes}]`,
      );
    }
    if (start !== covered) {
      throw malformed(
        file,
        `has tensor "${name}" ${start < covered ? "overlapping another" : "after a hole"}`,
        `data_offsets [${start}, ${end}]`,
        `data_offsets that start at ${covered}`,
      );
    }
    covered = end;
  }
  if (covered !== dataBytes) {
    throw malformed(file, "does not end at its last tensor", `${dataBytes} bytes of data`, `${covered} bytes of data`);
  }
  return { entries: new Map(entries), metadata };
}

function parseEntry(file: string, name: string, value: unknown): TensorEntry {
  const bad = (what: string, got: unknown, expected: string): AgentRLError =>
    malformed(file, `has tensor "${name}" with ${what}`, JSON.stringify(got) ?? "nothing", expected);
  if (!isRecord(value)) throw bad("a malformed entry", value, "{dtype, shape, data_offsets}");
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== "string" || !Object.hasOwn(bytesPerElement, dtype)) {
    throw bad("an unknown dtype", dtype, `one of ${Object.keys(bytesPerElement).join(", ")}`);
  }
  if (!Array.isArray(shape) || !shape.every(isSize)) throw bad("a malformed shape", shape, "a list of sizes");
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isSize)) {
    throw bad("malformed data_offsets", offsets, "[start, end]");
  }
  const [start, end] = offsets as [number, number];
  const bytes = shape.reduce((a: number, b: number) => a * b, bytesPerElement[dtype]!);
  if (end - start !== bytes) {
    throw bad("a size that is not its shape's", end - start, `${bytes} bytes for ${dtype} [${shape.join(", ")}]`);
  }
  return { dtype, shape: shape as number[], start, end };
}

/** JSON.parse keeps the last of two equal keys in silence; here that would be a wrong tensor. `json` is valid JSON. */
function findDuplicateKey(json: string): string | undefined {
  const scopes: Set<string>[] = [];
  let last = "";
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}:]/g)) {
    if (token === "{") scopes.push(new Set());
    else if (token === "}") scopes.pop();
    else if (token === ":") {
      const key = JSON.parse(last) as string;
      const scope = scopes.at(-1)!;
      if (scope.has(key)) return key;
      scope.add(key);
    } else last = token;
  }
  return undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
