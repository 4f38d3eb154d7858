/**
 * `npm run soak`: a run under watch. Plays a config for an hour, samples the resident memory of each of its processes, ends
 * it by SIGTERM and looks for processes and shared memory left behind; then kills the supervisor of a second run with
 * SIGKILL and looks whether the next start cleans up. Ends with status 1 when memory drifts or anything is left. Linux.
 */
import { once } from "node:events";
import { appendFileSync, mkdirSync, mkdtempSync, statSync, watch } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import {
  type Command,
  leftAfter,
  newMark,
  processesOf,
  residentBytes,
  segmentsOf,
  startCommand,
} from "../test/run-processes.ts";
import { formatMemory, type MemorySample, memoryTrend } from "./soak-memory.ts";

const { values: options } = parseArgs({
  options: {
    config: { type: "string", default: fileURLToPath(new URL("../models/tiny/demo.yaml", import.meta.url)) },
    /** Length of the first run. */
    minutes: { type: "string", default: "60" },
    /** Minutes at its beginning that do not count. */
    warmup: { type: "string", default: "10" },
    /** Per cent by which memory may drift after it. */
    limit: { type: "string", default: "5" },
    /** Run folders and samples. */
    out: { type: "string" },
    /** Further `--set`s of `agentrl train`. */
    set: { type: "string", multiple: true, default: [] },
  },
});
const samplingMs = 10_000;
/** What an orderly end may take: the step in progress and a checkpoint. */
const endMs = 180_000;
const minutes = Number(options.minutes);
const warmup = Number(options.warmup);
const out = options.out ?? mkdtempSync(join(tmpdir(), "agentrl-soak-"));
const problems: string[] = [];

function start(name: string, mark: string, more: string[] = []): Command {
  const folder = join(out, name);
  mkdirSync(folder, { recursive: true });
  // More steps than there is time for.
  const sets = ["steps=1000000", ...options.set].flatMap((set) => ["--set", set]);
  return startCommand(["train", options.config, "--out", folder, ...sets, ...more], mark);
}

/** Waits for a step of the run that has just been started. */
async function nextStep(name: string, command: Command): Promise<void> {
  const folder = join(out, name);
  const file = join(folder, "metrics.jsonl");
  const size = () => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const before = size();
  const watcher = watch(folder);
  const written = new Promise<void>((resolve) => {
    watcher.on("change", () => {
      if (size() > before) resolve();
    });
  });
  const ended = command.ended.then(({ code }) => {
    throw new Error(`The run ended with ${code}:\n${command.output()}`);
  });
  await Promise.race([written, ended]);
  watcher.close();
}

async function sampleUntil(command: Command, mark: string, end: number): Promise<MemorySample[]> {
  const samples: MemorySample[] = [];
  const began = performance.now();
  while (performance.now() < end && command.process.exitCode === null) {
    const at = (performance.now() - began) / 60_000;
    for (const { pid, role } of processesOf(mark)) {
      const bytes = residentBytes(pid);
      if (bytes === null) continue;
      const sample = { process: `${role} ${pid}`, minutes: at, bytes };
      samples.push(sample);
      appendFileSync(join(out, "samples.jsonl"), `${JSON.stringify(sample)}\n`);
    }
    await Promise.race([delay(Math.min(samplingMs, Math.max(0, end - performance.now()))), command.ended]);
  }
  return samples;
}

/** Ends the run as a user would, and notes what it leaves. */
async function endRun(what: string, command: Command, mark: string): Promise<void> {
  const processes = processesOf(mark);
  command.process.kill("SIGTERM");
  await leftAfter(processes, endMs);
  const { code } = await command.ended;
  // 130: stopped before its last step, as asked.
  if (code !== 130) problems.push(`${what}: ended with ${code}:\n${command.output()}`);
  noteLeft(what, mark, segmentsOf([command.pid]));
}

function noteLeft(what: string, mark: string, segments: string[]): void {
  const left = [...processesOf(mark).map(({ pid, role }) => `${role} ${pid}`), ...segments];
  if (left.length > 0) problems.push(`${what}: left behind: ${left.join(", ")}`);
  console.log(`${what}: ${left.length === 0 ? "no process and no shared memory is left" : `left: ${left.join(", ")}`}`);
}

async function soak(): Promise<void> {
  const mark = newMark();
  const command = start("soak", mark);
  console.log(`${options.config} for ${minutes} minutes in ${out}`);
  const samples = await sampleUntil(command, mark, performance.now() + minutes * 60_000);
  if (command.process.exitCode !== null) problems.push(`the run ended by itself:\n${command.output()}`);
  for (const trend of memoryTrend(samples, warmup)) {
    console.log(formatMemory(trend));
    if (Math.abs(trend.drift) > Number(options.limit)) {
      problems.push(`${trend.process}: memory drifts by ${trend.drift.toFixed(1)} %`);
    }
  }
  await endRun("after SIGTERM", command, mark);
}

async function killAndStartAgain(): Promise<void> {
  const mark = newMark();
  const killed = start("killed", mark);
  await nextStep("killed", killed);
  const children = processesOf(mark).filter(({ role }) => role !== "supervisor");
  killed.process.kill("SIGKILL");
  await once(killed.process, "exit");
  await leftAfter(children, endMs);
  const segments = segmentsOf([killed.pid]);
  console.log(`kill -9 of the supervisor left ${segments.join(", ")} in shared memory`);
  if (segments.length === 0) problems.push("a killed supervisor left no shared memory: nothing was tried");
  const next = start("killed", mark, ["--resume"]);
  await nextStep("killed", next);
  const still = segmentsOf([killed.pid]);
  if (still.length > 0) problems.push(`the next start has left ${still.join(", ")}`);
  await endRun("the next start", next, mark);
  noteLeft("of both", mark, segmentsOf([killed.pid, next.pid]));
}

await soak();
await killAndStartAgain();
for (const problem of problems) console.error(`FAILED ${problem}`);
console.log(problems.length === 0 ? "passed" : `${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
