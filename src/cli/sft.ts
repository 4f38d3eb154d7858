/** `agentrl sft CONFIG`: supervised training on expert episodes, the warm start of a small model. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { addDevice, setsWithDevice } from "./device-option.ts";
import { addJson, addSet, jsonWriter, percent } from "./options.ts";

interface SftOptions {
  out?: string;
  set?: string[];
  device?: string;
  dryRun?: boolean;
  json?: string;
}

export function addSft(program: Command): void {
  const command = program
    .command("sft")
    .description("train a model on episodes of the tasks' scripted experts")
    .argument("<config>", "YAML file")
    .option("--out <folder>", "model folder to write, instead of the config's `out`");
  addDevice(addSet(command)).option("--dry-run", "print the resolved config, and stop");
  addJson(command).action(sft);
}

async function sft(file: string, options: SftOptions): Promise<void> {
  const { loadSftConfig } = await import("../config/load.ts");
  const writeJson = jsonWriter(options.json);
  const { config, yaml } = loadSftConfig(file, setsWithDevice(options));
  const out = options.out === undefined ? config.out : resolve(options.out);
  if (options.dryRun) {
    console.log(yaml.trimEnd());
    writeJson({ ...config, out });
    return;
  }
  const [{ runSft }, { formatCount, formatDuration }] = await Promise.all([
    import("../pipeline/sft.ts"),
    import("../observe/terminal.ts"),
  ]);
  const summary = await runSft({
    config,
    out,
    onProgress: ({ step, steps, loss, tokensPerSecond, success }) => {
      // One line in ten steps, and every measurement.
      if (step % 10 !== 0 && step !== steps && success === undefined) return;
      const held = Object.entries(success ?? {}).map(([task, share]) => `  ${task} ${percent(share)}`);
      console.log(
        `step ${step}/${steps}  loss ${loss.toFixed(4)}  ${formatCount(tokensPerSecond)} tok/s${held.join("")}`,
      );
    },
  });
  writeJson(summary);
  const left = summary.tooLong === 0 ? "" : ` (${summary.tooLong} more do not fit contextLimit)`;
  console.log(
    `${summary.steps} steps on ${summary.episodes} episodes${left} in ${formatDuration(summary.seconds)}. Model: ${out}`,
  );
}
