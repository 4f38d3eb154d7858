/**
 * Jinja templates as transformers renders them. The library's interpreter follows JavaScript where Python differs, and
 * that shows in real chat templates: `strip("\n")` takes characters (Qwen 3), `trim` takes other white space (Llama 3),
 * `tojson` writes small numbers, and `string` writes booleans, in Python's way. The rest is the library's.
 */
import * as jinja from "@huggingface/jinja";
import { pythonNumber } from "./formats/json-text.ts";

/** What is used of the library, whose own declarations only bundlers can resolve. */
interface Library {
  Environment: new () => Environment;
  Interpreter: new (environment: Environment) => Interpreter;
  tokenize(source: string, options: { lstrip_blocks: boolean; trim_blocks: boolean }): unknown;
  parse(tokens: unknown): Node;
}
interface Environment {
  set(name: string, value: unknown): Value;
}
interface Interpreter {
  run(program: Node): Value;
  evaluate(node: Node | undefined, environment: Environment): Value;
}
interface Value {
  type: string;
  value: unknown;
}
interface Node {
  type: string;
}
interface MemberExpression {
  object: Node;
  property: { type: string; value: unknown };
  computed: boolean;
}
interface FilterExpression {
  operand: Node;
  filter: Identifier | { type: "CallExpression"; callee: Identifier; args: KeywordArgument[] };
}
interface Identifier {
  type: "Identifier";
  value: string;
}
interface KeywordArgument {
  type: string;
  key?: Identifier;
  value?: Node;
}

const { Environment, Interpreter, parse, tokenize } = jinja as unknown as Library;

export class JinjaTemplate {
  readonly #program: Node;

  /** @throws Error for source that is not Jinja. */
  constructor(source: string) {
    // As transformers configures Jinja.
    this.#program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
  }

  /** @throws Error where the template raises one, or uses what does not exist. */
  render(variables: Record<string, unknown>): string {
    const environment = new Environment();
    const constants = { true: true, false: false, none: null, True: true, False: false, None: null };
    for (const [name, value] of Object.entries({ ...constants, range, raise_exception: raise, ...variables })) {
      environment.set(name, value);
    }
    return String(new PythonInterpreter(environment).run(this.#program).value);
  }
}

class PythonInterpreter extends Interpreter {
  override evaluate(node: Node | undefined, environment: Environment): Value {
    if (node?.type === "MemberExpression") {
      const { object, property, computed } = node as unknown as MemberExpression;
      const side = !computed && property.type === "Identifier" ? sides[property.value as string] : undefined;
      const of = side && super.evaluate(object, environment);
      if (side && of?.type === "StringValue") {
        return toValue((characters?: string | null) => strip(of.value as string, side, characters));
      }
    } else if (node?.type === "FilterExpression") {
      return this.#filter(node, environment) ?? super.evaluate(node, environment);
    }
    return super.evaluate(node, environment);
  }

  #filter(node: Node, environment: Environment): Value | undefined {
    const { operand, filter } = node as unknown as FilterExpression;
    if (filter.type === "Identifier" && filter.value === "trim") {
      const value = this.evaluate(operand, environment);
      return value.type === "StringValue" ? toValue(strip(value.value as string, "both")) : undefined;
    }
    if (filter.type === "Identifier" && filter.value === "string") {
      const value = this.evaluate(operand, environment);
      if (value.type === "BooleanValue") return toValue(value.value ? "True" : "False");
      return value.type === "NullValue" ? toValue("None") : undefined;
    }
    const called = filter.type === "CallExpression";
    if ((called ? filter.callee.value : filter.value) !== "tojson") return undefined;
    const args = called ? filter.args : [];
    if (args.some((arg) => arg.key?.value !== "indent")) return undefined;
    const indent = args[0]?.value && this.evaluate(args[0].value, environment).value;
    return toValue(toJson(this.evaluate(operand, environment), typeof indent === "number" ? indent : 0));
  }
}

type Side = "start" | "end" | "both";
const sides: Record<string, Side | undefined> = { strip: "both", lstrip: "start", rstrip: "end" };

function toValue(value: unknown): Value {
  return new Environment().set("value", value);
}

/** What Python's str.isspace() is true for: not U+FEFF, but the separators U+001C to U+001F and U+0085. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: Python strips these.
const pythonSpace = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

/** Python's str.strip, lstrip and rstrip. */
function strip(text: string, side: Side, characters?: string | null): string {
  const set = characters == null ? undefined : new Set(characters);
  const goes = (character: string) => (set === undefined ? pythonSpace.test(character) : set.has(character));
  const all = Array.from(text);
  let start = 0;
  let end = all.length;
  if (side !== "end") while (start < end && goes(all[start]!)) start++;
  if (side !== "start") while (end > start && goes(all[end - 1]!)) end--;
  return all.slice(start, end).join("");
}

/** json.dumps(value, ensure_ascii=False, indent=indent or None). */
function toJson(value: Value, indent: number, depth = 0): string {
  if (value.type === "IntegerValue" || value.type === "FloatValue") return pythonNumber(value.value as number);
  const isList = value.type === "ArrayValue" || value.type === "TupleValue";
  if (!isList && value.type !== "ObjectValue") {
    // None and undefined have no value.
    return JSON.stringify(value.value ?? null);
  }
  const items = isList
    ? (value.value as Value[]).map((item) => toJson(item, indent, depth + 1))
    : [...(value.value as Map<string, Value>)].map(
        ([key, item]) => `${JSON.stringify(key)}: ${toJson(item, indent, depth + 1)}`,
      );
  const [open, close] = isList ? "[]" : "{}";
  if (items.length === 0) return `${open}${close}`;
  if (indent === 0) return `${open}${items.join(", ")}${close}`;
  const line = (level: number) => `\n${" ".repeat(indent * level)}`;
  return `${open}${line(depth + 1)}${items.join(`,${line(depth + 1)}`)}${line(depth)}${close}`;
}

function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  const length = Math.max(0, Math.ceil((to - from) / step));
  return Array.from({ length }, (_, index) => from + index * step);
}

function raise(message: string): never {
  throw new Error(message);
}
