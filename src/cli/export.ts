/** `agentrl export MODEL --out FOLDER`: a trained model for other programs. */
import { type Command, Option } from "commander";
import type { FileDType } from "../model/safetensors.ts";

interface ExportFlags {
  out: string;
  adapter?: boolean;
  dtype: FileDType;
}

export function addExport(program: Command): void {
  program
    .command("export")
    .description("write a model for other programs: transformers, PEFT, llama.cpp's converter")
    .argument("<model>", "a run (its newest checkpoint), a model or adapter folder, a GGUF file, or a name on the Hub")
    .requiredOption("--out <folder>", "folder to write")
    .option("--adapter", "the LoRA adapter alone, in PEFT's layout; by default it is added into the model's weights")
    .addOption(
      new Option("--dtype <type>", "how the model's weights are written")
        .choices(["f32", "bf16", "f16"])
        .default("f32"),
    )
    .addHelpText("after", "\nExample:\n  agentrl export runs/mine --out my-model --dtype bf16")
    .action(async (model: string, { out, adapter = false, dtype }: ExportFlags, command: Command) => {
      const [{ AgentRLError }, { locateModel }, { exportModel }] = await Promise.all([
        import("../errors.ts"),
        import("../model/locate.ts"),
        import("../pipeline/export-model.ts"),
      ]);
      if (adapter && command.getOptionValueSource("dtype") === "cli") {
        throw new AgentRLError("USAGE", "--dtype has no effect with --adapter, which is written in float32.", {
          hint: "Remove --dtype.",
        });
      }
      const { path } = await locateModel(model);
      exportModel({ model: path, out, adapter, dtype });
      console.log(`Model: ${out}`);
    });
}
