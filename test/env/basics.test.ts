import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { checkCall, defineTool, toolsAsJson } from "../../src/env/define.ts";
import { EnvironmentRegistry } from "../../src/env/registry.ts";
import { summarize } from "../../src/env/report.ts";
import { Rng } from "../../src/env/rng.ts";
import { parseJsonArray, parseJsonLines } from "../../src/env/sample-file.ts";
import { assertFrozen, canonicalJson, splitHash } from "../../src/env/split-hash.ts";
import { AgentRLError } from "../../src/errors.ts";

describe("Rng", () => {
  test("is the same on every run and machine", () => {
    const rng = new Rng("a", 1);
    expect([rng.next(), rng.next()]).toEqual([new Rng("a", 1).next(), expect.any(Number)]);
    expect(Array.from({ length: 5 }, () => rng.int(1000))).toMatchInlineSnapshot(`
      [
        916,
        768,
        298,
        647,
        578,
      ]
    `);
  });

  test("is uniform: mean and bins of 20,000 draws", () => {
    const rng = new Rng("uniform");
    const bins = new Array<number>(10).fill(0);
    let sum = 0;
    for (let i = 0; i < 20_000; i++) {
      const value = rng.next();
      sum += value;
      bins[Math.floor(value * 10)]!++;
    }
    // Standard error of the mean is 0.002, of a bin 42: five of them.
    expect(Math.abs(sum / 20_000 - 0.5)).toBeLessThan(0.01);
    for (const bin of bins) expect(Math.abs(bin - 2000)).toBeLessThan(215);
  });

  test("streams of neighbouring names are unrelated; shuffles are permutations", () => {
    const [a, b] = [new Rng("x", 1), new Rng("x", 2)];
    const same = Array.from({ length: 1000 }, () => a.int(2) === b.int(2)).filter(Boolean).length;
    expect(Math.abs(same - 500)).toBeLessThan(80);
    fc.assert(
      fc.property(fc.array(fc.integer()), fc.string(), (items, name) => {
        const shuffled = new Rng(name).shuffle(items);
        expect([...shuffled].sort()).toEqual([...items].sort());
      }),
    );
  });
});

describe("split hashes", () => {
  test("canonical JSON sorts keys and leaves out undefined", () => {
    expect(canonicalJson({ b: [1, null, "x"], a: { d: undefined, c: true } })).toBe(
      '{"a":{"c":true},"b":[1,null,"x"]}',
    );
  });

  test("canonical JSON parses back to the same value", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test("the hash is SHA-256 of the whole list's canonical JSON", () => {
    // printf '[{"a":1},{"a":2}]' | sha256sum
    expect(splitHash([{ a: 1 }, { a: 2 }])).toBe("99fadecef60e156ff21aff799671271e5fba37d003cce74da416587190ad9b14");
    expect(splitHash([])).toBe("4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945");
  });

  test("a changed split is an error that says where and what to do", () => {
    expect(() => assertFrozen("dbbench", "eval", { count: 1, sha256: "aa" }, "bb")).toThrow(
      /splits.json[\s\S]*bb[\s\S]*aa[\s\S]*freeze/,
    );
  });
});

describe("tools", () => {
  const tools = [defineTool("add", "Adds.", { a: z.string().describe("One."), list: z.array(z.string()) })];

  test("schemas on the wire have names, descriptions and required members", () => {
    expect(toolsAsJson(tools)).toEqual([
      {
        type: "function",
        function: {
          name: "add",
          description: "Adds.",
          parameters: {
            type: "object",
            properties: {
              a: { type: "string", description: "One." },
              list: { type: "array", items: { type: "string" } },
            },
            required: ["a", "list"],
            additionalProperties: false,
          },
        },
      },
    ]);
  });

  test.each([
    [{ name: "add", arguments: { list: ["x"], a: "1", extra: 3 } }, true, undefined],
    [{ name: "sub", arguments: {} }, false, /unknown tool "sub".*add/],
    [{ name: "add", arguments: { a: "1" } }, false, /add: argument list/],
    [{ name: "add", arguments: { a: 1, list: [] } }, false, /argument a:.*string/],
    [{ name: "add", arguments: { a: "1", list: ["x", 2] } }, false, /argument list.1/],
    [{ name: "add", arguments: null }, false, /arguments/],
    [{ name: "add", arguments: "a" }, false, /arguments/],
    [{ name: { x: 1 }, arguments: {} }, false, /unknown tool/],
  ])("%j", (call, ok, error) => {
    const checked = checkCall(tools, { id: "0", ...call } as never);
    expect(checked.ok).toBe(ok);
    if (!checked.ok) expect(checked.error).toMatch(error!);
  });
});

test("the registry names what it has when asked for what it has not", async () => {
  const load = async () => () => ({}) as never;
  const registry = new EnvironmentRegistry().register("one", load);
  await expect(registry.create("two")).rejects.toThrow(/"two"[\s\S]*one/);
  expect(() => registry.register("one", load)).toThrow(/twice/);
});

test("a report counts full rewards, end reasons and levels", () => {
  const report = summarize("t", "eval", "random", [
    { reward: 1, endReason: "completed", metrics: { level: 2 } },
    { reward: 0.5, endReason: "completed", metrics: { level: 2 } },
    { reward: 0, endReason: "turn limit", metrics: { level: 1 } },
  ]);
  expect(report).toMatchObject({
    episodes: 3,
    successes: 1,
    meanReward: 0.5,
    endReasons: { completed: 2, "turn limit": 1 },
  });
  expect(report.levels).toEqual({ "1": { episodes: 1, success: 0 }, "2": { episodes: 2, success: 0.5 } });
  expect(summarize("t", "eval", "random", [])).toMatchObject({ success: null, meanReward: null });
});

describe("sample files", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "agentrl-samples-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  const schema = z.object({ x: z.union([z.number(), z.string()]) });
  const write = (text: string) => {
    const path = join(folder, "file");
    writeFileSync(path, text);
    return path;
  };

  test("lines and arrays are read; floats keep their point on request", () => {
    expect(parseJsonLines(write('{"x":1}\n\n{"x":2}\n'), schema)).toEqual([{ x: 1 }, { x: 2 }]);
    expect(parseJsonArray(write('[{"x":1}]'), schema)).toEqual([{ x: 1 }]);
    const floats = parseJsonLines(write('{"x":5.0}\n{"x":"a \\" 5.0"}\n{"x":-3}\n{"x":1e5}'), schema, {
      keepFloats: true,
    });
    expect(floats).toEqual([{ x: "5.0" }, { x: 'a " 5.0' }, { x: -3 }, { x: "1e5" }]);
  });

  const cases: [string, string, (path: string) => unknown, RegExp][] = [
    ["truncated line", '{"x":1}\n{"x":', (path) => parseJsonLines(path, schema), /line 2[\s\S]*got:[\s\S]*\{"x":/],
    ["wrong type", '{"x":1}\n\n{"x":[1]}', (path) => parseJsonLines(path, schema), /field x[\s\S]*line 3[\s\S]*\[1\]/],
    ["missing field", "{}", (path) => parseJsonLines(path, schema), /field x[\s\S]*line 1[\s\S]*nothing/],
    ["not an object", "3", (path) => parseJsonLines(path, schema), /the entry itself[\s\S]*line 1/],
    ["empty file", "\n", (path) => parseJsonLines(path, schema), /no sample[\s\S]*0 samples/],
    ["empty array", "[]", (path) => parseJsonArray(path, schema), /no sample/],
    ["truncated array", '[{"x":1},', (path) => parseJsonArray(path, schema), /not JSON/],
    ["an object for an array", '{"x":1}', (path) => parseJsonArray(path, schema), /one JSON array[\s\S]*object/],
    ["bad entry", '[{"x":1},{"y":1}]', (path) => parseJsonArray(path, schema), /field x[\s\S]*entry 1/],
  ];
  test.each(cases)("%s: an error with file, place, got, expected and what to do", (_, text, read, pattern) => {
    const path = write(text);
    expectSampleError(() => read(path), path, pattern);
  });

  test("a file that does not exist, and a folder", () => {
    expectSampleError(() => parseJsonLines(join(folder, "none"), schema), join(folder, "none"), /ENOENT/);
    expectSampleError(() => parseJsonLines(folder, schema), folder, /EISDIR/);
  });
});

function expectSampleError(run: () => unknown, path: string, pattern: RegExp): void {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(AgentRLError);
    const { code, message } = error as AgentRLError;
    expect(code).toBe("SAMPLE_FILE");
    expect(message).toMatch(pattern);
    for (const part of [path, "got:", "expected:", "do:"]) expect(message).toContain(part);
    return;
  }
  expect.fail("nothing was thrown");
}
