/**
 * A shader's text and what it says of itself. The WGSL is the only place where a kernel's bindings and parameters are
 * written down: how each is accessed, and the order and type of the immediates, are read from it.
 */
import { readFileSync } from "node:fs";
import { AgentRLError } from "../../errors.ts";
import { type Constants, preprocess } from "./preprocess.ts";

export interface Shader {
  /** File and constants, for messages and labels. */
  label: string;
  code: string;
  /** By binding number, all in group 0. */
  bindings: readonly { name: string; access: "read" | "read_write" }[];
  /** Fields of `struct Params`, which lies in immediate data. */
  params: readonly { name: string; type: "u32" | "i32" | "f32" }[];
}

const folder = new URL("../../../shaders/", import.meta.url);
const texts = new Map<string, string>();

/** Text of a file of shaders/. */
export function readShaderFile(file: string): string {
  let text = texts.get(file);
  if (text === undefined) {
    text = readFileSync(new URL(file, folder), "utf8");
    texts.set(file, text);
  }
  return text;
}

/** `kernel` is the file's name without ".wgsl". @throws AgentRLError DEVICE when the text breaks the conventions. */
export function loadShader(kernel: string, constants: Constants = {}, readFile = readShaderFile): Shader {
  const code = preprocess(`${kernel}.wgsl`, constants, readFile);
  const values = Object.entries(constants).map(([name, value]) => `${name}=${value}`);
  return {
    label: values.length > 0 ? `${kernel}(${values.join(",")})` : kernel,
    code,
    bindings: bindingsOf(kernel, code),
    params: paramsOf(kernel, code),
  };
}

function bindingsOf(kernel: string, code: string): Shader["bindings"] {
  const bindings: { name: string; access: "read" | "read_write" }[] = [];
  const pattern = /@group\((\d+)\)\s*@binding\((\d+)\)\s*var<storage,\s*(read|read_write)>\s*(\w+)/g;
  for (const [text, group, index, access, name] of code.matchAll(pattern)) {
    if (group !== "0" || Number(index) !== bindings.length) {
      throw new AgentRLError("DEVICE", "A shader's bindings must be numbered from 0 in order, in group 0", {
        where: `${kernel}.wgsl`,
        got: text,
        expected: `@group(0) @binding(${bindings.length})`,
      });
    }
    bindings.push({ name: name!, access: access as "read" | "read_write" });
  }
  return bindings;
}

function paramsOf(kernel: string, code: string): Shader["params"] {
  const body = /struct\s+Params\s*\{([^}]*)\}/.exec(code)?.[1];
  if (body === undefined) return [];
  const plain = body.replace(/\/\/.*$/gm, "");
  return plain
    .split(",")
    .map((field) => field.trim())
    .filter((field) => field !== "")
    .map((field) => {
      const [, name, type] = /^(\w+)\s*:\s*(u32|i32|f32)$/.exec(field) ?? [];
      if (name === undefined) {
        throw new AgentRLError("DEVICE", "A shader's parameters must be plain numbers", {
          where: `${kernel}.wgsl, struct Params`,
          got: field,
          expected: "name: u32, i32 or f32",
        });
      }
      return { name, type: type as "u32" | "i32" | "f32" };
    });
}
