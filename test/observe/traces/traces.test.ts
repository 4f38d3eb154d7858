import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { AgentRLError } from "../../../src/errors.ts";
import { TraceReader } from "../../../src/observe/traces/reader.ts";
import { TraceWriter, type TraceWriterOptions } from "../../../src/observe/traces/writer.ts";
import type { Advantages } from "../../../src/rl/advantages/estimator.ts";
import { noVersion, type Trajectory } from "../../../src/rl/trajectory.ts";
import { Tokenizer } from "../../../src/text/tokenizer.ts";
import { trajectory } from "../../rl/trajectories.ts";

let tokenizer: Tokenizer;
let run: string;
const faults: AgentRLError[] = [];
const writers: TraceWriter[] = [];

beforeAll(() => {
  tokenizer = Tokenizer.load(fileURLToPath(new URL("../../../models/tiny", import.meta.url)));
});
beforeEach(() => {
  run = mkdtempSync(join(tmpdir(), "agentrl-traces-"));
  faults.length = 0;
});
afterEach(() => {
  for (const writer of writers.splice(0)) writer.close();
  rmSync(run, { recursive: true });
});

function writer(options: Partial<TraceWriterOptions> = {}): TraceWriter {
  const writer = new TraceWriter({
    run,
    tokenizer,
    every: 1,
    maxBytes: 1 << 20,
    step: 0,
    onFault: (error) => faults.push(error),
    ...options,
  });
  writers.push(writer);
  return writer;
}

function advantagesOf(groups: Trajectory[][], value = 0.5): Advantages {
  return new Map(groups.flat().map((one) => [one, Float32Array.from(one.sampled, (flag) => flag * value)]));
}

/** A group of two samples, 40 tokens each unless said otherwise. */
function group(number: number, length = 40): Trajectory[] {
  const mask = Array.from({ length }, (_, i) => (i >= 8 ? 1 : 0));
  return [0, 1].map((sample) => trajectory({ mask, vocab: 300, group: number, sample, reward: sample }));
}

/** One that says `text`, which it sampled all but the first token of. */
function saying(text: string): Trajectory {
  const tokens = tokenizer.encodeText(text);
  const one = trajectory({ mask: Array.from(tokens, (_, i) => (i > 0 ? 1 : 0)) });
  return { ...one, tokens };
}

const ids = (reader = TraceReader.open(run)) => reader.summaries().map(({ id }) => id);

describe("traces", () => {
  it("come back as they were trained", () => {
    const messages = [
      { role: "user" as const, content: "How many?" },
      { role: "assistant" as const, content: "", toolCalls: [{ id: "0", name: "count", arguments: { of: "<b>" } }] },
      { role: "tool" as const, content: "7", toolCallId: "0", name: "count" },
    ];
    const one: Trajectory = {
      ...trajectory({
        mask: [0, 1, 1, 0, 1, 1],
        version: [3, 3, 4, 4, 4, noVersion],
        group: 9,
        sample: 1,
        reward: 0.75,
      }),
      messages,
      timings: { ended: 1_700_000_000_000, total: 80, environment: 20, generation: 60 },
    };
    const advantages: Advantages = new Map([[one, Float32Array.of(0, 1, 2, 0, -0.5, 0.25)]]);
    writer().write(5, [[one]], advantages);
    const reader = TraceReader.open(run);
    expect(reader.summaries()).toEqual([
      {
        ...{
          id: "5-9-1",
          step: 5,
          task: "dbbench",
          index: 3,
          group: 9,
          sample: 1,
          reward: 0.75,
          endReason: "completed",
        },
        ...{ advantage: (1 + 2 - 0.5 + 0.25) / 4, turns: 1, tokens: 6, sampledTokens: 4, versions: [3, 4] },
        timings: one.timings,
      },
    ]);
    const trace = reader.read("5-9-1");
    expect(trace).toMatchObject({ id: "5-9-1", split: "train", messages, turnSpans: one.turns, reward: 0.75 });
    expect(trace.tokens).toEqual(one.tokens);
    expect(trace.mask).toEqual(one.sampled);
    expect(trace.logProbs).toEqual(one.logProbs);
    expect(trace.versions).toEqual(one.version);
    expect(trace.advantages).toEqual(advantages.get(one));
    expect(faults).toEqual([]);
  });

  it("show a character of several tokens at its last one, and bytes that are none as U+FFFD", () => {
    const text = "a → 東京 🦉 <|end|> b";
    const broken = saying(text);
    // Half an owl at the end.
    const owl = tokenizer.encodeText("🦉");
    const cut = {
      ...broken,
      sample: 1,
      tokens: Uint32Array.from([...broken.tokens.slice(owl.length - 1), ...owl.slice(0, -1)]),
    };
    writer().write(1, [[broken, cut]], new Map());
    const reader = TraceReader.open(run);
    const { tokenTexts, advantages } = reader.read("1-0-0");
    expect(owl.length).toBeGreaterThan(1);
    expect(tokenTexts.join("")).toBe(text);
    expect(tokenTexts.filter((part) => part.includes("🦉"))).toHaveLength(1);
    expect(advantages).toEqual(new Float32Array(broken.tokens.length));
    const texts = reader.read("1-0-1").tokenTexts;
    expect(texts).toHaveLength(cut.tokens.length);
    expect(texts.join("")).toBe(tokenizer.decode(cut.tokens));
  });

  it("are followed while they are written; a torn last line is ignored", () => {
    const reader = TraceReader.open(run);
    expect(ids(reader)).toEqual([]);
    const traces = writer({ every: 2 });
    for (const step of [1, 2, 3, 4]) {
      traces.write(step, [group(step)], advantagesOf([group(step)]));
      expect(ids(reader)).toEqual(["2-2-0", "2-2-1", "4-4-0", "4-4-1"].slice(0, 2 * Math.floor(step / 2)));
    }
    appendFileSync(join(run, "traces", "index.jsonl"), '{"id":"6-');
    expect(ids(reader)).toHaveLength(4);
    traces.close();
    // A run that goes on takes the torn line out.
    writer({ step: 4 }).write(6, [group(6)], new Map());
    expect(ids(reader)).toEqual(["2-2-0", "2-2-1", "4-4-0", "4-4-1", "6-6-0", "6-6-1"]);
    expect(ids()).toEqual(ids(reader));
  });

  it("of a run that went back to a checkpoint replace those after it, once each", () => {
    const first = writer();
    for (const step of [1, 2, 3]) first.write(step, [group(step)], new Map());
    const reader = TraceReader.open(run);
    expect(ids(reader)).toHaveLength(6);
    first.close();
    const second = writer({ step: 1 });
    // Those of the lost steps are gone at once.
    expect(ids(reader)).toEqual(["1-1-0", "1-1-1"]);
    // The order of groups may be another after a crash.
    for (const [step, number] of [
      [2, 3],
      [3, 2],
    ] as const)
      second.write(step, [group(number, 60)], new Map());
    expect(ids(reader)).toEqual(["1-1-0", "1-1-1", "2-3-0", "2-3-1", "3-2-0", "3-2-1"]);
    for (const id of ids(reader)) expect(reader.read(id).tokens).toHaveLength(id.startsWith("1-") ? 40 : 60);
  });

  it("go back in the reader as well where the index could not be written anew", () => {
    const traces = writer();
    for (const step of [1, 2, 3, 2]) traces.write(step, [group(10 * step)], new Map());
    expect(ids()).toEqual(["1-10-0", "1-10-1", "2-20-0", "2-20-1"]);
  });

  it("take no more than they may: the oldest go, and all that are listed can be read", () => {
    const maxBytes = 40_000;
    const reader = TraceReader.open(run);
    const traces = writer({ maxBytes });
    const size = () =>
      readdirSync(join(run, "traces")).reduce((sum, name) => sum + statSync(join(run, "traces", name)).size, 0);
    for (let step = 1; step <= 120; step++) {
      traces.write(step, [group(step, 200)], new Map());
      expect(size()).toBeLessThan(maxBytes * 1.05);
    }
    const kept = ids(reader);
    expect(kept.length).toBeLessThan(200);
    expect(kept.at(-1)).toBe("120-120-1");
    // The newest in a row, and not much less than there is room for.
    expect(kept.map((id) => Number(id.split("-")[0]))).toEqual(
      kept.map((_, i) => 120 - Math.floor((kept.length - 1 - i) / 2)),
    );
    expect(size()).toBeGreaterThan(maxBytes * 0.7);
    for (const id of kept) expect(reader.read(id).tokens).toHaveLength(200);
    expect(faults).toEqual([]);
    expect(() => reader.read("1-1-0")).toThrow(/no such trace/);
  });

  it("that cannot be written are told, and tried again at the next step", () => {
    writeFileSync(join(run, "traces"), "in the way");
    const traces = writer();
    traces.write(1, [group(1)], new Map());
    expect(faults.map(({ code }) => code)).toEqual(["DISK", "DISK"]);
    rmSync(join(run, "traces"));
    traces.write(2, [group(2)], new Map());
    expect(faults).toHaveLength(2);
    expect(ids()).toEqual(["2-2-0", "2-2-1"]);
  });

  it("that are too large are told, and those before and after are kept", () => {
    const traces = writer({ maxBytes: 20_000 });
    for (const [step, length] of [
      [1, 40],
      [2, 8000],
      [3, 40],
    ] as const)
      traces.write(step, [group(step, length)], new Map());
    expect(faults.map(({ message }) => message)).toEqual([expect.stringMatching(/^Traces are too large/)]);
    expect(ids()).toEqual(["1-1-0", "1-1-1", "3-3-0", "3-3-1"]);
    expect(() => TraceReader.open(join(run, "nothing"))).toThrow(/no such run/);
  });

  it("that a power cut has damaged are named, and the others are read", () => {
    const traces = writer();
    for (const step of [1, 2]) traces.write(step, [group(step)], new Map());
    const file = join(run, "traces", "000001.msgpack");
    const bytes = readFileSync(file);
    bytes[30]! ^= 0xff;
    writeFileSync(file, bytes);
    const reader = TraceReader.open(run);
    expect(() => reader.read("1-1-0")).toThrow(/cannot be read[\s\S]*000001.msgpack, 1-1-0/);
    expect(reader.read("2-2-1").tokens).toHaveLength(40);
  });
});
