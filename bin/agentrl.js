#!/usr/bin/env node
// Starts the CLI: the TypeScript sources (through tsx), in a clone and in the package alike; without them the compiled ones.
import { existsSync } from "node:fs";

const [major, minor] = process.versions.node.split(".").map(Number);
const sources = new URL("../src/cli/main.ts", import.meta.url);
const compiled = new URL("../dist/src/cli/main.js", import.meta.url);

if (major < 20 || (major === 20 && minor < 11)) {
  console.error(
    `agentrl needs Node 20.11 or newer; this is ${process.versions.node}. Install it from https://nodejs.org`,
  );
  process.exitCode = 1;
} else if (!existsSync(sources)) {
  await import(compiled.href);
} else if (!isInstalled("tsx/esm/api")) {
  console.error(
    "agentrl: the packages are not installed. Run `npm ci` in the clone (or `npm run demo`, which does it).",
  );
  process.exitCode = 1;
} else {
  const { register } = await import("tsx/esm/api");
  register();
  await import(sources.href);
}

/** Beside the package or, hoisted, above it. */
function isInstalled(name) {
  try {
    return existsSync(new URL(import.meta.resolve(name)));
  } catch {
    return false;
  }
}
