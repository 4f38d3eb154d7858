/**
 * A zod schema seen as a tree of named fields (through its JSON Schema): which keys exist where, what a field accepts in
 * words, and the reference text of a whole config. Errors, help and documentation all read from here.
 */
import { z } from "zod";
import { hubNotation } from "../model/hub/name.ts";
import { nearest } from "./nearest.ts";

/** The part of JSON Schema that the config schemas produce. */
export interface Field {
  type?: string;
  description?: string;
  default?: unknown;
  format?: string;
  enum?: unknown[];
  examples?: unknown[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minLength?: number;
  minItems?: number;
  properties?: Record<string, Field>;
  required?: string[];
  items?: Field;
}

const known = new WeakMap<z.ZodType, Field>();

export function fieldsOf(schema: z.ZodType): Field {
  let fields = known.get(schema);
  if (fields === undefined) {
    fields = z.toJSONSchema(schema, { io: "input" }) as Field;
    known.set(schema, fields);
  }
  return fields;
}

/** The field at a path, or undefined where the schema has none. List indices step into the items. */
export function fieldAt(root: Field, path: readonly PropertyKey[]): Field | undefined {
  let field: Field | undefined = root;
  for (const part of path) {
    if (field?.items && /^\d+$/.test(String(part))) field = field.items;
    else
      field = field?.properties && Object.hasOwn(field.properties, part) ? field.properties[String(part)] : undefined;
  }
  return field;
}

/** What a field accepts, in words: "a whole number ≥ 1", "one of async, sync". */
export function accepts(field: Field): string {
  if (field.enum) return field.enum.length === 1 ? String(field.enum[0]) : `one of ${field.enum.join(", ")}`;
  switch (field.type) {
    case "integer":
    case "number": {
      const noun = field.type === "integer" ? "a whole number" : "a number";
      const step = field.multipleOf === undefined ? "" : ` that is a multiple of ${field.multipleOf}`;
      const { minimum: low, maximum: high, exclusiveMinimum: above, exclusiveMaximum: below } = field;
      const bounds = [
        ...(above !== undefined
          ? [`> ${above}`]
          : low !== undefined && low > -Number.MAX_SAFE_INTEGER
            ? [`≥ ${low}`]
            : []),
        ...(below !== undefined
          ? [`< ${below}`]
          : high !== undefined && high < Number.MAX_SAFE_INTEGER
            ? [`≤ ${high}`]
            : []),
      ];
      return [noun + step, bounds.join(" and ")].filter(Boolean).join(" ");
    }
    case "boolean":
      return "true or false";
    case "string":
      if (field.format === "task") return `one of ${field.examples?.join(", ")}, or a path to your own file (.ts, .js)`;
      if (field.format === "model") return `a path, or ${hubNotation} on the Hugging Face Hub`;
      return field.format === "path" ? "a path" : "a text";
    case "array":
      return field.minItems ? `a list of at least ${field.minItems}` : "a list";
    case "object":
      if (field.properties === undefined) return "a section of keys and values";
      return `a section with the keys ${Object.keys(field.properties).join(", ")}`;
    default:
      return "another value";
  }
}

/** The field that a misspelt or misplaced key most likely means, as a dotted path, or undefined. */
export function suggestKey(root: Field, parent: readonly PropertyKey[], key: string): string | undefined {
  const siblings = Object.keys(fieldAt(root, parent)?.properties ?? {});
  const sibling = nearest(key, siblings);
  if (sibling !== undefined) return [...parent, sibling].join(".");
  const everywhere = leaves(root);
  const last = (path: string) => path.slice(path.lastIndexOf(".") + 1);
  const name = nearest(key, everywhere.map(last));
  return everywhere.find((path) => last(path) === name);
}

/** Dotted paths of all fields below `field`, sections included; list items stand as `*`. */
function leaves(field: Field, prefix = ""): string[] {
  const inner = field.items ?? field;
  const base = field.items ? `${prefix}*.` : prefix;
  return Object.entries(inner.properties ?? {}).flatMap(([key, child]) => [
    base + key,
    ...leaves(child, `${base}${key}.`),
  ]);
}

/** One line a field: `path  accepts  (default)  description`. `format` chooses a terminal's text or a Markdown table. */
export function reference(root: Field, format: "text" | "markdown"): string {
  const lines: string[] = [];
  const visit = (field: Field, prefix: string, required: ReadonlySet<string>) => {
    for (const [key, child] of Object.entries(field.properties ?? {})) {
      const path = prefix + key;
      const object = child.items ?? child;
      if (object.properties) {
        const name = child.items ? `${path}.*` : path;
        lines.push(
          format === "text"
            ? `\n  ${name}: ${child.description ?? ""}`
            : `| **\`${name}\`** | | | ${child.description ?? ""} |`,
        );
        visit(object, `${name}.`, new Set(object.required));
      } else {
        const fallback = child.default !== undefined ? String(child.default) : required.has(key) ? "required" : "none";
        lines.push(
          format === "text"
            ? `    ${path}  ${accepts(child)} [${fallback}]\n        ${child.description ?? ""}`
            : `| \`${path}\` | ${accepts(child)} | ${fallback} | ${child.description ?? ""} |`,
        );
      }
    }
  };
  visit(root, "", new Set(root.required));
  if (format === "text") return lines.join("\n").trimStart();
  return ["| key | accepts | default | |", "|---|---|---|---|", ...lines].join("\n");
}
