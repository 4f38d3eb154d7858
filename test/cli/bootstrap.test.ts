/**
 * The bootstrap of a fresh clone, in a small copy of one: its own package files, an npm and a build script that only
 * leave what the real ones leave. (A real `npm ci` takes minutes; a fresh clone goes through it in CI.)
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

let clone: string;

const fakeNpm = `
import { appendFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
appendFileSync("calls", process.argv.slice(2).join(" ") + "\\n");
console.log("npm started " + process.pid);
if (process.env.FAKE_NPM_FAILS) process.exit(1);
while (existsSync("hold")) await new Promise((resolve) => setTimeout(resolve, 10));
mkdirSync("node_modules", { recursive: true });
writeFileSync("node_modules/.package-lock.json", "{}");
`;

const fakeBuild = `
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
appendFileSync("calls", "build\\n");
if (process.env.FAKE_BUILD_FAILS) process.exit(1);
mkdirSync("build/Release", { recursive: true });
writeFileSync("build/Release/agentrl.node", "");
`;

const fakeTask = `
console.log("task " + JSON.stringify(process.argv.slice(2)));
process.exitCode = Number(process.env.FAKE_TASK_CODE ?? 0);
`;

beforeEach(() => {
  clone = realpathSync(mkdtempSync(join(tmpdir(), "agentrl-clone-")));
  for (const folder of ["scripts", "bin", "native"]) mkdirSync(join(clone, folder));
  copyFileSync(
    fileURLToPath(new URL("../../scripts/bootstrap.mjs", import.meta.url)),
    join(clone, "scripts/bootstrap.mjs"),
  );
  writeFileSync(join(clone, "scripts/build-native.mjs"), fakeBuild);
  writeFileSync(join(clone, "npm-cli.mjs"), fakeNpm);
  writeFileSync(join(clone, "bin/agentrl.js"), fakeTask);
  writeFileSync(join(clone, "package.json"), '{"type":"module"}');
  writeFileSync(join(clone, "package-lock.json"), "{}");
  writeFileSync(join(clone, "native/addon.cc"), "");
});
afterEach(() => rmSync(clone, { recursive: true }));

interface Result {
  code: number | null;
  stdout: string;
  stderr: string;
}

class Bootstrap {
  readonly process: ChildProcess;
  readonly done: Promise<Result>;
  #stdout = "";
  #stderr = "";
  #waiting: (() => void)[] = [];

  constructor(args: string[], env: Record<string, string> = {}) {
    this.process = spawn(process.execPath, [join(clone, "scripts/bootstrap.mjs"), ...args], {
      cwd: tmpdir(),
      env: { ...process.env, TMPDIR: clone, npm_execpath: join(clone, "npm-cli.mjs"), ...env },
    });
    this.process.stdout!.on("data", (text) => this.#heard(() => (this.#stdout += text)));
    this.process.stderr!.on("data", (text) => this.#heard(() => (this.#stderr += text)));
    this.done = new Promise((resolve) => {
      this.process.on("close", (code) => resolve({ code, stdout: this.#stdout, stderr: this.#stderr }));
    });
  }

  #heard(note: () => void) {
    note();
    for (const wake of this.#waiting.splice(0)) wake();
  }

  said(): string {
    return this.#stdout + this.#stderr;
  }

  async says(text: string): Promise<void> {
    while (!this.said().includes(text)) {
      await new Promise<void>((resolve, reject) => {
        this.#waiting.push(resolve);
        this.done.then((result) => reject(new Error(`ended without "${text}": ${JSON.stringify(result)}`)));
      });
    }
  }
}

const run = (args: string[], env?: Record<string, string>) => new Bootstrap(args, env).done;
const calls = () =>
  existsSync(join(clone, "calls")) ? readFileSync(join(clone, "calls"), "utf8").trim().split("\n") : [];
/** Sets a file's time `seconds` from now. */
const touch = (file: string, seconds: number) =>
  utimesSync(join(clone, file), Date.now() / 1000, Date.now() / 1000 + seconds);

describe("a fresh clone", () => {
  it("is installed and built once, then runs the task with its arguments", async () => {
    const first = await run(["demo", "--json", "a file"]);
    expect(first).toMatchObject({ code: 0, stdout: expect.stringContaining('task ["demo","--json","a file"]') });
    expect(calls()).toEqual(["ci --include=dev --no-audit --no-fund", "build"]);
    const second = await run(["demo"]);
    expect(second).toEqual({ code: 0, stdout: 'task ["demo"]\n', stderr: "" });
    expect(calls()).toHaveLength(2);
  });

  it("passes the task's exit code on", async () => {
    expect((await run(["demo"], { FAKE_TASK_CODE: "7" })).code).toBe(7);
  });

  it("is installed again when the lock file is newer, and rebuilt when the sources are", async () => {
    await run(["demo"]);
    touch("package-lock.json", 60);
    touch("node_modules/.package-lock.json", -60);
    await run(["demo"]);
    expect(calls()).toHaveLength(3);
    touch("build/Release/agentrl.node", -60);
    touch("native/addon.cc", -30);
    expect((await run(["demo"])).stderr).toContain("stale");
    expect(calls().at(-1)).toBe("build");
  });
});

describe("two at once", () => {
  it("install once: the second waits for the first", async () => {
    writeFileSync(join(clone, "hold"), "");
    const first = new Bootstrap(["demo", "1"]);
    await first.says("npm started");
    const second = new Bootstrap(["demo", "2"]);
    await second.says(`Process ${first.process.pid} is installing already`);
    rmSync(join(clone, "hold"));
    expect((await first.done).stdout).toContain('task ["demo","1"]');
    expect(await second.done).toMatchObject({ code: 0, stdout: 'task ["demo","2"]\n' });
    expect(calls()).toHaveLength(2);
  });

  it("of which three start together install once", async () => {
    const results = await Promise.all([1, 2, 3].map((n) => run(["demo", String(n)])));
    expect(results.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(calls()).toHaveLength(2);
  });

  it("and the first is killed: the second waits for the npm it left, not for the dead", async () => {
    writeFileSync(join(clone, "hold"), "");
    const first = new Bootstrap(["demo"]);
    await first.says("npm started");
    const npm = Number(/npm started (\d+)/.exec(first.said())![1]);
    first.process.kill("SIGKILL");
    await once(first.process, "exit");
    const second = new Bootstrap(["demo"]);
    await second.says(`Process ${npm} is installing already`);
    expect(calls()).toHaveLength(1);
    process.kill(npm, "SIGKILL");
    await second.says("npm started");
    rmSync(join(clone, "hold"));
    expect((await second.done).code).toBe(0);
    expect(calls()).toHaveLength(3);
  });
});

describe("what cannot work ends with what to do", () => {
  it("npm ci fails", async () => {
    const { code, stderr } = await run(["demo"], { FAKE_NPM_FAILS: "1" });
    expect(code).toBe(1);
    expect(stderr).toContain("npm ci failed");
    expect(stderr).toContain("offline");
  });

  it("the build fails", async () => {
    const { code, stderr } = await run(["demo"], { FAKE_BUILD_FAILS: "1" });
    expect(code).toBe(1);
    expect(stderr).toContain("build of the native addon failed");
  });

  it.skipIf(process.platform === "win32")("there is no compiler", async () => {
    const { code, stderr } = await run(["demo"], { PATH: clone, CXX: "", PYTHON: "" });
    expect(code).toBe(1);
    expect(stderr).toContain("a C++20 compiler, make, Python 3 not found");
    expect(calls()).toEqual([]);
  });

  it("an unknown task", async () => {
    expect(await run(["dmeo"])).toMatchObject({ code: 1, stderr: expect.stringContaining("demo or test") });
  });
});
