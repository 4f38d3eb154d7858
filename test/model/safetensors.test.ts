/** The reader against files of Python's safetensors, the writer against the reader, and damaged files by their errors. */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentRLError } from "../../src/errors.ts";
import { openSafetensors, type Tensor, writeSafetensors } from "../../src/model/safetensors.ts";

const golden = path.join(import.meta.dirname, "../golden/safetensors");
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "safetensors-"));
});
afterAll(() => rm(folder, { recursive: true }));

function failure(action: () => unknown): AgentRLError {
  let error: unknown;
  try {
    action();
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(AgentRLError);
  return error as AgentRLError;
}

describe("reading what Python's safetensors wrote", () => {
  test("F32, F16 and BF16 values are exact, bit for bit where float32 can hold them", async () => {
    const expected = JSON.parse(await readFile(`${golden}.json`, "utf8")) as Record<
      string,
      { shape: number[]; values: (number | string)[] }
    >;
    const reader = openSafetensors(`${golden}.safetensors`);
    expect(reader.metadata).toEqual({ format: "pt", note: "é" });
    expect(reader.names().sort()).toEqual([...Object.keys(expected), "ids"].sort());
    for (const [name, { shape, values }] of Object.entries(expected)) {
      expect(reader.info(name)?.shape).toEqual(shape);
      const numbers = values.map((value) =>
        value === "inf" ? Infinity : value === "-inf" ? -Infinity : Number(value),
      );
      expect([...reader.read(name).data]).toEqual(numbers);
    }
    reader.close();
  });

  test("a tensor of integers, and a name that is not there, are errors that say so", async () => {
    const reader = openSafetensors(`${golden}.safetensors`);
    const integers = failure(() => reader.read("ids"));
    expect(integers.code).toBe("MODEL_FILE");
    expect(integers.message).toMatch(/"ids"[\s\S]*safetensors\.safetensors[\s\S]*I64[\s\S]*F32, F16 or BF16/);
    expect(failure(() => reader.read("nothing")).message).toMatch(/"nothing" is not in the file/);
    reader.close();
  });
});

describe("writing", () => {
  test("any tensors come back, and no temporary file stays", async () => {
    const tensor = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 3 }).chain((shape) => {
      const length = shape.reduce((a, b) => a * b, 1);
      return fc
        .array(fc.float({ noNaN: true }), { minLength: length, maxLength: length })
        .map((data): Tensor => ({ shape, data: Float32Array.from(data) }));
    });
    const name = fc.string({ unit: "grapheme" }).filter((text) => text !== "__metadata__");
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(name, tensor)), async (list) => {
        const tensors = new Map(list);
        const file = path.join(folder, "round.safetensors");
        writeSafetensors(file, tensors);
        const reader = openSafetensors(file);
        expect(reader.names().sort()).toEqual([...tensors.keys()].sort());
        for (const [key, { shape, data }] of tensors) {
          expect(reader.info(key)).toMatchObject({ dtype: "F32", shape });
          expect(reader.read(key)).toEqual({ shape, data });
        }
        reader.close();
      }),
      { numRuns: 60 },
    );
    expect((await readdir(folder)).filter((entry) => entry.endsWith(".tmp"))).toEqual([]);
  });

  test("the tensors start on a multiple of 8 bytes", async () => {
    const file = path.join(folder, "aligned.safetensors");
    writeSafetensors(file, new Map([["a", { shape: [1], data: Float32Array.of(1) }]]));
    expect((await readFile(file)).readBigUInt64LE() % 8n).toBe(0n);
  });

  test("data that does not fill its shape is refused; a folder that does not exist is a DISK error", async () => {
    const wrong = new Map([["w", { shape: [2, 2], data: new Float32Array(3) }]]);
    const shape = failure(() => writeSafetensors(path.join(folder, "x.safetensors"), wrong));
    expect(shape.message).toMatch(/"w"[\s\S]*3 elements for shape \[2, 2\][\s\S]*4 elements/);
    const disk = failure(() => writeSafetensors(path.join(folder, "no/such/x.safetensors"), new Map()));
    expect(disk.code).toBe("DISK");
  });
});

describe("damaged files end at once with an error that names file, tensor, got and expected", () => {
  const file = () => path.join(folder, "bad.safetensors");
  const write = async (header: string, data = 0, length = Buffer.byteLength(header)) => {
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(BigInt(length));
    await writeFile(file(), Buffer.concat([prefix, Buffer.from(header), Buffer.alloc(data)]));
  };
  const entry = (start: number, end: number, shape = [(end - start) / 4], dtype = "F32") =>
    JSON.stringify({ dtype, shape, data_offsets: [start, end] });

  const cases: [string, () => Promise<void>, RegExp][] = [
    ["empty", () => writeFile(file(), ""), /truncated[\s\S]*0 bytes/],
    ["header length beyond the file", () => write("{}", 0, 500), /truncated inside its header[\s\S]*500/],
    ["header length absurd", () => write("{}", 0, 2 ** 50), /impossible header length/],
    ["header not JSON", () => write("{nope", 4), /corrupt header/],
    ["header not an object", () => write("[]"), /corrupt header[\s\S]*JSON object/],
    ["truncated data", () => write(`{"w": ${entry(0, 16)}}`, 12), /"w"[\s\S]*\[0, 16\] with 12 bytes/],
    ["trailing data", () => write(`{"w": ${entry(0, 8)}}`, 12), /does not end at its last tensor[\s\S]*12[\s\S]*8/],
    ["overlap", () => write(`{"a": ${entry(0, 8)}, "b": ${entry(4, 12)}}`, 12), /"b" overlapping/],
    ["hole", () => write(`{"a": ${entry(0, 8)}, "b": ${entry(12, 16)}}`, 16), /"b" after a hole[\s\S]*start at 8/],
    ["dtype", () => write(`{"w": ${entry(0, 4, [1], "Q4")}}`, 4), /"w" with an unknown dtype[\s\S]*Q4/],
    ["shape", () => write(`{"w": ${entry(0, 8, [3])}}`, 8), /"w" with a size[\s\S]*8[\s\S]*12 bytes for F32 \[3\]/],
    ["negative shape", () => write(`{"w": ${entry(0, 4, [-1])}}`, 4), /"w" with a malformed shape/],
    ["duplicate name", () => write(`{"w": ${entry(0, 4)}, "\\u0077": ${entry(0, 4)}}`, 4), /names "w" twice/],
    ["entry", () => write('{"w": 3}'), /"w" with a malformed entry/],
    ["metadata", () => write('{"__metadata__": {"a": 1}}'), /corrupt metadata/],
  ];
  test.each(cases)("%s", async (_name, make, message) => {
    await make();
    const error = failure(() => openSafetensors(file()));
    expect(error.code).toBe("MODEL_FILE");
    expect(error.message).toMatch(message);
    expect(error.message).toContain(file());
    expect(error.detail.hint).toBeTruthy();
  });

  test("missing", async () => {
    const error = failure(() => openSafetensors(path.join(folder, "missing.safetensors")));
    expect(error.code).toBe("MODEL_FILE");
    expect(error.message).toMatch(/missing\.safetensors[\s\S]*ENOENT/);
  });

  test("any truncation of a good file is an error", async () => {
    const good = await readFile(`${golden}.safetensors`);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: good.length - 1 }), async (length) => {
        await writeFile(file(), good.subarray(0, length));
        expect(failure(() => openSafetensors(file())).code).toBe("MODEL_FILE");
      }),
      { numRuns: 60 },
    );
  });
});
