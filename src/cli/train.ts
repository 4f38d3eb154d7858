/** `agentrl train CONFIG --out RUN`: reinforcement learning as the config says, into a run folder. */
import type { Command } from "commander";
import { AgentRLError } from "../errors.ts";
import { addDevice, setsWithDevice } from "./device-option.ts";
import { interruptible } from "./interrupt.ts";
import { addJson, addSet, jsonWriter } from "./options.ts";

interface TrainOptions {
  out?: string;
  resume?: boolean;
  set?: string[];
  device?: string;
  dryRun?: boolean;
  json?: string;
}

export function addTrain(program: Command): void {
  const command = program
    .command("train")
    .description("train a model by reinforcement learning")
    .argument("<config>", "YAML file")
    .option("--out <run>", "run folder: config, metrics.jsonl, checkpoints")
    .option("--resume", "go on from the newest checkpoint in the run folder");
  addDevice(addSet(command)).option("--dry-run", "print the resolved plan, the memory estimate and the loss, and stop");
  addJson(command).action(train);
}

async function train(file: string, options: TrainOptions): Promise<void> {
  const { loadTrainConfig } = await import("../config/load.ts");
  const writeJson = jsonWriter(options.json);
  const { config, yaml } = loadTrainConfig(file, setsWithDevice(options));

  if (options.dryRun) {
    for (const [flag, given] of [
      ["--out", options.out !== undefined],
      ["--resume", options.resume],
    ] as const) {
      if (given) throw new AgentRLError("USAGE", `${flag} has no effect with --dry-run.`, { hint: `Remove ${flag}.` });
    }
    const { planTraining, formatPlan } = await import("./plan.ts");
    const plan = await planTraining(config);
    console.log(formatPlan(plan));
    writeJson(plan);
    return;
  }
  const { out } = options;
  if (out === undefined) {
    throw new AgentRLError("USAGE", "No run folder is given.", {
      expected: "--out RUN",
      hint: "Name a folder for the metrics and checkpoints, for example --out runs/first.",
    });
  }

  const [{ runTraining }, { Terminal, formatDuration }] = await Promise.all([
    import("../pipeline/train.ts"),
    import("../observe/terminal.ts"),
  ]);
  const terminal = new Terminal({ out: process.stdout });
  try {
    const summary = await interruptible((signal) =>
      runTraining({
        config,
        yaml,
        out,
        resume: options.resume === true,
        onEvent: (event) => terminal.handle(event),
        signal,
      }),
    );
    terminal.close();
    writeJson(summary);
    if (summary.stopped) process.exitCode = 130;
    console.log(
      summary.stopped
        ? `Stopped after step ${summary.steps} of ${config.steps}; go on with --resume.`
        : `Trained ${summary.steps} steps in ${formatDuration(summary.seconds)}. Model: ${summary.model}`,
    );
  } finally {
    terminal.close();
  }
}
