import { describe, expect, it } from "vitest";
import { type Constants, preprocess } from "../../../src/device/webgpu/preprocess.ts";
import { loadShader } from "../../../src/device/webgpu/shader.ts";

/** Preprocesses "main.wgsl" of these files; empty lines are dropped. */
function run(files: Record<string, string>, constants: Constants = {}): string[] {
  const text = preprocess("main.wgsl", constants, (file) => files[file]!);
  return text.split("\n").filter((line) => line.trim() !== "");
}

describe("the shaders' preprocessor", () => {
  it("includes a file once, also through another file", () => {
    const files = {
      "main.wgsl": '#include "a.wgsl"\n#include "b.wgsl"\nmain',
      "a.wgsl": '#include "b.wgsl"\na',
      "b.wgsl": "b",
    };
    expect(run(files)).toEqual(["b", "a", "main"]);
  });

  it("keeps the first branch that holds, of blocks within blocks", () => {
    const text = [
      "#if A",
      "#if B == 1",
      "one",
      "#elif B == 2",
      "two",
      "#else",
      "more",
      "#endif",
      "#elif !C",
      "neither",
      "#else",
      "c",
      "#endif",
    ].join("\n");
    const branch = (A: boolean, B: number, C: string) => run({ "main.wgsl": text }, { A, B, C });
    expect(branch(true, 1, "x")).toEqual(["one"]);
    expect(branch(true, 2, "x")).toEqual(["two"]);
    expect(branch(true, 3, "x")).toEqual(["more"]);
    expect(branch(false, 1, "")).toEqual(["neither"]);
    expect(branch(false, 1, "x")).toEqual(["c"]);
  });

  it("leaves out what stands in a branch not taken: text, includes and constants", () => {
    const text = '#if A != 1\n#include "missing.wgsl"\n{{UNKNOWN}}\n#endif\nrest';
    expect(run({ "main.wgsl": text }, { A: 1 })).toEqual(["rest"]);
  });

  it("puts values in", () => {
    expect(run({ "main.wgsl": "array<{{TYPE}}, {{N}}>" }, { TYPE: "f32", N: 4 })).toEqual(["array<f32, 4>"]);
  });

  it.each([
    ["an unknown constant in the text", "ok\n{{NO}}", /unknown constant[\s\S]*main\.wgsl:2[\s\S]*NO[\s\S]*one of A/],
    ["an unknown constant in a condition", "#if NO\n#endif", /unknown constant[\s\S]*main\.wgsl:1/],
    ["a condition that is none", "#if A < 2\n#endif", /condition[\s\S]*main\.wgsl:1/],
    ["an #if without an end", "x\n#if A\n", /#if without #endif[\s\S]*main\.wgsl:2/],
    ["an #endif too many", "#endif", /nothing to end[\s\S]*main\.wgsl:1/],
    ["an #else too many", "#else", /nothing to continue[\s\S]*main\.wgsl:1/],
    ["an unknown directive", "#define A", /unknown directive[\s\S]*main\.wgsl:1/],
  ])("refuses %s, naming file and line", (_, text, message) => {
    expect(() => run({ "main.wgsl": text }, { A: 1 })).toThrow(message);
  });

  it("names the included file in which an error lies", () => {
    expect(() => run({ "main.wgsl": '\n#include "a.wgsl"', "a.wgsl": "\n\n{{NO}}" })).toThrow(/a\.wgsl:3/);
  });
});

describe("a shader's own description", () => {
  const text = [
    "struct Params { length: u32, // elements",
    "  scale: f32, }",
    "@group(0) @binding(0) var<storage, read> x: array<f32>;",
    "@group(0) @binding(1) var<storage, read_write> out: array<f32>;",
  ].join("\n");

  it("gives bindings with their access and the parameters in order", () => {
    const shader = loadShader("k", { N: 2 }, () => text);
    expect(shader.label).toBe("k(N=2)");
    expect(shader.bindings).toEqual([
      { name: "x", access: "read" },
      { name: "out", access: "read_write" },
    ]);
    expect(shader.params).toEqual([
      { name: "length", type: "u32" },
      { name: "scale", type: "f32" },
    ]);
  });

  it("refuses a gap in the bindings and a parameter that is no number", () => {
    expect(() => loadShader("k", {}, () => text.replace("binding(1)", "binding(2)"))).toThrow(/numbered from 0/);
    expect(() => loadShader("k", {}, () => text.replace("scale: f32", "scale: vec2f"))).toThrow(/plain numbers/);
  });
});
