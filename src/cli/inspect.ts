/** `agentrl inspect RUN [ID]`: the episodes that a run was trained on. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { AgentRLError } from "../errors.ts";
import { type TokenView, tokenViews } from "../observe/run-folder/show-trace.ts";
import type { TraceSummary } from "../observe/traces/trace.ts";
import { addJson, jsonWriter, numberFrom, table, wholeNumber } from "./options.ts";

interface Range {
  from: number;
  to: number;
}

interface InspectOptions {
  task?: string;
  step?: Range;
  minReward?: number;
  maxReward?: number;
  end?: string;
  limit: number;
  tokens?: TokenView | true;
  color: "auto" | "always" | "never";
  json?: string;
}

export function addInspect(program: Command): void {
  const command = program
    .command("inspect")
    .description("look at the episodes that a run was trained on")
    .argument("<run>", "run folder")
    .argument("[id]", "one of them, as the list names it: turn by turn")
    .option("--task <name>", "of this task only")
    .option("--step <n>", "trained in this step, or in those of a range, as in 10-20", range)
    .option("--min-reward <r>", "of at least this reward", numberFrom(Number.NEGATIVE_INFINITY))
    .option("--max-reward <r>", "of at most this reward", numberFrom(Number.NEGATIVE_INFINITY))
    .option("--end <reason>", 'that ended so, as in "turn limit"')
    .option("--limit <n>", "list the newest so many", wholeNumber(1), 40)
    .addOption(
      new Option(
        "--tokens [by]",
        `one episode's tokens, coloured by ${tokenViews.join(", ")}; without colours a table of all of it`,
      ).choices(tokenViews),
    )
    .addOption(new Option("--color <when>", "colours").choices(["auto", "always", "never"]).default("auto"))
    .addHelpText(
      "after",
      `
Examples:
  agentrl inspect runs/a                              the newest episodes
  agentrl inspect runs/a --task kg --max-reward 0     those of kg that earned nothing
  agentrl inspect runs/a 12-340-3                     one of them, turn by turn
  agentrl inspect runs/a 12-340-3 --tokens advantage  its tokens, coloured by their advantage`,
    );
  addJson(command).action(inspect);
}

async function inspect(run: string, id: string | undefined, options: InspectOptions): Promise<void> {
  const { TraceReader } = await import("../observe/traces/reader.ts");
  const writeJson = jsonWriter(options.json);
  const reader = TraceReader.open(run);
  if (id !== undefined) {
    const { showTokens, showTrace } = await import("../observe/run-folder/show-trace.ts");
    const trace = reader.read(id);
    const { tokens } = options;
    const show = { colour: coloured(options.color) };
    console.log(
      tokens === undefined ? showTrace(trace, show) : showTokens(trace, tokens === true ? "mask" : tokens, show),
    );
    writeJson({ ...trace, ...plainArrays(trace) });
    return;
  }
  if (options.tokens !== undefined) {
    throw new AgentRLError("USAGE", "--tokens needs the id of an episode.", {
      expected: `agentrl inspect ${run} ID --tokens`,
      hint: `\`agentrl inspect ${run}\` lists them.`,
    });
  }
  const all = reader.summaries();
  const found = all.filter(matching(options));
  writeJson(found);
  console.log(found.length === 0 ? nothing(run, all, options) : await listOf(found, options.limit));
}

async function listOf(found: readonly TraceSummary[], limit: number): Promise<string> {
  const { plainLine } = await import("../observe/plain-text.ts");
  const rows = found
    .slice(-limit)
    .map((one) => [
      one.id,
      plainLine(one.task),
      one.index,
      one.reward.toFixed(2),
      one.advantage.toFixed(3),
      one.turns,
      one.tokens,
      one.versions[0] === one.versions[1] ? one.versions[0] : one.versions.join("-"),
      plainLine(one.endReason),
    ]);
  const heads = ["id", "task", "index", "reward", "advantage", "turns", "tokens", "version", "end"];
  const left = found.length - rows.length;
  return `${table([heads, ...rows])}${left > 0 ? `\n${left} more before them: --limit, or a narrower choice` : ""}`;
}

function matching({ task, step, minReward = -Infinity, maxReward = Infinity, end }: InspectOptions) {
  return (one: TraceSummary) =>
    (task === undefined || one.task === task) &&
    (step === undefined || (one.step >= step.from && one.step <= step.to)) &&
    one.reward >= minReward &&
    one.reward <= maxReward &&
    (end === undefined || one.endReason === end);
}

function nothing(run: string, all: readonly TraceSummary[], { task, end }: InspectOptions): string {
  if (all.length === 0) return `${run} holds no episodes: observe.traces.every may be 0, or no step is done yet.`;
  const values = (name: "task" | "endReason") => [...new Set(all.map((one) => one[name]))].join(", ");
  const hints = [
    ...(task === undefined ? [] : [`tasks are ${values("task")}`]),
    ...(end === undefined ? [] : [`ends are ${values("endReason")}`]),
  ];
  return `None of ${all.length} episodes is so: steps ${all[0]!.step} to ${all.at(-1)!.step}${hints.map((hint) => `; ${hint}`).join("")}.`;
}

/** "12" or "10-20". */
function range(text: string): Range {
  const match = /^(\d+)(?:-(\d+))?$/.exec(text);
  if (match === null) throw new InvalidArgumentError("Expected a step, or a range as in 10-20.");
  const from = Number(match[1]);
  return { from, to: match[2] === undefined ? from : Number(match[2]) };
}

function coloured(when: InspectOptions["color"]): boolean {
  if (when !== "auto") return when === "always";
  // https://no-color.org
  return process.stdout.isTTY === true && !process.env.NO_COLOR;
}

function plainArrays(trace: object): Record<string, unknown> {
  const typed = Object.entries(trace).filter(([, value]) => ArrayBuffer.isView(value));
  return Object.fromEntries(typed.map(([name, value]) => [name, Array.from(value as Uint32Array)]));
}
