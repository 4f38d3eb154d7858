/** A run's models on this disk: all of its processes are told one path, and none of them asks the Hub again. */
import type { SftConfig } from "../config/sft.ts";
import type { TrainConfig } from "../config/train.ts";
import type { FetchOptions } from "../model/hub/fetch.ts";
import { locateModel } from "../model/locate.ts";

export interface LocalModels {
  /** With paths in place of names. */
  config: TrainConfig;
  /** Bytes of weights that are still to be downloaded: 0 unless `weights` is false. */
  missing: number;
}

/** @throws AgentRLError MODEL_FILE, HUB */
export async function withLocalModels(config: TrainConfig, options: FetchOptions = {}): Promise<LocalModels> {
  let missing = 0;
  const local = async (place: string): Promise<string> => {
    const found = await locateModel(place, options);
    missing += found.missing;
    return found.path;
  };
  const { model, crossPolicy } = config;
  const located = { ...config, model: { ...model, path: await local(model.path) } };
  if (crossPolicy === undefined) return { config: located, missing };
  const pool = [...crossPolicy.pool];
  for (const [i, member] of pool.entries()) {
    if (member.path !== undefined) pool[i] = { ...member, path: await local(member.path) };
  }
  return { config: { ...located, crossPolicy: { ...crossPolicy, pool } }, missing };
}

/** The same for supervised training. @throws AgentRLError MODEL_FILE, HUB */
export async function withLocalSftModels(config: SftConfig): Promise<SftConfig> {
  const { model, tokenizer } = config;
  const local = async (place: string, options?: FetchOptions) => (await locateModel(place, options)).path;
  return {
    ...config,
    ...(model.path !== undefined && { model: { ...model, path: await local(model.path) } }),
    // Beside safetensors the tokenizer is a file of its own.
    ...(tokenizer !== undefined && { tokenizer: await local(tokenizer, { weights: tokenizer.endsWith(".gguf") }) }),
  };
}
