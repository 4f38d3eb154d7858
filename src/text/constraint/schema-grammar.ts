/**
 * A JSON Schema as a grammar of the values that it allows.
 * - Objects have their properties in the schema's order, the optional ones perhaps, and no others.
 * - What is kept: types, enum, const, anyOf, oneOf (as anyOf), $ref within the schema, nested objects and arrays, minItems
 *   and maxItems, minimum and maximum of integers.
 * - Any other keyword that restricts a value (pattern, minLength, allOf, ...) is not kept: there the value is any of its
 *   type, and any JSON value where no type is given.
 */

import { isRecord } from "../formats/format.ts";
import { choice, lazy, literal, type Node } from "./grammar.ts";
import {
  anyArray,
  anyObject,
  anyValue,
  jsonArray,
  jsonInteger,
  jsonLiteral,
  jsonMap,
  jsonNumber,
  jsonObject,
  jsonString,
} from "./json-grammar.ts";

/** Longer bounds would make as many nodes. */
const mostItems = 64;

export function schemaGrammar(schema: unknown): Node {
  const references = new Map<string, Node>();
  return value(schema, schema, references);
}

function value(schema: unknown, root: unknown, references: Map<string, Node>): Node {
  const compile = (part: unknown) => value(part, root, references);
  if (!isRecord(schema)) return anyValue;
  const { $ref: reference, enum: values, anyOf, oneOf, type } = schema;
  if (typeof reference === "string") return resolve(reference, root, references);
  if ("const" in schema) return jsonLiteral(schema.const);
  if (Array.isArray(values) && values.length > 0) return choice(...values.map((item) => jsonLiteral(item)));
  const options = anyOf ?? oneOf;
  if (Array.isArray(options) && options.length > 0) return choice(...options.map(compile));
  if (Array.isArray(type) && type.length > 0) return choice(...type.map((name) => typed(name, schema, compile)));
  return typed(type, schema, compile);
}

function typed(type: unknown, schema: Record<string, unknown>, compile: (part: unknown) => Node): Node {
  switch (type) {
    case "string":
      return jsonString;
    case "number":
      return jsonNumber;
    case "integer":
      return integer(schema);
    case "boolean":
      return choice(literal("true"), literal("false"));
    case "null":
      return literal("null");
    case "array":
      return array(schema, compile);
    case "object":
      return object(schema, compile);
    default:
      return anyValue;
  }
}

function integer({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Record<string, unknown>): Node {
  const bound = (limit: unknown, step: number) => (typeof limit === "number" ? limit + step : undefined);
  const safe = Number.MAX_SAFE_INTEGER;
  const min = Math.ceil(Math.max(-safe, bound(minimum, 0) ?? -safe, bound(exclusiveMinimum, 1) ?? -safe));
  const max = Math.floor(Math.min(safe, bound(maximum, 0) ?? safe, bound(exclusiveMaximum, -1) ?? safe));
  return jsonInteger(min, Math.max(min, max));
}

function array(schema: Record<string, unknown>, compile: (part: unknown) => Node): Node {
  const { items, prefixItems, minItems, maxItems } = schema;
  if (prefixItems !== undefined) return anyArray;
  const within = (limit: unknown) => (typeof limit === "number" && limit <= mostItems ? limit : undefined);
  return jsonArray(items === undefined ? anyValue : compile(items), within(minItems), within(maxItems));
}

function object(schema: Record<string, unknown>, compile: (part: unknown) => Node): Node {
  const { properties, required, additionalProperties } = schema;
  if (!isRecord(properties) || Object.keys(properties).length === 0) {
    if (additionalProperties === false) return literal("{}");
    return isRecord(additionalProperties) ? jsonMap(compile(additionalProperties)) : anyObject;
  }
  const must = Array.isArray(required) ? required : [];
  return jsonObject(
    Object.entries(properties).map(([key, part]) => ({ key, value: compile(part), required: must.includes(key) })),
  );
}

/** `#` or `#/$defs/name`; anything else is any value. */
function resolve(reference: string, root: unknown, references: Map<string, Node>): Node {
  let node = references.get(reference);
  if (node === undefined) {
    node = lazy(() => {
      let part: unknown = root;
      for (const key of reference.split("/").slice(1)) {
        const name = decodeURIComponent(key).replaceAll("~1", "/").replaceAll("~0", "~");
        part = isRecord(part) ? part[name] : undefined;
      }
      return reference.startsWith("#") ? value(part, root, references) : anyValue;
    });
    references.set(reference, node);
  }
  return node;
}
