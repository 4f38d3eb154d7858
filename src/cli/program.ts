/**
 * The command line: `agentrl COMMAND`. One file a command; what a command needs is imported when it runs, so that help
 * and errors come at once. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
 */
import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { AgentRLError } from "../errors.ts";
import { packageFile } from "../own-files.ts";
import { addBench } from "./bench.ts";
import { addChat } from "./chat.ts";
import { addController } from "./controller.ts";
import { addDemo } from "./demo.ts";
import { addDoctor } from "./doctor.ts";
import { addEval } from "./eval.ts";
import { addExperiment } from "./experiment.ts";
import { addExport } from "./export.ts";
import { addInit } from "./init.ts";
import { addInspect } from "./inspect.ts";
import { addReplay } from "./replay.ts";
import { addRuns } from "./runs.ts";
import { addServe } from "./serve.ts";
import { addSft } from "./sft.ts";
import { addTest } from "./test.ts";
import { addTrain } from "./train.ts";
import { addWorker } from "./worker.ts";

function version(): string {
  try {
    return (JSON.parse(readFileSync(packageFile("package.json"), "utf8")) as { version: string }).version;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return "unknown";
  }
}

/** Runs one command line. @returns the process's exit code. */
export async function main(args: readonly string[]): Promise<number> {
  const program = new Command("agentrl")
    .description("Reinforcement learning of language-model agents, over many turns and many tasks.")
    .version(version())
    .option("--verbose", "print stack traces of errors")
    .exitOverride()
    .showHelpAfterError("(run with --help for the options)");
  const commands = [
    addTrain,
    addEval,
    addExperiment,
    addSft,
    addRuns,
    addInspect,
    addExport,
    addServe,
    addChat,
    addReplay,
    addInit,
    addTest,
    addBench,
    addDoctor,
    addDemo,
    addController,
    addWorker,
  ];
  for (const add of commands) add(program);

  if (args.some((arg) => arg === "-h" || arg === "--help" || arg === "help")) {
    const { addConfigHelp } = await import("./config-help.ts");
    addConfigHelp(program);
  }
  try {
    await program.parseAsync([...args], { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    // Commander has printed its own message.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    console.error(describe(error, program.opts<{ verbose?: boolean }>().verbose === true));
    return error instanceof AgentRLError && error.code === "USAGE" ? 2 : 1;
  }
}

/** A known error is its message; an unknown one is a bug and keeps its stack. */
function describe(error: unknown, verbose: boolean): string {
  if (!(error instanceof Error)) return `agentrl: ${String(error)}`;
  const known = error instanceof AgentRLError;
  let text = known ? `agentrl: ${error.message}` : `agentrl: unexpected error\n${error.stack}`;
  if (known && verbose) text += `\n\n${error.stack}`;
  for (let cause = error.cause; verbose && cause instanceof Error; cause = cause.cause)
    text += `\ncaused by: ${cause.stack}`;
  return text;
}
