/** An orphan in an endless loop, for real: the parent is killed, and what it had started must end. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

it("ends a child that blocks in an endless loop when its parent is killed", async () => {
  const child = fileURLToPath(new URL("./fixtures/endless-child.ts", import.meta.url));
  const start = `require("node:child_process").spawn(process.execPath, ["--import", "tsx", ${JSON.stringify(child)}], { stdio: "inherit" })`;
  const parent = spawn(process.execPath, ["-e", start], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(createInterface(parent.stdout), "line")) as [string];
  const pid = Number(line);
  expect(process.kill(pid, 0)).toBe(true);
  parent.kill("SIGKILL");
  // It reads its parent's end twice a second; a child that went on would keep this from ending.
  await once(spawn("tail", [`--pid=${pid}`, "-f", "/dev/null"]), "exit");
  expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
});
