/** What docs/controller.md promises is complete: wire-error.ts sends readers there. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(resolve(root, file), "utf8");

it("every error code has its place in docs/controller.md, and no other is there", () => {
  const codes = [...read("src/env/wire/wire-error.ts").matchAll(/^ {2}\| "(\w+)"/gm)].map((match) => match[1]!);
  expect(codes.length).toBeGreaterThan(10);
  const errors = /## Errors([\s\S]*?)\n## /.exec(read("docs/controller.md"))![1]!;
  const rows = errors.split("\n").filter((line) => line.startsWith("| `"));
  const listed = rows.flatMap((row) => [...row.split("|")[1]!.matchAll(/`(\w+)`/g)].map((match) => match[1]!));
  expect(listed.sort()).toEqual(codes.sort());
});
