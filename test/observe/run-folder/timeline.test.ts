import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Timeline, TimelineEvent } from "../../../src/observe/run-folder/timeline.ts";
import { TraceWriter } from "../../../src/observe/traces/writer.ts";
import { Tokenizer } from "../../../src/text/tokenizer.ts";
import { inProcess } from "../../cli/in-process.ts";
import { trajectory } from "../../rl/trajectories.ts";
import { runFolder, step } from "./folders.ts";

const began = Date.parse("2026-01-01T00:00:00Z");
let folder: string;
let events: TimelineEvent[];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-timeline-"));
  const at = (number: number, elapsed: number) => step(number, { kg: number / 10 }, { elapsed });
  const evaluation = [
    { task: "kg", policy: "", episodes: 4, success: 0.5, successes: 2, meanReward: 0.5, endReasons: {} },
  ];
  // Steps 1 to 3; the run is killed and goes on from 2; an evaluation of step 2 came late.
  const run = runFolder(folder, "run", {}, [
    at(1, 10),
    at(2, 12),
    at(3, 15),
    { ...at(2, 12), evaluation },
    at(3, 4),
    at(4, 6),
  ]);
  const sessions = [
    [0, 0],
    [20, 2],
    [23, 2],
  ].map(([s, step]) => ({ started: new Date(began + 1000 * s!).toISOString(), step }));
  writeFileSync(join(run, "sessions.jsonl"), sessions.map((session) => `${JSON.stringify(session)}\n`).join(""));
  const traces = new TraceWriter({
    ...{ run, tokenizer: Tokenizer.load(fileURLToPath(new URL("../../../models/tiny", import.meta.url))) },
    ...{ every: 1, maxBytes: 1 << 20, step: 0 },
    onFault: (error) => {
      throw error;
    },
  });
  // Seconds: [beginning, end]. The second overlaps the first, the third begins when the first ends.
  const group = [
    [1, 4],
    [2, 9],
    [4, 6],
  ].map(([from, to], sample) => ({
    ...trajectory({ mask: [0, 1], vocab: 200, task: "kg", sample }),
    timings: { ended: began + 1000 * to!, total: 1000 * (to! - from!), environment: 0, generation: 0 },
  }));
  traces.write(1, [group], new Map());
  traces.close();
  const out = join(folder, "trace.json");
  const { code, stdout } = await inProcess("runs", "timeline", run, "--out", out);
  expect([code, stdout]).toEqual([0, expect.stringContaining("5 steps, 3 episodes")]);
  events = (JSON.parse(readFileSync(out, "utf8")) as Timeline).traceEvents;
});
afterAll(() => rmSync(folder, { recursive: true }));

const seconds = (event: TimelineEvent) => event.ts / 1e6;

describe("the timeline of a run", () => {
  it("has the learner's phases where its clock and its sessions put them", () => {
    const trained = events.filter(({ name, ph }) => name === "train" && ph === "X");
    // A step ends when its line says; it trains 0.4 s, after 0.05 s of checks. The second session was over after 3 s.
    expect(trained.map((event) => seconds(event) + event.dur! / 1e6)).toEqual([10, 12, 15, 27, 29]);
    expect(trained.map(({ dur }) => dur)).toEqual(Array(5).fill(400_000));
    const checked = events.filter(({ name }) => name === "verify");
    expect(checked.map((event) => event.ts + event.dur!)).toEqual(trained.map(({ ts }) => ts));
    expect(events.filter(({ name }) => name.startsWith("weights")).map(({ name }) => name)).toEqual(
      [1, 2, 3, 3, 4].map((version) => `weights ${version}`),
    );
    const evaluated = events.find(({ name }) => name === "evaluated")!;
    expect([seconds(evaluated), evaluated.args]).toEqual([12, { step: 2, success: 0.5 }]);
    const busy = events.filter(({ name }) => name === "busy %").map(({ args }) => args);
    expect(busy).toEqual(Array(5).fill({ learner: 45, engine: 90 }));
  });

  it("has its episodes on lanes that none shares with another at a time", () => {
    const played = events.filter(({ ph, pid }) => ph === "X" && pid === 2);
    expect(played.map((event) => [seconds(event), event.dur! / 1e6, event.tid])).toEqual([
      [1, 3, 1],
      [2, 7, 2],
      [4, 2, 1],
    ]);
    expect(played[0]!.args).toMatchObject({ id: "1-0-0", endReason: "completed" });
  });
});
