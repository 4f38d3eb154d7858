/**
 * From a config file and `--set` flags to a checked config. Everything that is wrong is said at once, in one error:
 * the first problem in full, the others by place.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { stringify } from "yaml";
import type { z } from "zod";
import { isModulePath } from "../env/definition.ts";
import { AgentRLError, type ErrorDetail } from "../errors.ts";
import { formatHubName, hubNotation, hubScheme, parseHubName } from "../model/hub/name.ts";
import { accepts, type Field, fieldAt, fieldsOf, suggestKey } from "./fields.ts";
import { type Conflict, type NoEffectRule, noEffect } from "./rules.ts";
import { type SftConfig, sftConflicts, sftNoEffect, sftSchema } from "./sft.ts";
import { ConfigSource, display, leafPaths } from "./source.ts";
import { type TrainConfig, trainConflicts, trainNoEffect, trainSchema } from "./train.ts";

export interface LoadedConfig<C> {
  config: C;
  file: string;
  /**
   * The resolved config as YAML for the run folder: defaults included, paths absolute, options without effect left out.
   * Loading it gives the same config again.
   */
  yaml: string;
}

/**
 * @param flagFolder Folder that relative paths in `sets` refer to; default: the working folder.
 * @throws AgentRLError CONFIG naming key, file:line:col or flag, what was got and what is accepted.
 */
export function loadTrainConfig(
  file: string,
  sets: readonly string[] = [],
  flagFolder?: string,
): LoadedConfig<TrainConfig> {
  return load(new ConfigSource(file, sets, flagFolder), trainSchema, trainNoEffect, trainConflicts, ["model.path"]);
}

/** @throws AgentRLError CONFIG, as loadTrainConfig. */
export function loadSftConfig(file: string, sets: readonly string[] = []): LoadedConfig<SftConfig> {
  return load(new ConfigSource(file, sets), sftSchema, sftNoEffect, sftConflicts, ["model.path", "tokenizer"]);
}

/** A copy without the options that do nothing, which a config file may not hold. */
function effective<C>(config: C, rules: readonly NoEffectRule<C>[]): unknown {
  const copy: unknown = structuredClone(config);
  for (const { path } of noEffect(rules, config, leafPaths(config))) {
    const parts = path.split(".");
    const parent = valueAt(copy, parts.slice(0, -1)) as Record<string, unknown>;
    delete parent[parts.at(-1)!];
  }
  return copy;
}

interface Problem {
  what: string;
  path: PropertyKey[];
  detail: ErrorDetail;
}

function load<S extends z.ZodType>(
  source: ConfigSource,
  schema: S,
  noEffectRules: readonly NoEffectRule<z.output<S>>[],
  conflictsOf: (config: z.output<S>) => Conflict[],
  mustExist: readonly string[],
): LoadedConfig<z.output<S>> {
  const fields = fieldsOf(schema);
  dropEmptySections(source.data, fields);

  const result = schema.safeParse(source.data);
  if (!result.success) {
    fail(
      source,
      result.error.issues.flatMap((issue) => explain(issue, source, fields)),
    );
  }
  const config: z.output<S> = result.data;

  const contradictions: Problem[] = [
    ...noEffect(noEffectRules, config, source.explicit()).map(({ path, why }) => ({
      what: `${path} has no effect: ${why}.`,
      path: path.split("."),
      detail: { got: valueAt(source.data, path.split(".")), expected: "no such key", hint: `Remove ${path}.` },
    })),
    ...conflictsOf(config).map(({ path, what, got, expected, hint }) => ({
      what,
      path: path.split("."),
      detail: { got, expected, hint },
    })),
  ];
  if (contradictions.length > 0) fail(source, contradictions);

  const missing = resolvePaths(config as Record<string, unknown>, fields, source, mustExist);
  if (missing.length > 0) fail(source, missing);
  return { config, file: source.file, yaml: stringify(effective(config, noEffectRules)) };
}

/** `optimizer:` with nothing (or only comments) below it means: all defaults. */
function dropEmptySections(data: Record<string, unknown>, field: Field): void {
  for (const [key, value] of Object.entries(data)) {
    const child = field.properties?.[key];
    if (!child?.properties) continue;
    if (value === null) delete data[key];
    else if (typeof value === "object") dropEmptySections(value as Record<string, unknown>, child);
  }
}

/** One zod issue in the words of the config. */
function explain(issue: z.core.$ZodIssue, source: ConfigSource, fields: Field): Problem[] {
  const parent = issue.path;
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const path = [...parent, key];
      const meant = suggestKey(fields, parent, key);
      const known = Object.keys(fieldAt(fields, parent)?.properties ?? {});
      return {
        what: `Unknown key \`${path.join(".")}\`.`,
        path,
        detail: {
          got: key,
          expected: known.length === 0 ? "no keys here" : `one of ${known.join(", ")}`,
          hint: meant === undefined ? "Remove it." : `Did you mean \`${meant}\`?`,
        },
      };
    });
  }
  const name = parent.join(".");
  const field = fieldAt(fields, parent);
  const expected = field ? accepts(field) : issue.message;
  const value = valueAt(source.data, parent);
  if (value === undefined) {
    return [
      {
        what: `Missing key \`${name}\`.`,
        path: parent,
        detail: { expected, hint: field?.description ? `Set it: ${field.description}` : `Set ${name}.` },
      },
    ];
  }
  return [
    {
      what: `Wrong value for \`${name}\`.`,
      path: parent,
      detail: {
        got:
          typeof value === "string"
            ? JSON.stringify(value)
            : Number.isNaN(value)
              ? "NaN"
              : value === Infinity
                ? "Infinity"
                : value,
        expected,
        hint: field?.description ?? "Correct it.",
      },
    },
  ];
}

function fail(source: ConfigSource, problems: Problem[]): never {
  // A missing key comes last: a misspelt one is often why.
  const missing = (problem: Problem) => Number(problem.what.startsWith("Missing key"));
  const sorted = [...problems].sort((a, b) => missing(a) - missing(b) || source.order(a.path) - source.order(b.path));
  const [first, ...others] = sorted;
  const also = others.map(({ what, path, detail }) => {
    const remedy = what.startsWith("Unknown key") ? detail.hint : `Expected ${detail.expected}.`;
    return `  also:     ${source.where(path)}: ${what} ${remedy}`;
  });
  const { what, path, detail } = first!;
  throw new AgentRLError("CONFIG", what, {
    ...detail,
    where: source.where(path),
    hint: [detail.hint ?? "Correct it.", ...also].join("\n"),
  });
}

/**
 * Makes every path of the config absolute, and reports those of `mustExist` that lead nowhere. A model that is not on this disk
 * may be one on the Hub: then it is written so that it can be nothing else.
 */
function resolvePaths(
  config: Record<string, unknown>,
  fields: Field,
  source: ConfigSource,
  mustExist: readonly string[],
): Problem[] {
  const problems: Problem[] = [];
  const visit = (value: unknown, path: string[]) => {
    if (value === null || typeof value !== "object") return;
    for (const [key, child] of Object.entries(value)) {
      const here = [...path, key];
      const field = fieldAt(fields, here);
      if (typeof child !== "string" || !isPath(field, child)) {
        visit(child, here);
        continue;
      }
      const absolute = resolve(source.baseOf(here), child);
      if (field?.format === "model" && !existsSync(absolute)) {
        const hub = parseHubName(child);
        if (hub !== undefined) (value as Record<string, unknown>)[key] = formatHubName(hub);
        else if (child.startsWith(hubScheme)) {
          problems.push({
            what: `${here.join(".")} is no name on the Hugging Face Hub.`,
            path: here,
            detail: {
              got: child,
              expected: `${hubScheme} and ${hubNotation}`,
              hint: "Copy the name from the model's page.",
            },
          });
        }
        if (hub !== undefined || child.startsWith(hubScheme)) continue;
      }
      (value as Record<string, unknown>)[key] = absolute;
      const name = here.join(".");
      const needed =
        mustExist.includes(name) ||
        name.endsWith(".options.data") ||
        /^crossPolicy\.pool\.\d+\.path$/.test(name) ||
        field?.format === "task";
      if (needed && !existsSync(absolute)) {
        const fromHere = existsSync(resolve(child));
        problems.push({
          what: `${name} does not exist.`,
          path: here,
          detail: {
            got: child,
            expected: `a path that exists; looked for ${display(absolute)}`,
            hint: fromHere
              ? `Paths in a config file start at its own folder, not at the working folder.`
              : `Check the path.`,
          },
        });
      }
    }
  };
  visit(config, []);
  return problems;
}

function isPath(field: Field | undefined, value: string): boolean {
  return field?.format === "path" || field?.format === "model" || (field?.format === "task" && isModulePath(value));
}

function valueAt(data: unknown, path: readonly PropertyKey[]): unknown {
  let value = data;
  for (const part of path) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}
