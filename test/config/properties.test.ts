import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { type Field, fieldsOf } from "../../src/config/fields.ts";
import { loadTrainConfig } from "../../src/config/load.ts";
import { editDistance, nearest } from "../../src/config/nearest.ts";
import { noEffect } from "../../src/config/rules.ts";
import { trainConflicts, trainNoEffect, trainSchema } from "../../src/config/train.ts";
import { AgentRLError } from "../../src/errors.ts";

const fields = fieldsOf(trainSchema);
let folder: string;
let file: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-config-"));
  mkdirSync(join(folder, "model"));
  file = join(folder, "run.yaml");
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Values that a field accepts, read off its JSON schema. */
function valuesOf(field: Field): fc.Arbitrary<unknown> {
  if (field.enum) return fc.constantFrom(...field.enum);
  if (field.format === "task") return fc.constantFrom(...field.examples!);
  if (field.type === "boolean") return fc.boolean();
  // Records: a task's levels, and panels, which say what they look like.
  if (field.type === "object") return fc.constantFrom(...(field.examples ?? [{ 1: 0.5 }, { 2: 3, 5: 1 }]));
  if (field.type === "string") return fc.constantFrom("a", "train", "eval: x", "- y", "true", "'");
  if (field.type === "integer") {
    return fc.integer({ min: Math.max(field.minimum ?? -1000, -1000), max: Math.min(field.maximum ?? 5000, 5000) });
  }
  const low = field.minimum ?? field.exclusiveMinimum ?? -10;
  const high = field.maximum ?? field.exclusiveMaximum ?? 10;
  return fc
    .double({ min: low, max: high, noNaN: true })
    .filter((x) => x !== field.exclusiveMinimum && x !== field.exclusiveMaximum && !Object.is(x, -0));
}

/** Any subset of a section's keys, with valid values; without a task's policies, which name members of a pool. */
function subsetOf(section: Field): fc.Arbitrary<Record<string, unknown>> {
  const entries = Object.entries(section.properties ?? {}).filter(
    ([key, field]) => !field.properties && !field.items && key !== "policies",
  );
  const values = Object.fromEntries(entries.map(([key, field]) => [key, valuesOf(field)]));
  return fc.record(values, { requiredKeys: [] });
}

/** Those that any subset of their keys makes a section of. */
const sections = Object.entries(fields.properties!).filter(([, field]) => field.properties && !field.required?.length);
const taskNames = fields.properties!.tasks!.items!.properties!.name!.examples as string[];

const configs = fc
  .record({
    top: subsetOf(fields),
    sections: fc.record(Object.fromEntries(sections.map(([key, field]) => [key, subsetOf(field)])), {
      requiredKeys: [],
    }),
    tasks: fc
      .subarray(taskNames, { minLength: 1 })
      .chain((names) =>
        fc.tuple(...names.map((name) => subsetOf(fields.properties!.tasks!.items!).map((task) => ({ ...task, name })))),
      ),
  })
  .map(({ top, sections: chosen, tasks }) =>
    effective({ model: { path: "model" }, steps: 1, ...top, ...chosen, tasks } as RawConfig),
  )
  .filter((raw) => trainConflicts(trainSchema.parse(raw)).length === 0);

type RawConfig = Record<string, unknown> & { model: { path: string } };

/** Without the keys that have no effect or contradict others: nearly every config drawn at random has some. */
function effective(raw: RawConfig): RawConfig {
  for (;;) {
    const config = trainSchema.parse(raw);
    const written = pathsOf(raw);
    const wrong = [...noEffect(trainNoEffect, config, written), ...trainConflicts(config)].map(({ path }) => path);
    const dropped = wrong.filter((path) => written.includes(path) && !path.endsWith(".name"));
    if (dropped.length === 0) return raw;
    for (const path of dropped) {
      const parts = path.split(".");
      delete (at(raw, parts.slice(0, -1).join(".")) as Record<string, unknown>)[parts.at(-1)!];
    }
  }
}

function pathsOf(value: unknown, prefix = ""): string[] {
  if (value === null || typeof value !== "object") return [prefix];
  return Object.entries(value).flatMap(([key, child]) => pathsOf(child, prefix === "" ? key : `${prefix}.${key}`));
}

function at(value: unknown, path: string): unknown {
  if (path === "") return value;
  return path.split(".").reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[key], value);
}

describe("any valid config", () => {
  it("comes through YAML with every written value; its resolved form and flags alone give the same config", () => {
    const again = join(folder, "again.yaml");
    fc.assert(
      fc.property(configs, (raw) => {
        writeFileSync(file, stringify(raw));
        const { config, yaml } = loadTrainConfig(file);
        for (const path of pathsOf(raw)) {
          if (path !== "model.path") expect(at(config, path)).toEqual(at(raw, path));
        }
        writeFileSync(again, yaml);
        expect(loadTrainConfig(again).config).toEqual(config);

        writeFileSync(file, "model: {path: model}\n");
        const { model: _, ...rest } = raw;
        const sets = Object.entries(rest).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
        expect(loadTrainConfig(file, sets).config).toEqual(config);
      }),
      { numRuns: 100 },
    );
  });
});

describe("any slip in a key", () => {
  const keys = sections.flatMap(([section, field]) =>
    Object.keys(field.properties!).map((key) => ({ section, key, field })),
  );

  it("is placed, and a key one slip away is suggested", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...keys.filter(({ key }) => key.length >= 4)),
        fc.nat(),
        fc.constantFrom("drop", "double", "swap"),
        fc.nat(5),
        ({ section, key, field }, where, slip, blankLines) => {
          const i = where % (key.length - 1);
          const [a, b] = [key[i]!, key[i + 1]!];
          const typo = key.slice(0, i) + { drop: b, double: a + a + b, swap: b + a }[slip] + key.slice(i + 2);
          fc.pre(nearest(typo, Object.keys(field.properties!)) !== undefined && !(typo in field.properties!));
          const head = `model: {path: model}\nsteps: 1\ntasks: [{name: kg}]\n${"\n".repeat(blankLines)}`;
          writeFileSync(file, `${head}${section}:\n    ${typo}: 1\n`);
          let message = "";
          try {
            loadTrainConfig(file);
          } catch (error) {
            if (!(error instanceof AgentRLError)) throw error;
            message = error.message;
          }
          expect(message).toContain(`${file}:${blankLines + 5}:5 (${section}.${typo})`);
          const suggested = /Did you mean `(?:[^`.]+\.)?([^`]+)`/.exec(message)?.[1] ?? "";
          expect(editDistance(typo.toLowerCase(), suggested.toLowerCase())).toBeLessThanOrEqual(1);
        },
      ),
      { numRuns: 150 },
    );
  });
});

describe("edit distance", () => {
  it.each([
    ["", "", 0],
    ["", "abc", 3],
    ["kitten", "sitting", 3],
    ["ca", "ac", 1],
    ["groupSzie", "groupSize", 1],
  ])("%j to %j is %i", (a, b, distance) => {
    expect(editDistance(a, b)).toBe(distance);
    expect(editDistance(b, a)).toBe(distance);
  });
});
