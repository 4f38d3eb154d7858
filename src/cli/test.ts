/** `agentrl test FILE…`: node's own test runner on the tests of a user's environment, which need nothing else installed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { nodeOptions } from "../child-options.ts";
import { AgentRLError } from "../errors.ts";
import { ownModule } from "../own-files.ts";

export function addTest(program: Command): void {
  program
    .command("test")
    .description("run the tests of your own environment: TypeScript with node:test, as `agentrl init env` writes them")
    .argument("<files...>", "test files")
    .action(runTests);
}

async function runTests(files: string[]): Promise<void> {
  for (const file of files) {
    if (existsSync(file)) continue;
    throw new AgentRLError("USAGE", "A test file does not exist.", { got: file, expected: "a .ts, .js or .mjs file" });
  }
  const preload = ownModule("../env/module-preload", import.meta.url);
  const options = [...nodeOptions(fileURLToPath(preload)), "--import", preload.href];
  const child = spawn(process.execPath, [...options, "--test", "--test-reporter=spec", ...files], { stdio: "inherit" });
  const [code] = (await once(child, "exit")) as [number | null];
  // Ended by a signal, it has no code.
  process.exitCode = code ?? 1;
}
