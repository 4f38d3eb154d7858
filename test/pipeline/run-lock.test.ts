import { spawnSync } from "node:child_process";
import { readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { AgentRLError } from "../../src/errors.ts";
import { isRunning, lockRunFolder } from "../../src/pipeline/run-lock.ts";
import { failureOf } from "../failure.ts";
import { run, runOptions, temporaryFolder } from "./tiny-run.ts";

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder.remove());

it("keeps a second run out of a folder, under any of its names, until the first has ended", async () => {
  const options = runOptions(folder.path, "run", {
    model: { path: join(import.meta.dirname, "../../models/tiny") },
    steps: 1,
    tasks: [{ name: "kg" }],
  });
  symlinkSync(folder.path, join(folder.path, "alias"));
  expect(isRunning(folder.path)).toBe(false);
  const free = lockRunFolder(folder.path);
  expect(isRunning(join(folder.path, "alias"))).toBe(true);
  const error = await failureOf(run({ ...options, out: join(folder.path, "alias") }));
  expect(error.code).toBe("USAGE");
  expect(error.message).toMatch(new RegExp(`in use[\\s\\S]*process ${process.pid}`));
  expect(readdirSync(folder.path)).not.toContain("metrics.jsonl");
  free();
  expect(isRunning(folder.path)).toBe(false);
  lockRunFolder(folder.path)();
});

it("is freed by its holder's death", () => {
  const module = fileURLToPath(new URL("../../src/pipeline/run-lock.ts", import.meta.url));
  const source = `import(${JSON.stringify(module)}).then(({ lockRunFolder }) => {
    lockRunFolder(${JSON.stringify(folder.path)});
    console.log("locked");
    process.kill(process.pid, "SIGKILL");
  })`;
  const killed = spawnSync(process.execPath, ["--import", "tsx", "--eval", source], { encoding: "utf8" });
  expect([killed.stdout, killed.signal]).toEqual(["locked\n", "SIGKILL"]);
  expect(isRunning(folder.path)).toBe(false);
  const free = lockRunFolder(folder.path);
  expect(() => lockRunFolder(folder.path)).toThrow(AgentRLError);
  free();
});
