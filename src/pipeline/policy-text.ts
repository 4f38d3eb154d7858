/** The text side of a model folder: tokenizer, chat template and the tokens that end a turn. */
import type { ModelConfig } from "../model/config.ts";
import { loadModelText } from "../model/files.ts";
import type { TextSettings } from "../text/text-settings.ts";
import type { Dialect } from "./dialect.ts";

export function loadPolicyText(
  folder: string,
  settings: TextSettings = {},
): { dialect: Dialect; modelConfig: ModelConfig } {
  const { config, tokenizer, template } = loadModelText(folder, settings);
  return { dialect: { tokenizer, template, stopTokens: config.eosTokenIds }, modelConfig: config };
}
