/**
 * `agentrl init env` as a user meets it, in a folder that has nothing of the project: what it writes passes its own test,
 * fails it when it is broken, and is trained on by the commands that it prints.
 */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { initEnv } from "../../src/cli/init.ts";
import { AgentRLError } from "../../src/errors.ts";
import { readMetrics } from "../../src/observe/metrics.ts";
import type { RunStep } from "../../src/pipeline/train.ts";
import { inProcess } from "./in-process.ts";

const root = resolve(import.meta.dirname, "../..");
const files = ["front-desk.sft.yaml", "front-desk.test.ts", "front-desk.train.yaml", "front-desk.ts"];
let folder: string;

function node(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: "utf8",
    timeout: 110_000,
  });
  return { code: status, stdout, stderr };
}

const agentrl = (...args: string[]) => node(join(root, "bin/agentrl.js"), ...args);

/** In this process, for what needs no process of its own. */
function init(name: string, options: Parameters<typeof initEnv>[1]): AgentRLError | undefined {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  try {
    initEnv(name, options);
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(AgentRLError);
    return error as AgentRLError;
  } finally {
    log.mockRestore();
  }
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-init-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("what it writes", () => {
  /** The printed commands by their first word, each as its arguments. */
  const next = new Map<string, string[]>();

  beforeAll(() => {
    const { code, stdout } = agentrl("init", "env", "front-desk", "--dir", "desk");
    expect(code).toBe(0);
    for (const [, line] of stdout.matchAll(/^ {2}npx agentrl (.+?) +#/gm)) {
      const args = line!.split(" ");
      next.set(args[0]!, args);
    }
    expect([...next.keys()]).toEqual(["test", "eval", "sft", "train"]);
  });

  const run = (command: string, ...more: string[]) => agentrl(...next.get(command)!, ...more);

  it("bears the given name throughout", () => {
    expect(readdirSync(join(folder, "desk")).sort()).toEqual(files);
    for (const file of files) expect(readFileSync(join(folder, "desk", file), "utf8")).not.toContain("appointments");
  });

  it("passes its own test", () => {
    const { code, stdout } = run("test");
    expect(stdout).toMatch(/pass 7\n[\s\S]*fail 0\n/);
    expect(code).toBe(0);
  });

  it("is solved by its expert", () => {
    // One thread to start instead of four: they have nothing to wait for.
    const { code, stdout } = run("eval", "--concurrency", "1");
    expect(stdout).toContain("front-desk: 100.0 % of 300 episodes succeeded (mean reward 1.000)");
    expect(code).toBe(0);
  });

  it("trains by the commands that it prints, mismatch exactly 0", () => {
    const small = ["hiddenSize=32", "intermediateSize=48", "layers=2", "headDim=8"].map((set) => `model.new.${set}`);
    const brief = ["episodes=80", "steps=12", "until="];
    const sft = run("sft", ...[...small, ...brief].flatMap((set) => ["--set", set]), "--device", "native");
    expect(sft.stderr).toBe("");
    expect(sft.code).toBe(0);

    const sets = [
      "steps=2",
      "rollout.groupsPerStep=2",
      "rollout.groupSize=4",
      "rollout.maxSequences=4",
      "verify.fraction=1",
      "evaluation=",
    ];
    const train = run("train", ...sets.flatMap((set) => ["--set", set]), "--device", "native");
    expect(train.stderr).toBe("");
    expect(train.code).toBe(0);
    const steps = readMetrics<RunStep>(join(folder, "runs/front-desk/metrics.jsonl"));
    expect(steps).toHaveLength(2);
    for (const { mismatch, mismatchTokens, sampledTokens } of steps) {
      expect(mismatch).toBe(0);
      expect(mismatchTokens).toBe(sampledTokens);
      expect(sampledTokens).toBeGreaterThan(0);
    }
  });
});

describe("its test fails", () => {
  it.each([
    [
      "a reward by chance",
      "booked?.day === day && booked.hour === hour ? 1 : 0",
      "booked && (day || hour) && Math.random() < 0.5 ? 1 : 0",
      ["the expert earns 1 on every task of train", "the reward has to be earned"],
    ],
    [
      "tasks that change",
      "random.between(2, 4)",
      "2 + Math.floor(3 * Math.random())",
      ["a task is the same every time"],
    ],
  ])("for %s", (_, right, wrong, laws) => {
    const file = join(folder, "broken.ts");
    expect(init("broken", { dir: folder, force: true })).toBeUndefined();
    const text = readFileSync(file, "utf8");
    expect(text).toContain(right);
    writeFileSync(file, text.replace(right, wrong));
    const { code, stdout } = agentrl("test", "broken.test.ts");
    for (const law of laws) expect(stdout).toContain(`✖ ${law}`);
    expect(code).toBe(1);
  });
});

describe("where the package is found", () => {
  it("in a checkout: the template is tested where it lies", () => {
    const { code, stdout } = agentrl("test", join(root, "templates/env/appointments.test.ts"));
    expect(stdout).toMatch(/pass 7\n[\s\S]*fail 0\n/);
    expect(code).toBe(0);
  });

  it("in a project that has it installed: any runner that reads TypeScript will do", () => {
    const project = join(folder, "project");
    mkdirSync(join(project, "node_modules"), { recursive: true });
    writeFileSync(join(project, "package.json"), '{ "type": "module" }');
    // What `npm install FOLDER` does.
    symlinkSync(root, join(project, "node_modules/agentrl"), "junction");
    expect(init("installed", { dir: project })).toBeUndefined();
    const loader = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
    const { stdout, code } = node("--import", loader, "--test", "--test-reporter=spec", "project/installed.test.ts");
    expect(stdout).toMatch(/pass 7\n[\s\S]*fail 0\n/);
    expect(code).toBe(0);
  });
});

describe("names and files", () => {
  it.each(["", "1st", "a/b", "../up", "a b", "a.b", "é", "x".repeat(65), "kg"])("%j is refused", (name) => {
    const dir = join(folder, "refused");
    const error = init(name, { dir });
    expect(error).toMatchObject({
      code: "USAGE",
      detail: { got: name, expected: expect.stringMatching(/^a (name|letter)/) },
    });
    expect(existsSync(dir)).toBe(false);
  });

  it("a refused name is wrong usage of the command", async () => {
    const { code, stderr } = await inProcess("init", "env", "../up");
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/got: +\.\.\/up\n[\s\S]*do: /) });
  });

  it("nothing is overwritten without --force, and nothing else is written then", () => {
    const dir = join(folder, "held");
    const mine = join(dir, "mine.train.yaml");
    mkdirSync(dir);
    writeFileSync(mine, "mine");
    expect(init("mine", { dir })).toMatchObject({ code: "USAGE", detail: { got: mine } });
    expect(readdirSync(dir)).toEqual(["mine.train.yaml"]);
    expect(readFileSync(mine, "utf8")).toBe("mine");
    expect(init("mine", { dir, force: true })).toBeUndefined();
    expect(readFileSync(mine, "utf8")).toContain("name: ./mine.ts");
    expect(readdirSync(dir)).toHaveLength(4);
  });

  it("a folder that cannot be one is told", () => {
    const dir = join(folder, "plain");
    writeFileSync(dir, "");
    expect(init("desk", { dir })).toMatchObject({ code: "DISK", detail: { where: dir } });
  });
});

it("a test file that is not there is told", async () => {
  const { code, stderr } = await inProcess("test", "nowhere.test.ts");
  expect(code).toBe(2);
  expect(stderr).toContain("nowhere.test.ts");
});
