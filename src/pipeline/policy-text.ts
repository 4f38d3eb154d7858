/** The text side of a model folder: tokenizer, chat template and the tokens that end a turn. */
import type { ModelConfig } from "../model/config.ts";
import { loadModelText } from "../model/files.ts";
import type { Dialect } from "./episode.ts";

export function loadPolicyText(folder: string): { dialect: Dialect; modelConfig: ModelConfig } {
  const { config, tokenizer, template } = loadModelText(folder);
  return { dialect: { tokenizer, template, stopTokens: config.eosTokenIds }, modelConfig: config };
}
