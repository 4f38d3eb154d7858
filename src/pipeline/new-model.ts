/** A model from nothing: its architecture from the config, its vocabulary learnt from the expert episodes' text. */
import type { SftConfig } from "../config/sft.ts";
import type { ModelConfig } from "../model/config.ts";
import { loadModelText, type ModelText } from "../model/files.ts";
import { trainBpe } from "../text/bpe-trainer.ts";
import { ChatTemplate, toOpenAiTool } from "../text/chat-template.ts";
import { toolFormat } from "../text/formats/index.ts";
import { tinyChatTemplate, tinyControlTokens, tinyPattern, tinyTokens } from "../text/tiny-template.ts";
import { Tokenizer } from "../text/tokenizer.ts";
import { turnPieces } from "../text/tool-calls.ts";
import type { ExpertEpisode } from "./expert-episodes.ts";

export function newModel(config: SftConfig, episodes: readonly ExpertEpisode[]): ModelText {
  const { vocabSize, ...architecture } = config.model.new!;
  const text =
    config.tokenizer === undefined ? newText(vocabSize, episodes) : loadModelText(config.tokenizer, config.model);
  const { tokenizer, template } = text;
  const modelConfig: ModelConfig = {
    family: "llama",
    ...architecture,
    vocabSize: tokenizer.vocabSize,
    eosTokenIds: [template.endOfTurn.id],
  };
  return { config: modelConfig, tokenizer, template };
}

function newText(vocabSize: number, episodes: readonly ExpertEpisode[]): Pick<ModelText, "tokenizer" | "template"> {
  const json = trainBpe(textsOf(episodes), { vocabSize, controlTokens: tinyControlTokens, pattern: tinyPattern });
  const named = { eos_token: tinyTokens.end, pad_token: tinyTokens.pad };
  const tokenizer = new Tokenizer(json, { ...named, chat_template: tinyChatTemplate });
  return { tokenizer, template: new ChatTemplate(tokenizer, tinyChatTemplate) };
}

const tinyFormat = toolFormat("hermes", tinyChatTemplate);

/** All text that a conversation will hold, without control tokens. */
function* textsOf(episodes: readonly ExpertEpisode[]): Generator<string> {
  for (const { environment, prompt, turns } of episodes) {
    for (const message of prompt) yield message.content;
    yield `tools: ${environment.tools.map((tool) => JSON.stringify(toOpenAiTool(tool))).join(" ")}`;
    for (const { action, answer } of turns) {
      for (const piece of turnPieces(action, tinyFormat)) if (!piece.markup) yield piece.text;
      for (const message of answer) yield message.content;
    }
  }
}
