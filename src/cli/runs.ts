/** `agentrl runs`: what runs there are, two beside each other, one as it goes, one as a timeline. */
import type { Command } from "commander";
import type { RunOverview } from "../observe/run-folder/overview.ts";
import { interruptible } from "./interrupt.ts";
import { addJson, jsonWriter, percent, table, wholeNumber } from "./options.ts";

export function addRuns(program: Command): void {
  const runs = program
    .command("runs")
    .description("list runs, compare two, follow one, or draw its timeline")
    .addHelpText(
      "after",
      `
Examples:
  agentrl runs                        every run below this folder
  agentrl runs compare runs/a runs/b  what was configured otherwise, and what came of it
  agentrl runs tail runs/a            its steps as they come
  agentrl runs timeline runs/a --out trace.json
                                      for https://ui.perfetto.dev or chrome://tracing`,
    );
  addJson(
    runs
      .command("list", { isDefault: true })
      .description("list the runs below a folder: how far they are, whether they go on, what they earn")
      .argument("[folder]", "where to look", "."),
  ).action(list);
  addJson(
    runs
      .command("compare")
      .description("two runs side by side")
      .argument("<a>", "run folder")
      .argument("<b>", "run folder"),
  ).action(compare);
  runs
    .command("tail")
    .description("follow the steps of a run until it ends")
    .argument("<run>", "run folder")
    .option("--lines <n>", "steps that are there already to begin with", wholeNumber(0), 10)
    .option("--no-follow", "end after those")
    .action(tail);
  runs
    .command("timeline")
    .description("draw a run for https://ui.perfetto.dev or chrome://tracing: phases, weights, how busy, episodes")
    .argument("<run>", "run folder")
    .requiredOption("--out <file>", "JSON file to write")
    .option("--episodes <n>", "draw the newest so many of those that its traces hold", wholeNumber(0), 20_000)
    .action(timeline);
}

async function list(folder: string, { json }: { json?: string }): Promise<void> {
  const { findRuns, overviewOf } = await import("../observe/run-folder/overview.ts");
  const { plainLine } = await import("../observe/plain-text.ts");
  const writeJson = jsonWriter(json);
  const runs = findRuns(folder).map(overviewOf);
  writeJson(runs);
  if (runs.length === 0) {
    console.log(`No run below ${folder}: \`agentrl train CONFIG --out FOLDER\` makes one.`);
    return;
  }
  const tasks = [...new Set(runs.flatMap((run) => Object.keys(run.tasks)))].sort();
  const row = (run: RunOverview) => [
    plainLine(run.folder),
    run.state,
    `${run.step}/${run.steps}`,
    figure(run.reward),
    ...tasks.map((task) => figure(run.tasks[task])),
    run.heldOut === null ? "" : percent(run.heldOut),
    run.mismatch === null ? "" : String(run.mismatch),
    figure(run.tokensPerSecond, 0),
    new Date(run.updated).toISOString().slice(0, 16).replace("T", " "),
  ];
  const heads = [
    "run",
    "state",
    "step",
    "reward",
    ...tasks.map(plainLine),
    "held out",
    "mismatch",
    "tok/s",
    "last step (UTC)",
  ];
  console.log(table([heads, ...runs.map(row)]));
}

async function compare(a: string, b: string, { json }: { json?: string }): Promise<void> {
  const [{ compareRuns }, { assertRun }, { plainLine }] = await Promise.all([
    import("../observe/run-folder/compare.ts"),
    import("../observe/run-folder/overview.ts"),
    import("../observe/plain-text.ts"),
  ]);
  const writeJson = jsonWriter(json);
  for (const run of [a, b]) assertRun(run);
  const comparison = compareRuns(a, b);
  writeJson(comparison);
  const show = (value: unknown) => (value === undefined ? "—" : plainLine(JSON.stringify(value)));
  if (comparison.config.length > 0) {
    console.log(table([["config", "a", "b"], ...comparison.config.map((one) => [one.key, show(one.a), show(one.b)])]));
    console.log("");
  }
  if (comparison.rewards.length > 0) {
    const rows = comparison.rewards.map((one) => [one.step, figure(one.a), figure(one.b), signed(one.b - one.a)]);
    console.log(table([["step", "reward a", "reward b", "b - a"], ...rows]));
    console.log("");
  }
  const tasks = [...new Set([comparison.a, comparison.b].flatMap((run) => Object.keys(run.tasks)))].sort();
  const both = (name: string, of: (run: typeof comparison.a) => string) => [name, of(comparison.a), of(comparison.b)];
  console.log(
    table([
      ["", "a", "b"],
      both("steps", (run) => String(run.steps)),
      both("reward, last 10 steps", (run) => figure(run.reward)),
      ...tasks.map((task) => both(plainLine(task), (run) => figure(run.tasks[task]))),
      both("held-out success", (run) => (run.heldOut === null ? "" : percent(run.heldOut))),
      both("entropy", (run) => figure(run.entropy, 3)),
      both("max lag", (run) => String(run.maxLag)),
      both("mismatch", (run) => (run.mismatch === null ? "" : String(run.mismatch))),
      both("tokens/s", (run) => figure(run.tokensPerSecond, 0)),
      both("faults put right", (run) => String(run.faults)),
    ]),
  );
}

async function tail(run: string, { lines, follow }: { lines: number; follow: boolean }): Promise<void> {
  const [{ followRun }, { assertRun, readConfig }, { formatProgress }, { plainLine }] = await Promise.all([
    import("../observe/run-folder/tail.ts"),
    import("../observe/run-folder/overview.ts"),
    import("../observe/terminal.ts"),
    import("../observe/plain-text.ts"),
  ]);
  assertRun(run);
  const steps = Number(readConfig(run).steps ?? 0);
  await interruptible(async (signal) => {
    await followRun(run, {
      last: lines,
      follow,
      signal,
      onLine: ({ step, tasks, maxLag, tokensPerSecond, mismatch, evaluation }) => {
        const rewards = Object.fromEntries(
          Object.entries(tasks).map(([task, { reward }]) => [plainLine(task), reward]),
        );
        const results = (evaluation ?? []).map(
          ({ task, success }) => `${plainLine(task)} ${success === null ? "—" : percent(success)}`,
        );
        console.log(
          evaluation === undefined
            ? formatProgress({
                step,
                steps,
                rewards,
                maxLag,
                tokensPerSecond,
                etaSeconds: null,
                mismatch: Number(mismatch ?? 0),
              })
            : `step ${step}: held-out success ${results.join(", ")}`,
        );
      },
    });
    if (signal.aborted) process.exitCode = 130;
  });
}

async function timeline(run: string, { out, episodes }: { out: string; episodes: number }): Promise<void> {
  const [{ timelineOf }, { assertRun }] = await Promise.all([
    import("../observe/run-folder/timeline.ts"),
    import("../observe/run-folder/overview.ts"),
  ]);
  assertRun(run);
  const write = jsonWriter(out, "--out");
  const drawn = timelineOf(run, { mostEpisodes: episodes });
  write(drawn);
  const of = (name: string) => drawn.traceEvents.filter((event) => event.ph === "X" && event.name === name).length;
  const slices = drawn.traceEvents.filter(({ ph, pid }) => ph === "X" && pid === 2).length;
  console.log(`${out}: ${of("train")} steps, ${slices} episodes. Open it at https://ui.perfetto.dev.`);
}

function figure(value: number | null | undefined, digits = 2): string {
  return value === null || value === undefined ? "" : value.toFixed(digits);
}

function signed(value: number): string {
  return `${value < 0 ? "" : "+"}${value.toFixed(2)}`;
}
