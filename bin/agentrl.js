#!/usr/bin/env node
// Starts the CLI: the compiled one in a published package, the TypeScript sources (through tsx) inside the clone.
import { existsSync } from "node:fs";

const compiled = new URL("../dist/src/cli/main.js", import.meta.url);
if (existsSync(compiled)) {
  await import(compiled.href);
} else {
  const { register } = await import("tsx/esm/api");
  register();
  await import(new URL("../src/cli/main.ts", import.meta.url).href);
}
