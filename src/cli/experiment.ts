/** `agentrl experiment FILE --out DIR`: trains every arm with every seed, measures them all, and compares. */
import type { Command } from "commander";
import type { Row, Spread } from "../experiment/compare.ts";
import { interruptible } from "./interrupt.ts";
import { addJson, collect, jsonWriter, percent, table } from "./options.ts";

interface ExperimentOptions {
  out: string;
  only?: string[];
  json?: string;
}

export function addExperiment(program: Command): void {
  const command = program
    .command("experiment")
    .description("train the arms of an experiment with several seeds, and compare them on held-out tasks")
    .argument("<file>", "YAML file, such as those in docs/experiments")
    .requiredOption("--out <folder>", "all runs and results; what it holds already is not computed again")
    .option("--only <arm>", "train this arm only (repeatable)", collect);
  addJson(command).action(experiment);
}

async function experiment(file: string, options: ExperimentOptions): Promise<void> {
  const [{ loadExperiment }, { runExperiment }, { compare }, { Terminal }] = await Promise.all([
    import("../config/experiment.ts"),
    import("../experiment/run.ts"),
    import("../experiment/compare.ts"),
    import("../observe/terminal.ts"),
  ]);
  const writeJson = jsonWriter(options.json);
  const config = loadExperiment(file);
  const { only } = options;
  console.log(config.question.trim());
  let terminal = new Terminal({ out: process.stdout });
  const results = await interruptible(async (signal) => {
    const done = await runExperiment({
      config,
      out: options.out,
      ...(only !== undefined && { only }),
      signal,
      onEvent: (event) => terminal.handle(event),
      onArm: (arm, seed, result) => {
        if (result !== null) return;
        // A run's averages are its own.
        terminal.close();
        terminal = new Terminal({ out: process.stdout });
        console.log(`${arm}, seed ${seed} …`);
      },
    });
    if (signal.aborted) process.exitCode = 130;
    return done;
  }).finally(() => terminal.close());
  const rows = compare(results, config.baseline);
  writeJson({ question: config.question, baseline: config.baseline, rows, results });
  console.log(`\n${formatRows(rows, config.baseline)}`);
}

/** The result as a table: success, mean ± standard deviation over seeds. */
export function formatRows(rows: readonly Row[], baseline: string): string {
  const tasks = [...new Set(rows.flatMap((row) => Object.keys(row.tasks)))].sort();
  const ks = [...new Set(rows.flatMap((row) => Object.keys(row.passAtK)))];
  const header = ["", "seeds", ...tasks, "mean", `less ${baseline}`, "95 %", ...ks.map((k) => `pass@${k}`)];
  const lines = rows.map((row) => [
    row.row,
    row.overall.seeds,
    ...tasks.map((task) => cell(row.tasks[task])),
    cell(row.overall),
    cell(row.difference ?? undefined),
    row.difference?.interval == null ? "—" : row.difference.interval.map((end) => (100 * end).toFixed(1)).join(" to "),
    ...ks.map((k) => cell(row.passAtK[k])),
  ]);
  return table([header, ...lines]);
}

function cell(spread: Spread | undefined): string {
  if (spread === undefined) return "—";
  return spread.sd === null ? percent(spread.mean) : `${(100 * spread.mean).toFixed(1)} ± ${percent(spread.sd)}`;
}
