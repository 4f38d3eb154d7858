/** The command line as a user meets it: as the real program, or in this process where a process would show no more. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DoctorReport } from "../../src/cli/doctor.ts";
import { inProcess, type Result } from "./in-process.ts";

const bin = fileURLToPath(new URL("../../bin/agentrl.js", import.meta.url));
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-cli-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function agentrl(...args: string[]): Promise<Result> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [bin, ...args], { timeout: 60_000 }, (error, stdout, stderr) => {
      if (error && typeof error.code !== "number") reject(error);
      else resolve({ code: Number(error?.code ?? 0), stdout, stderr });
    });
  });
}

describe("help", () => {
  it("lists every command", async () => {
    const { code, stdout } = await inProcess("--help");
    expect(code).toBe(0);
    for (const command of ["train", "eval", "sft", "replay", "init", "test", "bench", "doctor", "demo"])
      expect(stdout).toContain(`\n  ${command} `);
  });

  it("of train ends with the config's keys, their defaults and what they mean", async () => {
    const { code, stdout } = await inProcess("train", "--help");
    expect(code).toBe(0);
    expect(stdout).toContain("--dry-run");
    expect(stdout).toMatch(/rollout\.groupSize {2}a whole number ≥ 1 \[8\]\n +Episodes per task drawn/);
  });

  it.each(["eval", "bench gemm"])("%s has --json", async (command) => {
    expect((await inProcess(...command.split(" "), "--help")).stdout).toContain("--json <file>");
  });

  it("gives the package's version", async () => {
    const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
    expect(await agentrl("--version")).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
  });
});

describe("wrong usage ends with exit code 2", () => {
  it.each([
    ["trian", "Did you mean train?"],
    ["train x --otu y", "Did you mean --out?"],
    ["train", "missing required argument 'config'"],
    ["eval --policy expert", "required option '--task <name>'"],
    ["eval --task kg --policy expert --episodes 0", "Expected a whole number ≥ 1"],
    ["eval --task kg --policy a --model b", "cannot be used with"],
    ["eval --task kg --model b --greedy --temperature 1", "cannot be used with"],
    ["eval --task kg", "No policy is given"],
    ["eval --task kg --policy expert --temperature 1", "--temperature has no effect with --policy expert"],
    ["eval --task kg --policy expert --controller http://127.0.0.1:1", "expert does not play through a controller"],
    ["eval --task kg-std --policy random --controller http://127.0.0.1:1 --level 1", "--level has no effect"],
    ["eval --task kg-std --policy random --controller http://127.0.0.1:1 --setting a=1", "--setting has no effect"],
    ["eval --task kg --policy expert --panel nonsense", "Expected a panel's name"],
    ["eval --task kg-std --policy random --controller http://127.0.0.1:1 --panel 01234567", "--panel has no effect"],
    ["eval --task os --policy expert --setting timeout", "A --setting flag cannot be applied"],
    ["worker os-std --setting timeout", "A --setting flag cannot be applied"],
    ["bench gem", "Did you mean gemm?"],
  ])("%s", async (line, message) => {
    const { code, stdout, stderr } = await inProcess(...line.split(" "));
    expect(stderr).toContain(message);
    expect(stderr).not.toMatch(/^ +at /m);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  });

  it("so does the program", async () => {
    const { code, stdout, stderr } = await agentrl("trian");
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("Did you mean train?");
  });

  it("without a command: the help", async () => {
    const { code, stderr } = await agentrl();
    expect(code).toBe(2);
    expect(stderr).toContain("Usage: agentrl");
  });

  it("train without a run folder", async () => {
    mkdirSync(join(folder, "model"), { recursive: true });
    writeFileSync(join(folder, "ok.yaml"), "model: {path: model}\nsteps: 1\ntasks: [{name: kg}]\n");
    const { code, stderr } = await inProcess("train", join(folder, "ok.yaml"));
    expect(code).toBe(2);
    expect(stderr).toContain("--out RUN");
  });
});

describe("a known error", () => {
  const lines = "model: {path: nowhere}\nsteps: 1\nrolout: {}\n";

  it("is its message, without a stack, and exit code 1", async () => {
    const file = join(folder, "bad.yaml");
    writeFileSync(file, lines);
    const { code, stdout, stderr } = await agentrl("train", file, "--out", join(folder, "run"));
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain("agentrl: Unknown key `rolout`.");
    expect(stderr).toContain(`where:    ${file}:3:1`);
    expect(stderr).toContain("Did you mean `rollout`?");
    expect(stderr).not.toMatch(/^ +at /m);
  });

  it("has a stack with --verbose, before or after the command", async () => {
    const file = join(folder, "bad.yaml");
    writeFileSync(file, lines);
    expect((await inProcess("--verbose", "train", file, "--out", "x")).stderr).toMatch(/^ +at /m);
    expect((await inProcess("train", file, "--out", "x", "--verbose")).stderr).toMatch(/^ +at /m);
  });

  it("a --json path that cannot be written ends the command before its work", async () => {
    writeFileSync(join(folder, "plain"), "");
    const { code, stdout, stderr } = await inProcess("doctor", "--json", join(folder, "plain", "x.json"));
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain("--json file cannot be written");
  });
});

describe("doctor", () => {
  it("reports this machine, on the screen and as JSON", async () => {
    const file = join(folder, "deep", "doctor.json");
    const { stdout } = await agentrl("doctor", "--json", file);
    const report = JSON.parse(readFileSync(file, "utf8")) as DoctorReport;
    const values = Object.fromEntries(report.checks.map((check) => [check.name, check.value]));
    expect(values.node).toBe(process.versions.node);
    expect(values.system).toBe(`${process.platform} ${process.arch}`);
    expect(Object.keys(values)).toEqual(
      expect.arrayContaining(["cpu", "memory", "shared memory", "native addon", "webgpu"]),
    );
    for (const { name, value } of report.checks) expect(stdout).toContain(`${name.padEnd(13)}  ${value}`);
    for (const check of report.checks) if (check.status !== "ok") expect(check.hint ?? check.value).not.toBe("");
  });
});

describe("npx", () => {
  it("finds the program inside the clone", async () => {
    const root = fileURLToPath(new URL("../..", import.meta.url));
    const npx = await new Promise<Result>((resolve) => {
      execFile(
        "npx",
        ["--offline", "--no", "agentrl", "--version"],
        { cwd: root, timeout: 60_000 },
        (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
      );
    });
    expect(npx.stdout.trim()).toMatch(/^\d+\.\d+\.\d+$/);
  });
});
