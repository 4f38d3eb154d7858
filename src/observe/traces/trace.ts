/** What is kept of an episode that was trained, and how it lies on disk. */

import { deflateSync, inflateSync } from "node:zlib";
import { Packr } from "msgpackr";
import type { Message } from "../../env/environment.ts";
import { AgentRLError } from "../../errors.ts";
import type { Advantages } from "../../rl/advantages/estimator.ts";
import { noVersion, type Trajectory, type Turn } from "../../rl/trajectory.ts";
import { splitTexts } from "./token-texts.ts";

export interface TraceSummary {
  /** Of the run: step, group and sample, as in "12-340-3". */
  id: string;
  /** The step that it was trained in. */
  step: number;
  task: string;
  index: number;
  group: number;
  sample: number;
  /** As the environment gave it. */
  reward: number;
  /** Mean over the sampled tokens. */
  advantage: number;
  endReason: string;
  turns: number;
  tokens: number;
  sampledTokens: number;
  /** Oldest and newest weights that sampled; -1 where no version of the run did. */
  versions: [number, number];
  /** When the episode ended, in milliseconds since 1970, and how long it took, in milliseconds. */
  timings: Trajectory["timings"];
}

/** Of the summary, `tokens` and `versions` are here what they sum up. */
export interface Trace extends Omit<TraceSummary, "tokens" | "versions"> {
  split: string;
  /** What was said, tool calls and results included. Of a long episode the longest texts are cut. */
  messages: Message[];
  /** Token offsets of what the policy said in each turn, and what came of it. */
  turnSpans: Turn[];
  /** [tokens] joined, the text of all tokens; a character of several tokens stands at its last. */
  tokenTexts: string[];
  tokens: Uint32Array;
  /** [tokens] 1 where the policy sampled the token: the loss mask. */
  mask: Uint8Array;
  /** [tokens] natural logarithms, 0 where not sampled. */
  logProbs: Float32Array;
  /** [tokens] weight version; `noVersion` (2³² - 1) where none of the run's computed the token. */
  versions: Uint32Array;
  /** [tokens] 0 where not sampled. */
  advantages: Float32Array;
}

/** Where a trace lies: in a block of traces that were compressed together, at a place of it. */
export interface TracePlace {
  file: string;
  offset: number;
  length: number;
  at: number;
}

/** A line of the index. */
export type TraceEntry = TraceSummary & TracePlace;

const packr = new Packr({ useRecords: false });

export function summaryOf(step: number, trajectory: Trajectory, advantages: Advantages): TraceSummary {
  const { task, index, group, sample, reward, endReason, turns, tokens, timings } = trajectory;
  const { sampled, version } = trajectory;
  const perToken = advantages.get(trajectory);
  let [sampledTokens, sum, oldest, newest] = [0, 0, noVersion, -1];
  for (let i = 0; i < tokens.length; i++) {
    if (sampled[i] !== 1) continue;
    sampledTokens++;
    sum += perToken?.[i] ?? 0;
    if (version[i] === noVersion) continue;
    oldest = Math.min(oldest, version[i]!);
    newest = Math.max(newest, version[i]!);
  }
  return {
    id: `${step}-${group}-${sample}`,
    step,
    task,
    index,
    group,
    sample,
    reward,
    advantage: sampledTokens > 0 ? sum / sampledTokens : 0,
    endReason,
    turns: turns.length,
    tokens: tokens.length,
    sampledTokens,
    versions: newest < 0 ? [-1, -1] : [oldest, newest],
    timings,
  };
}

/**
 * One trace as it lies in a block.
 * @param bytesOf The bytes of a token's text.
 */
export function encodeTrace(
  trajectory: Trajectory,
  advantages: Advantages,
  bytesOf: (token: number) => Uint8Array,
): Uint8Array {
  const { tokens, sampled, logProbs, version, turns, split, messages = [] } = trajectory;
  const texts = Array.from(tokens, bytesOf);
  return packr.pack({
    split,
    messages,
    turns,
    tokens: raw(tokens),
    sampled: raw(sampled),
    logProbs: raw(logProbs),
    versions: raw(version),
    advantages: raw(advantages.get(trajectory) ?? new Float32Array(tokens.length)),
    text: Buffer.concat(texts),
    textLengths: raw(Uint16Array.from(texts, ({ length }) => length)),
  });
}

/**
 * Samples of a group begin alike, and masks, versions and advantages hardly vary: a block of them shrinks to a tenth, at
 * a tenth of the time that each alone would take.
 */
export function compressBlock(traces: readonly Uint8Array[]): Uint8Array {
  return deflateSync(packr.pack(traces), { level: 1 });
}

/** @throws AgentRLError "SAMPLE_FILE" for a block that `compressBlock` did not make, or that a crash has damaged. */
export function decodeTrace(block: Uint8Array, at: number, summary: TraceSummary, where: string): Trace {
  try {
    const traces = packr.unpack(inflateSync(block)) as Uint8Array[];
    const record = packr.unpack(traces[at]!) as Record<string, unknown>;
    const array = <T>(name: string, type: new (bytes: ArrayBuffer) => T): T =>
      // A copy: a view into the record need not be aligned for 4-byte elements.
      new type(new Uint8Array(record[name] as Uint8Array).buffer);
    return {
      ...summary,
      split: record.split as string,
      messages: record.messages as Message[],
      turnSpans: record.turns as Turn[],
      tokenTexts: splitTexts(record.text as Uint8Array, array("textLengths", Uint16Array)),
      tokens: array("tokens", Uint32Array),
      mask: array("sampled", Uint8Array),
      logProbs: array("logProbs", Float32Array),
      versions: array("versions", Uint32Array),
      advantages: array("advantages", Float32Array),
    };
  } catch (cause) {
    throw new AgentRLError("SAMPLE_FILE", "A trace cannot be read", {
      where,
      got: (cause as Error).message,
      expected: "what the run has written there",
      hint: "A machine that lost its power may have lost it; the others can still be read.",
      cause,
    });
  }
}

function raw(array: Uint32Array | Uint16Array | Uint8Array | Float32Array): Buffer {
  return Buffer.from(array.buffer, array.byteOffset, array.byteLength);
}
