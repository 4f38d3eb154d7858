/** What `npm pack` puts into the tarball: all that an installed AgentRL builds from and reads, and nothing of the clone's. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const packed = new Set(
  (
    JSON.parse(
      execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: root, encoding: "utf8" }),
    ) as [{ files: { path: string }[] }]
  )[0].files.map(({ path }) => path),
);

test("has the programs, their data and what the addon is built from", () => {
  const sources = Object.values(
    JSON.parse(readFileSync(join(root, "native/sources.json"), "utf8")) as Record<string, string | string[]>,
  )
    // One entry is a comment.
    .filter((value) => Array.isArray(value))
    .flat();
  const folders = ["shaders", "templates/env", "models/tiny"].flatMap((folder) =>
    readdirSync(join(root, folder)).map((name) => `${folder}/${name}`),
  );
  const single = [
    "bin/agentrl.js",
    "binding.gyp",
    "native/sources.json",
    "scripts/build-native.mjs",
    "src/index.ts",
    "envs/os/engines/namespace.sh",
    "envs/os/splits.json",
    "docs/own-project.md",
  ];
  const missing = [...single, ...sources, ...folders].filter(
    (path) => !packed.has(path) && ![...packed].some((file) => file.startsWith(`${path}/`)),
  );
  expect(missing).toEqual([]);
});

test("has no tests and nothing that was built", () => {
  expect([...packed].filter((path) => /^(?:test|build|node_modules|dist|runs)\//.test(path))).toEqual([]);
});
