/**
 * `qwen3-coder`: XML-like blocks, several in a turn, text around them. What Qwen 3 Coder writes:
 *
 *     <tool_call>
 *     <function=NAME>
 *     <parameter=KEY>
 *     VALUE
 *     </parameter>
 *     </function>
 *     </tool_call>
 *
 * - A value is the text between the two line feeds beside its tags. Its type is the one that the tool's JSON Schema
 *   gives: numbers, booleans, null, objects and lists are read as such; what does not fit stays a string, so that the
 *   environment can say what is wrong with it. Strings and unknown parameters are never converted.
 * - A block may lack `</tool_call>` at the end of the turn. Any other missing tag, a parameter given twice, or text
 *   inside a block that belongs to no parameter makes it malformed.
 * - The format has no escapes: a value that itself holds `</parameter>` cannot be written.
 */
import { argumentsSchema } from "../../env/define.ts";
import type { Action, ToolSpec } from "../../env/environment.ts";
import { type CallContent, isJsonLike, isRecord, type TextPiece, type ToolFormat } from "./format.ts";
import { tagGrammar } from "./hermes.ts";
import { formatJson, tryJson } from "./json-text.ts";

const functionBlock = /^\s*<function=([^>\n]+)>([\s\S]*)<\/function>\s*$/;
const parameterBlock = /\s*<parameter=([^>\n]+)>\n?([\s\S]*?)\n?<\/parameter>\s*/y;
/** A value may hold `</tool_call>`: a block ends where its function does. */
const blockEnd = /<\/function>\s*<\/tool_call>/g;
const ownTags = ["<tool_call", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"];

export const qwen3Coder: ToolFormat = {
  name: "qwen3-coder",
  instructions:
    "To call a tool, write its name and parameters between tags: <tool_call>\n<function=tool>\n<parameter=parameter>\nvalue\n</parameter>\n</function>\n</tool_call>",
  grammar(tools) {
    return {
      ...tagGrammar,
      lineFeeds: 2,
      read(turn, content, final) {
        blockEnd.lastIndex = content;
        const found = blockEnd.exec(turn);
        if (found === null && !final) return undefined;
        const functionEnd = found === null ? turn.length : found.index + "</function>".length;
        const call = readFunction(turn.slice(content, functionEnd), tools);
        return { calls: call && [call], end: found === null ? turn.length : blockEnd.lastIndex };
      },
      attempted: (text, calls) => ownTags.some((tag) => text.includes(tag)) || (calls === 0 && isJsonLike(text)),
    };
  },
  pieces({ text, calls }: Action): TextPiece[] {
    const pieces: TextPiece[] = [{ text, markup: false }];
    calls.forEach((call, index) => {
      const parameters = Object.entries(call.arguments).map(
        ([key, value]) => `<parameter=${key}>\n${formatValue(value)}\n</parameter>\n`,
      );
      pieces.push({ text: index > 0 ? "\n" : text === "" ? "" : "\n\n", markup: false });
      pieces.push({ text: "<tool_call>", markup: true });
      pieces.push({ text: `\n<function=${call.name}>\n${parameters.join("")}</function>\n`, markup: false });
      pieces.push({ text: "</tool_call>", markup: true });
    });
    return pieces;
  },
};

function readFunction(text: string, tools: readonly ToolSpec[]): CallContent | undefined {
  const match = functionBlock.exec(text);
  if (match === null) return undefined;
  const [, name, body] = match as unknown as [string, string, string];
  const properties = parameterSchemas(tools.find((tool) => tool.name === name));
  const args: [string, unknown][] = [];
  let at = 0;
  while (body.slice(at).trim() !== "") {
    parameterBlock.lastIndex = at;
    const parameter = parameterBlock.exec(body);
    if (parameter === null) return undefined;
    const [whole, key, value] = parameter as unknown as [string, string, string];
    if (args.some(([other]) => other === key)) return undefined;
    args.push([key, readValue(value, Object.hasOwn(properties, key) ? properties[key] : undefined)]);
    at += whole.length;
  }
  return { name, arguments: Object.fromEntries(args) };
}

function parameterSchemas(tool: ToolSpec | undefined): Record<string, unknown> {
  const properties = tool && argumentsSchema(tool).properties;
  return isRecord(properties) ? properties : {};
}

/** The value as the first of the schema's types that fits the text. */
function readValue(text: string, schema: unknown): unknown {
  const types = typesOf(schema);
  const fits = (name: string, value: unknown) => {
    if (name === "integer") return Number.isInteger(value);
    if (name === "array") return Array.isArray(value);
    if (name === "object") return isRecord(value);
    if (name === "null") return value === null;
    return typeof value === name;
  };
  const value = literal(text.trim());
  return types.some((name) => name !== "string" && fits(name, value)) ? value : text;
}

/** JSON, or Python's True, False and None, which the model's own template writes. */
function literal(text: string): unknown {
  const python: Record<string, unknown> = { true: true, false: false, none: null, null: null };
  const lower = text.toLowerCase();
  return Object.hasOwn(python, lower) ? python[lower] : tryJson(text);
}

/** Names of JSON types that a schema allows; none where it says nothing about it. */
function typesOf(schema: unknown): string[] {
  if (!isRecord(schema)) return [];
  const { type, anyOf, oneOf, enum: values, const: only } = schema;
  if (typeof type === "string") return [type];
  if (Array.isArray(type)) return type as string[];
  if (Array.isArray(anyOf) || Array.isArray(oneOf)) return ((anyOf ?? oneOf) as unknown[]).flatMap(typesOf);
  const named = Array.isArray(values) ? values : only === undefined ? [] : [only];
  return named.map((value) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value));
}

/** As the model's template writes it, with Python's names for booleans and null. */
function formatValue(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "True" : "False";
  return value === null ? "None" : formatJson(value);
}
