/**
 * `agentrl demo`: the whole loop on the tiny model that ships with the project. Measures it on held-out tasks, trains it
 * asynchronously on all of its tasks at once, measures it again.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { successOf } from "../env/report.ts";
import { formatCount, formatDuration } from "../observe/terminal.ts";
import { packageFile } from "../own-files.ts";
import { addDevice, setsWithDevice } from "./device-option.ts";
import { interruptible } from "./interrupt.ts";
import { addJson, addSet, jsonWriter, percent, table, wholeNumber } from "./options.ts";

interface DemoOptions {
  seed?: number;
  set?: string[];
  device?: string;
  out?: string;
  json?: string;
}

/** Held-out tasks per environment in each measurement. */
const heldOutEpisodes = 200;

/** Held-out success by task, and their mean. */
type Scores = Record<string, number>;

export function addDemo(program: Command): void {
  const command = program
    .command("demo")
    .description("train the tiny model on several tasks and show what it learnt (minutes on two cores)")
    .option("--seed <n>", "seed of the run", wholeNumber(0))
    .option("--out <run>", "keep the run in this folder; a temporary one by default");
  addJson(addDevice(addSet(command))).action(demo);
}

async function demo(options: DemoOptions): Promise<void> {
  const started = performance.now();
  const [{ loadTrainConfig }, { measureTasks }, { runTraining }, { Terminal }] = await Promise.all([
    import("../config/load.ts"),
    import("../pipeline/measure.ts"),
    import("../pipeline/train.ts"),
    import("../observe/terminal.ts"),
  ]);
  const writeJson = jsonWriter(options.json);
  const given = setsWithDevice(options);
  const sets = options.seed === undefined ? given : [...(given ?? []), `seed=${options.seed}`];
  const { config, yaml } = loadTrainConfig(packageFile("models/tiny/demo.yaml"), sets);
  const out = options.out ?? mkdtempSync(join(tmpdir(), "agentrl-demo-"));

  // The policy that is trained is the one that samples, so that is what is measured; greedy is told beside it.
  const { temperature } = config.rollout;
  const measure = async (model: string, temperature: number): Promise<Scores> => {
    const { split } = config.evaluation;
    const options = { split, episodes: heldOutEpisodes, temperature, seed: config.seed };
    const reports = await measureTasks(config, model, options);
    const scores: Scores = Object.fromEntries(reports.map((report) => [report.task, successOf(report)]));
    const values = Object.values(scores);
    return { ...scores, mean: values.reduce((a, b) => a + b, 0) / values.length };
  };

  const names = new Intl.ListFormat("en").format(config.tasks.map((task) => task.name));
  console.log(`Measuring the model on held-out tasks of ${names} …`);
  const before = await measure(config.model.path, temperature);
  const greedyBefore = await measure(config.model.path, 0);
  console.log(`Training it on all of them at once, ${config.steps} steps, generation and training side by side …`);
  const terminal = new Terminal({ out: process.stdout });
  const summary = await interruptible((signal) =>
    runTraining({ config, yaml, out, onEvent: (event) => terminal.handle(event), signal }),
  ).finally(() => terminal.close());
  if (summary.stopped) {
    console.log(`Stopped after step ${summary.steps} of ${config.steps}. The run is in ${out}`);
    process.exitCode = 130;
    return;
  }
  const after = await measure(summary.model, temperature);
  const greedyAfter = await measure(summary.model, 0);
  const seconds = (performance.now() - started) / 1000;

  const rows = Object.keys(before).map((name) =>
    [name, before[name]!, after[name]!, greedyBefore[name]!, greedyAfter[name]!].map((cell) =>
      typeof cell === "number" ? percent(cell) : cell,
    ),
  );
  const header = ["held-out success", "before", "after", "before, greedy", "after, greedy"];
  console.log(`\n${table([header, ...rows])}\n`);
  const { mismatch, mismatchTokens, tokensPerSecond, maxLag } = summary;
  console.log(
    `${formatDuration(seconds)} in all, ${formatCount(tokensPerSecond)} trained tokens/s, largest lag ${maxLag}, ` +
      `mismatch ${mismatch ?? "not measured"} over ${mismatchTokens} tokens`,
  );
  console.log(`Model: ${summary.model}`);
  const greedy = { before: greedyBefore, after: greedyAfter };
  const { sampledTokens } = summary;
  writeJson({ before, after, greedy, seconds, mismatch, mismatchTokens, sampledTokens, tokensPerSecond, maxLag });
}
