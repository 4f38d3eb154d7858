/** docs/configuration.md is written from the schemas: `npx vitest run test/config/docs.test.ts -u` brings it up to date. */
import { describe, expect, it } from "vitest";
import type { z } from "zod";
import { fieldsOf, reference } from "../../src/config/fields.ts";
import { sftSchema } from "../../src/config/sft.ts";
import { trainSchema } from "../../src/config/train.ts";

describe("the configuration page", () => {
  it("says what the schemas say", async () => {
    const page = [
      "# Configuration",
      "",
      "Written from the schemas in `src/config/`. A key that does not exist, has a value out of range, or would have no",
      "effect together with the others is an error that names file, line and column. Paths start at the config file's",
      "folder. `--set path=value` overrides one key (`tasks.kg.weight=2` finds a task by name), `--set path=` removes it.",
      "",
      "## `agentrl train`",
      "",
      reference(fieldsOf(trainSchema), "markdown"),
      "",
      "## `agentrl sft`",
      "",
      reference(fieldsOf(sftSchema), "markdown"),
      "",
    ].join("\n");
    await expect(page).toMatchFileSnapshot("../../docs/configuration.md");
  });

  it.each([
    ["train", trainSchema],
    ["sft", sftSchema],
  ] as const)("every field of %s is described", (_, schema) => {
    const bare: string[] = [];
    const visit = (field: ReturnType<typeof fieldsOf>, path: string) => {
      for (const [key, child] of Object.entries(field.properties ?? {})) {
        if (!child.description) bare.push(`${path}${key}`);
        visit(child.items ?? child, `${path}${key}.`);
      }
    };
    visit(fieldsOf(schema as z.ZodType), "");
    expect(bare).toEqual([]);
  });
});
