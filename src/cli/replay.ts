/** `agentrl replay FILE`: the step that failed, once more. */
import type { Command } from "commander";
import { addJson, jsonWriter, table } from "./options.ts";

export function addReplay(program: Command): void {
  const command = program
    .command("replay")
    .description("compute the step of a run again whose loss or gradient was not finite")
    .argument("<file>", "failed-step-….batch of the run's folder");
  addJson(command).action(async (file: string, { json }: { json?: string }) => {
    const { replayFailedBatch } = await import("../pipeline/failed-batch.ts");
    const writeJson = jsonWriter(json);
    const { gradNorm, ...metrics } = await replayFailedBatch(file);
    const finite = Number.isFinite(gradNorm);
    console.log(finite ? "The step is finite here:" : "The gradient is not finite:");
    console.log(table(Object.entries({ gradNorm, ...metrics }).map(([name, value]) => [name, String(value)])));
    writeJson({ gradNorm, ...metrics });
    // As the run ended.
    if (!finite) process.exitCode = 1;
  });
}
