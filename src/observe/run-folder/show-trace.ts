/** Traces as text for a terminal. What models and environments wrote is shown, never carried out (plain-text.ts). */
import type { Message } from "../../env/environment.ts";
import { noVersion } from "../../rl/trajectory.ts";
import { plainLine, plainText } from "../plain-text.ts";
import type { Trace } from "../traces/trace.ts";

export const tokenViews = ["mask", "logprob", "version", "advantage"] as const;
export type TokenView = (typeof tokenViews)[number];

export interface ShowOptions {
  colour: boolean;
}

/** The episode turn by turn: what was said, calls and results, and what each turn earned. */
export function showTrace(trace: Trace, { colour }: ShowOptions): string {
  const paint = (code: string, text: string) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text);
  const { task, split, index, step, group, sample, reward, advantage, endReason, turnSpans, timings } = trace;
  const sampled = trace.mask.reduce((sum, flag) => sum + flag, 0);
  const out = [
    paint("1", `${plainLine(task)} ${plainLine(split)}[${index}], step ${step}, group ${group}, sample ${sample}`),
    `reward ${short(reward)}, advantage ${short(advantage)}, ${endReason}; ${turnSpans.length} turns, ` +
      `${trace.tokens.length} tokens, ${sampled} sampled${versionText(trace, 0, trace.tokens.length)}; ` +
      `${(timings.total / 1000).toFixed(1)} s, of which ${(timings.environment / 1000).toFixed(1)} s environment`,
  ];
  let turn = 0;
  for (const message of trace.messages) {
    const about = message.role === "assistant" ? ` ${turn + 1}${aboutTurn(trace, turn++)}` : nameOf(message);
    out.push("", paint("1;36", `── ${message.role}${about}`));
    if (message.thinking !== undefined) out.push(paint("2", `(thinking) ${plainText(message.thinking)}`));
    if (message.content !== "") out.push(plainText(message.content));
    for (const call of message.toolCalls ?? []) {
      out.push(paint("33", `→ ${plainLine(call.name)} ${plainLine(JSON.stringify(call.arguments))}`));
    }
  }
  if (trace.messages.length === 0) out.push("", plainText(trace.tokenTexts.join("")));
  return out.join("\n");
}

/**
 * Every token. With colour as running text, each on a ground that says its mask, log-probability, version or advantage;
 * without as a table of all four.
 */
export function showTokens(trace: Trace, view: TokenView, { colour }: ShowOptions): string {
  return colour ? paintedTokens(trace, view) : tokenTable(trace);
}

function tokenTable(trace: Trace): string {
  const { tokenTexts, mask, logProbs, versions, advantages, tokens } = trace;
  const rows = [["#", "id", "sampled", "logprob", "version", "advantage", "text"]];
  for (const [i, text] of tokenTexts.entries()) {
    const sampled = mask[i] === 1;
    rows.push([
      String(i),
      String(tokens[i]),
      sampled ? "1" : "0",
      sampled ? logProbs[i]!.toFixed(4) : "",
      versions[i] === noVersion ? "" : String(versions[i]),
      sampled ? advantages[i]!.toFixed(4) : "",
      plainLine(JSON.stringify(text)),
    ]);
  }
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const last = widths.length - 1;
  return rows
    .map((row) => row.map((cell, column) => (column === last ? cell : cell.padStart(widths[column]!))).join("  "))
    .join("\n");
}

/** Grounds of the 256-colour palette, from pale to strong; text on them is black. */
const reds = [224, 217, 210, 203, 196];
const greens = [194, 157, 120, 83, 46];
const blues = [195, 159, 123, 87, 51];

function paintedTokens(trace: Trace, view: TokenView): string {
  const { tokenTexts, mask, logProbs, versions, advantages } = trace;
  const sampled = [...mask.keys()].filter((i) => mask[i] === 1);
  const known = sampled.map((i) => versions[i]!).filter((version) => version !== noVersion);
  const newest = known.reduce((most, version) => Math.max(most, version), 0);
  const largest = sampled.reduce((most, i) => Math.max(most, Math.abs(advantages[i]!)), 0);
  const grounds: Record<TokenView, (i: number) => number> = {
    mask: () => greens[1]!,
    // A ground a nat: e⁻¹, e⁻², …
    logprob: (i) => pick(reds, Math.floor(-logProbs[i]!)),
    version: (i) => (versions[i] === noVersion ? 250 : pick(blues, newest - versions[i]!)),
    advantage: (i) => {
      const value = advantages[i]!;
      if (value === 0) return 255;
      return pick(value > 0 ? greens : reds, Math.ceil((Math.abs(value) / largest) * greens.length) - 1);
    },
  };
  const ground = grounds[view];
  const text = tokenTexts
    .map((token, i) => {
      const plain = plainText(token);
      if (mask[i] !== 1) return `\x1b[2m${plain}\x1b[0m`;
      // A line feed inside would paint the rest of the line; a token without text is a part of the next character.
      const shown = plain === "" ? "·" : plain.replaceAll("\n", "↵");
      return `\x1b[30;48;5;${ground(i)}m${shown}\x1b[0m${plain.endsWith("\n") ? "\n" : ""}`;
    })
    .join("")
    // One stretch of what was not sampled.
    .replaceAll("\x1b[0m\x1b[2m", "");
  return `${legend(view, newest, largest)}\n\n${text}`;
}

function legend(view: TokenView, newest: number, largest: number): string {
  const sample = (colour: number, text: string) => `\x1b[30;48;5;${colour}m ${text} \x1b[0m`;
  const parts: Record<TokenView, string[]> = {
    mask: [sample(greens[1]!, "sampled: trained")],
    logprob: reds.map((colour, i) =>
      sample(colour, i === reds.length - 1 ? `≤ -${i}` : `${i === 0 ? 0 : -i} to -${i + 1}`),
    ),
    version: [
      ...blues.map((colour, i) => sample(colour, i === blues.length - 1 ? `≤ ${newest - i}` : String(newest - i))),
      sample(250, "none"),
    ],
    advantage: [
      sample(reds.at(-1)!, `-${short(largest)}`),
      ...[...reds]
        .reverse()
        .slice(1)
        .map((colour) => sample(colour, "")),
      sample(255, "0"),
      ...greens.slice(0, -1).map((colour) => sample(colour, "")),
      sample(greens.at(-1)!, `+${short(largest)}`),
    ],
  };
  return `${view}: ${parts[view].join("")} \x1b[2mnot sampled\x1b[0m`;
}

function pick(colours: readonly number[], place: number): number {
  return colours[Math.min(Math.max(place, 0), colours.length - 1)]!;
}

function aboutTurn(trace: Trace, turn: number): string {
  const span = trace.turnSpans[turn];
  if (span === undefined) return "";
  const { start, end, reward, parseFailure, policy } = span;
  return (
    `: reward ${short(reward)}, ${end - start} tokens${versionText(trace, start, end)}` +
    `${policy === undefined ? "" : `, by ${plainLine(policy)}`}${parseFailure ? ", does not parse" : ""}`
  );
}

/** As in ", version 12" or ", versions 11 to 12". */
function versionText({ versions, mask }: Trace, start: number, end: number): string {
  let [oldest, newest] = [noVersion, -1];
  for (let i = start; i < end; i++) {
    if (mask[i] !== 1 || versions[i] === noVersion) continue;
    oldest = Math.min(oldest, versions[i]!);
    newest = Math.max(newest, versions[i]!);
  }
  if (newest < 0) return "";
  return oldest === newest ? `, version ${newest}` : `, versions ${oldest} to ${newest}`;
}

function nameOf({ name }: Message): string {
  return name === undefined ? "" : ` ${plainLine(name)}`;
}

function short(value: number): string {
  return String(Number(value.toFixed(4)));
}
