import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stepsOf } from "../../../src/observe/metrics.ts";
import { plainLine, plainText } from "../../../src/observe/plain-text.ts";
import { compareRuns } from "../../../src/observe/run-folder/compare.ts";
import { findRuns, overviewOf } from "../../../src/observe/run-folder/overview.ts";
import { followRun } from "../../../src/observe/run-folder/tail.ts";
import { TraceWriter } from "../../../src/observe/traces/writer.ts";
import { noFaults } from "../../../src/pipeline/faults.ts";
import { lockRunFolder } from "../../../src/pipeline/run-lock.ts";
import type { RunStep } from "../../../src/pipeline/run-log.ts";
import { Tokenizer } from "../../../src/text/tokenizer.ts";
import { inProcess } from "../../cli/in-process.ts";
import { trajectory } from "../../rl/trajectories.ts";
import { runFolder, step } from "./folders.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-runs-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Rewards of kg and os in step s of run a are s/100 and 2s/100. */
const rising = (count: number, by = 1) =>
  Array.from({ length: count }, (_, i) => step(i + 1, { kg: (by * (i + 1)) / 100, os: (2 * by * (i + 1)) / 100 }));
const evaluated = (line: RunStep, ...success: number[]): RunStep => ({
  ...line,
  evaluation: success.map((one, i) => ({
    ...{
      task: ["kg", "os"][i]!,
      policy: "",
      episodes: 10,
      success: one,
      successes: 10 * one,
      meanReward: one,
      endReasons: {},
    },
  })),
});

describe("runs below a folder", () => {
  it("are listed with what their last steps came to", async () => {
    const lines = rising(20);
    // An evaluation's line comes after those of the steps that went on meanwhile.
    const a = runFolder(folder, "list/a", { steps: 30, evaluation: { every: 10 } }, [
      ...lines,
      evaluated(lines[9]!, 0.5, 1),
    ]);
    runFolder(folder, "list/deep/er/b", { steps: 5 }, []);
    expect(findRuns(join(folder, "list"))).toEqual([a, join(folder, "list/deep/er/b")]);
    expect(overviewOf(a)).toMatchObject({ state: "stopped", step: 20, steps: 30, heldOut: 0.75, mismatch: 0 });
    // Steps 11 to 20: mean 15.5.
    expect(overviewOf(a).tasks.kg).toBeCloseTo(0.155, 12);
    expect(overviewOf(a).reward).toBeCloseTo((0.155 + 0.31) / 2, 12);
    expect(overviewOf(findRuns(join(folder, "list"))[1]!)).toMatchObject({
      step: 0,
      reward: null,
      tasks: {},
      mismatch: null,
    });
    const free = lockRunFolder(a);
    expect(overviewOf(a).state).toBe("running");
    free();
    const { stdout, code } = await inProcess("runs", join(folder, "list"));
    expect(code).toBe(0);
    expect(stdout).toMatch(/run +state +step +reward +kg +os +held out/);
    expect(stdout).toMatch(/list\/a +stopped +20\/30 +0\.23 +0\.15 +0\.31 +75\.0 %/);
    expect(await inProcess("runs", join(folder, "nowhere"))).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/no such folder/),
    });
  });

  it("count what a resumed run has done again, once, and not what it has yet to", () => {
    const [one, two, three, four] = rising(4);
    const again = step(2, { kg: 1 });
    const later = evaluated(two!, 0.5);
    expect(stepsOf([one!, two!, three!, four!, later])).toEqual([one, later, three, four]);
    expect(stepsOf([one!, two!, three!, four!, again])).toEqual([one, again]);
  });

  it("are compared at the steps that both have done", async () => {
    const a = runFolder(folder, "compare/a", { steps: 30, optimizer: { lr: 0.1, beta1: 0.9 } }, rising(25));
    const faults = { ...noFaults(), lostSamples: 2, rolloutRestarts: 1 };
    const worse = { mismatch: 0.5, faults };
    const b = runFolder(folder, "compare/b", { steps: 30, optimizer: { lr: 0.2, beta1: 0.9 }, lora: { rank: 4 } }, [
      ...rising(19, 2),
      evaluated(step(20, { kg: 0.4, os: 0.8 }, worse), 0.25, 0.75),
    ]);
    const comparison = compareRuns(a, b);
    expect(comparison.config).toEqual([
      { key: "optimizer.lr", a: 0.1, b: 0.2 },
      { key: "lora.rank", a: undefined, b: 4 },
    ]);
    expect(comparison.rewards).toHaveLength(10);
    // Steps 11 to 20 earn 1.5 × 15.5 hundredths, and twice that.
    expect(comparison.rewards.at(-1)!.step).toBe(20);
    expect(comparison.rewards.at(-1)!.a).toBeCloseTo(0.2325, 12);
    expect(comparison.rewards.at(-1)!.b).toBeCloseTo(0.465, 12);
    expect(comparison.b).toMatchObject({ steps: 20, heldOut: 0.5, mismatch: 0.5, faults: 3, maxLag: 2 });
    expect(comparison.a).toMatchObject({ steps: 25, heldOut: null, mismatch: 0, faults: 0 });
    const { stdout } = await inProcess("runs", "compare", a, b);
    expect(stdout).toMatch(/lora\.rank +— +4/);
    expect(stdout).toMatch(/20 +0\.23 +0\.47 +\+0\.23/);
    expect(await inProcess("runs", "compare", a, folder)).toMatchObject({ code: 2 });
  });

  it("are followed until they end, each line once", async () => {
    const lines = rising(6);
    const run = runFolder(folder, "tail", { steps: 6 }, lines.slice(0, 4));
    const free = lockRunFolder(run);
    const seen: number[] = [];
    const write = (text: string) => appendFileSync(join(run, "metrics.jsonl"), text);
    await followRun(run, {
      last: 2,
      follow: true,
      onLine: (line) => {
        seen.push(line.step);
        // The run goes on when the last of what was there is shown, in two writes, and then ends.
        if (line.step === 4) write(JSON.stringify(lines[4]).slice(0, 40));
        if (line.step === 4)
          setImmediate(() => write(`${JSON.stringify(lines[4]).slice(40)}\n${JSON.stringify(lines[5])}\n`));
        if (line.step === 6) free();
      },
    });
    expect(seen).toEqual([3, 4, 5, 6]);
    const { stdout } = await inProcess("runs", "tail", run, "--no-follow", "--lines", "1");
    expect(stdout).toBe("step 6/6  kg 0.06  os 0.12  lag 2  200 tok/s\n");
    const bad = runFolder(folder, "bad", { steps: 1 }, []);
    appendFileSync(join(bad, "metrics.jsonl"), "{]\n");
    expect(await inProcess("runs", "tail", bad)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/metrics.jsonl:1/),
    });
  });
});

/** Our own colours alone: any other escape sequence stays. */
const withoutColours = (text: string) =>
  text
    .split("\x1b")
    .map((part, i) => (i === 0 ? part : /^\[[\d;]*m/.test(part) ? part.slice(part.indexOf("m") + 1) : `\x1b${part}`))
    .join("");
const dangers = (text: string) => [...text].filter((character) => "\x1b\x07\x9b\u202e".includes(character));

describe("text for a terminal", () => {
  it("carries nothing out", () => {
    expect(plainText("a\x1b[31mb\x07\x9b2Jc\x7f\u202ed\r")).toBe("a␛[31mb␇⟨U+009B⟩2Jc␡⟨U+202E⟩d␍");
    expect(plainText("two\nlines\tand é 東 🦉")).toBe("two\nlines\tand é 東 🦉");
    expect(plainLine("two\nlines\t")).toBe("two↵lines⇥");
  });
});

describe("episodes in the terminal", () => {
  // A colour, the window's title, a cleared screen, and text from right to left.
  const evil = "\x1b[31mred\x1b]0;owned\x07\x9b2J\u202edone";
  let run: string;
  beforeAll(() => {
    const tokenizer = Tokenizer.load(fileURLToPath(new URL("../../../models/tiny", import.meta.url)));
    run = runFolder(folder, "inspect", { steps: 2 }, rising(2));
    const traces = new TraceWriter({
      ...{ run, tokenizer, every: 1, maxBytes: 1 << 20, step: 0 },
      onFault: (error) => {
        throw error;
      },
    });
    const tokens = tokenizer.encodeText(`${evil} 🦉`);
    const mask = Array.from(tokens, (_, i) => (i > 1 ? 1 : 0));
    const one = {
      ...trajectory({ mask, task: "kg", group: 4, reward: 1, version: mask.map((_, i) => 7 + (i % 2)) }),
      ...{ tokens, split: "train", index: 12 },
      turns: [{ start: 2, end: tokens.length, reward: 1, parseFailure: true, policy: evil }],
      messages: [
        { role: "user" as const, content: evil },
        {
          role: "assistant" as const,
          content: "",
          thinking: evil,
          toolCalls: [{ id: "0", name: evil, arguments: { [evil]: evil } }],
        },
        { role: "tool" as const, content: "line 1\nline 2", name: evil },
      ],
    };
    const advantages = new Map([[one, Float32Array.from(mask, (flag, i) => (flag ? (i % 3) - 1 : 0))]]);
    traces.write(1, [[one]], advantages);
    const others = [0, 0.5].map((reward, sample) =>
      trajectory({ mask: [0, 1, 1], vocab: 200, task: "os", group: 5, sample, reward }),
    );
    traces.write(
      2,
      [others.map((other, i) => ({ ...other, endReason: i === 0 ? "turn limit" : "completed" }))],
      new Map(),
    );
    traces.close();
  });

  it.each([
    [[], ["1-4-0", "2-5-0", "2-5-1"]],
    [
      ["--task", "os"],
      ["2-5-0", "2-5-1"],
    ],
    [["--step", "1"], ["1-4-0"]],
    [["--step", "2-9", "--max-reward", "0.2"], ["2-5-0"]],
    [
      ["--min-reward", "0.5", "--end", "completed"],
      ["1-4-0", "2-5-1"],
    ],
    [["--limit", "1"], ["2-5-1"]],
    [["--task", "alfworld"], []],
  ])("are chosen by %j", async (choice, ids) => {
    const { code, stdout } = await inProcess("inspect", run, ...choice);
    expect(code).toBe(0);
    expect([...stdout.matchAll(/^\d+-\d+-\d+/gm)].map(([id]) => id)).toEqual(ids);
    if (ids.length === 0) expect(stdout).toMatch(/None of 3 episodes is so: steps 1 to 2; tasks are kg, os/);
  });

  it("are shown turn by turn, with nothing of their text carried out", async () => {
    const { stdout } = await inProcess("inspect", run, "1-4-0");
    expect(dangers(stdout)).toEqual([]);
    const shown = plainText(evil);
    expect(stdout).toContain("kg train[12], step 1, group 4, sample 0");
    expect(stdout).toContain(`── user\n${shown}\n`);
    expect(stdout).toContain("── assistant 1: reward 1, ");
    expect(stdout).toContain(`versions 7 to 8, by ${shown}, does not parse\n(thinking) ${shown}\n`);
    expect(stdout).toContain(`→ ${shown} ${plainLine(JSON.stringify({ [evil]: evil }))}`);
    expect(stdout).toContain(`── tool ${shown}\nline 1\nline 2`);
    const coloured = (await inProcess("inspect", run, "1-4-0", "--color", "always")).stdout;
    // Nothing but our own colours.
    expect(withoutColours(coloured)).toBe(stdout);
  });

  it.each(["mask", "logprob", "version", "advantage"])("show their tokens coloured by %s", async (view) => {
    const { stdout } = await inProcess("inspect", run, "1-4-0", "--tokens", view, "--color", "always");
    const plain = withoutColours(stdout);
    expect(dangers(plain)).toEqual([]);
    expect(plain).toContain("🦉");
    const grounds = new Set(
      Array.from(stdout.slice(stdout.indexOf("\n")).matchAll(/48;5;(\d+)m/g), ([, colour]) => colour),
    );
    expect(grounds.size).toBe({ mask: 1, logprob: 3, version: 2, advantage: 3 }[view]);
  });

  it("show their tokens as a table where there are no colours, and take no token view of a list", async () => {
    const { stdout } = await inProcess("inspect", run, "1-4-0", "--tokens");
    const rows = stdout.trimEnd().split("\n");
    expect(rows[0]).toMatch(/# +id +sampled +logprob +version +advantage +text/);
    expect(rows[1]).toMatch(/^ *0 +\d+ +0 +7 +"/);
    expect(rows[3]).toMatch(/^ *2 +\d+ +1 +-\d\.\d{4} +7 +1\.0000 +"/);
    expect(await inProcess("inspect", run, "--tokens")).toMatchObject({ code: 2 });
    expect(await inProcess("inspect", run, "9-9-9")).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/no such trace/),
    });
    expect(await inProcess("inspect", run, "--step", "x")).toMatchObject({ code: 2 });
  });
});
