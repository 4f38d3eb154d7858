/** `agentrl train --help` and `agentrl sft --help` end with every key of the config, from the schema itself. */
import type { Command } from "commander";
import { fieldsOf, reference } from "../config/fields.ts";
import { sftSchema } from "../config/sft.ts";
import { trainSchema } from "../config/train.ts";

export function addConfigHelp(program: Command): void {
  for (const [name, schema] of Object.entries({ train: trainSchema, sft: sftSchema })) {
    program.commands
      .find((command) => command.name() === name)
      ?.addHelpText(
        "after",
        `\nKeys of CONFIG (YAML), as key  accepted [default]:\n\n    ${reference(fieldsOf(schema), "text")}`,
      );
  }
}
