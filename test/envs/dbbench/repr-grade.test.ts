import { describe, expect, test } from "vitest";
import {
  answersMatch,
  normalizeAnswer,
  parseAnswerMd5,
  parseFloatLikePython,
  tableMd5,
} from "../../../envs/dbbench/grade.ts";
import { PythonObject, RESULT_LIMIT, reprCell, reprFloat, reprRows, reprString } from "../../../src/env/python-repr.ts";

// Expected texts are CPython 3.11's repr().
describe("Python's repr", () => {
  test.each([
    ["Ann", "'Ann'"],
    ["O'Brien", '"O\'Brien"'],
    ['say "hi"', "'say \"hi\"'"],
    ['it\'s "x"', "'it\\'s \"x\"'"],
    ["a\\b", "'a\\\\b'"],
    ["l1\nl2\t", "'l1\\nl2\\t'"],
    ["é – ü", "'é – ü'"],
    ["\x00\x7f", "'\\x00\\x7f'"],
    ["\u200b", "'\\u200b'"],
    ["😀", "'😀'"],
    ["\xa0x", "'\\xa0x'"],
    ["\u2028", "'\\u2028'"],
    ["\xad", "'\\xad'"],
  ])("of the str %j", (text, expected) => expect(reprString(text)).toBe(expected));

  test.each([
    [0.5, "0.5"],
    [1, "1.0"],
    [-0, "-0.0"],
    [1e16, "1e+16"],
    [1e15, "1000000000000000.0"],
    [123456789012345680, "1.2345678901234568e+17"],
    [1e-4, "0.0001"],
    [1.5e-5, "1.5e-05"],
    [0.1 + 0.2, "0.30000000000000004"],
    [2.5e-7, "2.5e-07"],
    [-3.25, "-3.25"],
    [1e100, "1e+100"],
  ])("of the float %d", (value, expected) => expect(reprFloat(value)).toBe(expected));

  test("of cells and rows", () => {
    expect(reprCell(null)).toBe("None");
    expect(reprCell(12345678901234567890n)).toBe("12345678901234567890");
    expect(reprCell(new Uint8Array([97, 0, 39, 255]))).toBe('b"a\\x00\'\\xff"');
    expect(reprRows([])).toBe("[]");
    expect(reprRows([[1n], ["a", null, 2]])).toBe("[(1,), ('a', None, 2.0)]");
  });

  test.each([
    [PythonObject.decimal("7.50"), "Decimal('7.50')", "7.50"],
    [PythonObject.date("2020-01-02"), "datetime.date(2020, 1, 2)", "2020-01-02"],
    [PythonObject.date("2020-01-02 03:04:05"), "datetime.datetime(2020, 1, 2, 3, 4, 5)", "2020-01-02 03:04:05"],
    [PythonObject.date("2020-01-02 00:00:00"), "datetime.datetime(2020, 1, 2, 0, 0)", "2020-01-02 00:00:00"],
    [
      PythonObject.date("2020-01-02 03:04:00.5"),
      "datetime.datetime(2020, 1, 2, 3, 4, 0, 500000)",
      "2020-01-02 03:04:00.5",
    ],
    [PythonObject.date("0000-00-00"), "None", "0000-00-00"],
  ])("of what Python has a type for: %s", (object, repr, text) => {
    expect(reprCell(object)).toBe(repr);
    expect(String(object)).toBe(text);
  });

  test("is cut at 800 characters, and drawing stops there", () => {
    let drawn = 0;
    const endless = (function* () {
      for (;;) {
        drawn++;
        yield ["x"];
      }
    })();
    const text = reprRows(endless);
    expect(text).toHaveLength(RESULT_LIMIT + "[TRUNCATED]".length);
    expect(text.endsWith("[TRUNCATED]")).toBe(true);
    expect(drawn).toBeLessThan(110);
    const exact = reprRows([["x".repeat(RESULT_LIMIT - 7)]]);
    expect(exact).toHaveLength(RESULT_LIMIT);
    expect(exact.endsWith(",)]")).toBe(true);
  });
});

describe("answers", () => {
  test.each([
    ["1,234", "1234"],
    [" 45 % ", "45"],
    ["'Ann'", "Ann"],
    ["None", "0"],
    ["NULL", "0"],
    ["nan", "0"],
    ["-Infinity", "0"],
    ["", "0"],
    ["[1,2]", "[1,2]"],
    ["Smith, John", "Smith John"],
  ])("%j normalises to %j", (given, expected) => expect(normalizeAnswer(given)).toBe(expected));

  const cases: [string[], string[], boolean][] = [
    [["167"], ["167.0"], true],
    [["3,729.7"], ["3729.70"], true],
    [["3.005"], ["3.0"], true],
    [["3.02"], ["3.0"], false],
    [["12%"], ["12"], true],
    [["none"], ["0"], true],
    [[""], ["null"], true],
    [["Paris"], ["Paris"], true],
    [["paris"], ["Paris"], false],
    [["a", "b"], ["b", "a"], true],
    [["a", "a", "b"], ["b", "a"], true],
    [["a"], ["a", "b"], false],
    [["1", "2"], ["2.001", "0.999"], true],
    [["1", "1"], ["1"], false],
    [["1", "1"], ["1", "2"], false],
    [["1", "x"], ["x", "1"], true],
    [["1.0", "x"], ["x", "1"], false],
    [[], ["a"], false],
    [["1e2"], ["100"], true],
    [["0x10"], ["16"], false],
  ];
  test.each(cases)("%j against %j: %s", (given, expected, equal) => {
    expect(answersMatch(given, expected)).toBe(equal);
    expect(answersMatch(expected, given)).toBe(equal);
  });

  test.each([
    ["1_000", 1000],
    [" -.5e-1 ", -0.05],
    ["5.", 5],
    ["1__0", undefined],
    ["1 2", undefined],
    ["", undefined],
    ["12px", undefined],
  ])("float(%j) is %s", (text, value) => expect(parseFloatLikePython(text)).toBe(value));
});

describe("table MD5", () => {
  // Python: md5(','.join(sorted(md5(','.join(non-null cells))[:5] for each row)))
  test("known values; NULL is skipped; row order does not matter", () => {
    const rows = [
      ["a", "b"],
      ["c", null],
      ["é", 3n],
    ];
    expect(tableMd5(rows)).toBe("e959aeb3e9670b631482f71ea903c266");
    expect(tableMd5([...rows].reverse())).toBe("e959aeb3e9670b631482f71ea903c266");
    expect(tableMd5([["x"]])).toBe("0a6ecc408777c7758fe50fee3ad478ff");
    expect(tableMd5([])).toBeUndefined();
  });

  test("the digest is taken out of AgentBench's row list", () => {
    expect(parseAnswerMd5("[('5cf55dc8105e934e68f9ebd92bd30778',)]")).toBe("5cf55dc8105e934e68f9ebd92bd30778");
    expect(parseAnswerMd5("5cf55dc8105e934e68f9ebd92bd30778")).toBe("5cf55dc8105e934e68f9ebd92bd30778");
  });
});
