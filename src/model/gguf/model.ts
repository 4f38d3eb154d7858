/** A model in a GGUF file, as what a model folder holds: config.json, tokenizer files and tensors. */
import type { Json } from "../../text/tokenizer.ts";
import { ggufConfig } from "./config.ts";
import { GgufFile } from "./file.ts";
import { GgufTensors } from "./tensors.ts";
import { ggufTokenizer } from "./tokenizer.ts";

export interface GgufModel {
  /** config.json, tokenizer.json and tokenizer_config.json, in Hugging Face's form. */
  config: Json;
  tokenizer: { json: Json; config: Json };
  /** Close it when the weights are read. */
  tensors: GgufTensors;
}

/** @throws AgentRLError MODEL_FILE, TOKENIZER */
export function openGguf(file: string): GgufModel {
  const gguf = new GgufFile(file);
  try {
    return { config: ggufConfig(gguf), tokenizer: ggufTokenizer(gguf.header), tensors: new GgufTensors(gguf) };
  } catch (error) {
    gguf.close();
    throw error;
  }
}
