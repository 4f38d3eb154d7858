/**
 * The shaders' preprocessor: WGSL has neither includes nor compile-time constants that could set a type, an array's
 * size or unroll a loop.
 *
 *     #include "file.wgsl"           the file's text, once for each module
 *     #if NAME … #elif … #else … #endif   NAME, !NAME, NAME == value, NAME != value; may be nested
 *     {{NAME}}                       the constant's value
 *
 * A name that was not defined is an error: a misspelt constant must not pass as false.
 */
import { AgentRLError } from "../../errors.ts";

export type Constants = Readonly<Record<string, number | string | boolean>>;

/** @throws AgentRLError DEVICE naming file and line. */
export function preprocess(
  file: string,
  constants: Constants,
  readFile: (file: string) => string,
  included = new Set<string>(),
): string {
  const out: string[] = [];
  /** Open #if blocks: whether lines are kept, and whether one of the block's branches was. */
  const blocks: { keep: boolean; taken: boolean; line: number }[] = [];
  const fail = (line: number, what: string, got: unknown, expected: string): never => {
    throw new AgentRLError("DEVICE", `A shader is malformed: ${what}`, { where: `${file}:${line}`, got, expected });
  };
  const value = (name: string, line: number) => {
    const found = constants[name];
    if (found === undefined) fail(line, "unknown constant", name, `one of ${Object.keys(constants).sort().join(", ")}`);
    return found!;
  };
  const test = (condition: string, line: number): boolean => {
    const [, not, name, operator, right] =
      /^(!?)(\w+)(?:\s*(==|!=)\s*(\w+))?$/.exec(condition.trim()) ??
      fail(line, "condition", condition, "NAME, !NAME, NAME == value or NAME != value");
    const left = value(name!, line);
    if (operator !== undefined) return (String(left) === right) === (operator === "==");
    return (left !== false && left !== 0 && left !== "") !== (not === "!");
  };

  for (const [i, text] of readFile(file).split("\n").entries()) {
    const line = i + 1;
    const keeping = blocks.every((block) => block.keep);
    const [, directive, rest = ""] = /^\s*#(\w+)\s*(.*)$/.exec(text) ?? [];
    const block = blocks.at(-1);
    if (directive === "if") {
      const keep = keeping && test(rest, line);
      blocks.push({ keep, taken: keep, line });
    } else if (directive === "elif" || directive === "else") {
      if (block === undefined) fail(line, "nothing to continue", text.trim(), "an #if before it");
      const outer = blocks.slice(0, -1).every((one) => one.keep);
      block!.keep = outer && !block!.taken && (directive === "else" || test(rest, line));
      block!.taken ||= block!.keep;
    } else if (directive === "endif") {
      if (blocks.pop() === undefined) fail(line, "nothing to end", text.trim(), "an #if before it");
    } else if (!keeping) {
    } else if (directive === "include") {
      const [, name] = /^"([\w./-]+)"$/.exec(rest.trim()) ?? fail(line, "#include", rest, '#include "file.wgsl"');
      if (included.has(name!)) continue;
      included.add(name!);
      out.push(preprocess(name!, constants, readFile, included));
    } else if (directive !== undefined) {
      fail(line, "unknown directive", `#${directive}`, "#include, #if, #elif, #else or #endif");
    } else {
      out.push(text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => String(value(name, line))));
    }
  }
  if (blocks.length > 0) fail(blocks.at(-1)!.line, "#if without #endif", "end of file", "#endif");
  return out.join("\n");
}
