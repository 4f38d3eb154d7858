/** A model from the disk with a generation engine around it: what evaluates it, serves it and chats with it opens it here. */
import { type DeviceSection, nativeSection, webgpuSection } from "../config/sections.ts";
import { ATTENTION_BLOCK } from "../device/device.ts";
import { Engine } from "../generate/engine.ts";
import { fixedWeights } from "../generate/weight-source.ts";
import type { ModelConfig } from "../model/config.ts";
import { loadModelFolder } from "../model/files.ts";
import { loadCompute } from "../model/load.ts";
import { assertFitsMemory, estimateMemory } from "../model/memory.ts";
import type { Dialect } from "./dialect.ts";
import { openDevice, resolveDevice } from "./open-device.ts";

export interface EngineModelOptions {
  /** Conversations open at once. */
  maxConversations: number;
  /** Tokens of a conversation. Default: the model's own limit, but no more than `defaultContext`. */
  contextLimit?: number | undefined;
  /** Compute threads. @default 1 */
  threads?: number | undefined;
  /** Where it computes; default: native. */
  device?: DeviceSection | undefined;
}

export interface EngineModel {
  config: ModelConfig;
  engine: Engine;
  dialect: Dialect;
  /** Frees everything, when the step under way is done. */
  close(): Promise<void>;
}

/** Longer contexts than episodes need would take gigabytes of a real model's KV cache. */
export const defaultContext = 4096;

const onNative: DeviceSection = {
  device: "native",
  native: nativeSection.parse({}),
  webgpu: webgpuSection.parse({}),
};

/**
 * @param place Whatever `loadModelFolder` takes.
 * @throws AgentRLError MODEL_FILE, TOKENIZER, MEMORY, DEVICE; CONFIG for a context that is longer than the model's.
 */
export async function openEngine(place: string, options: EngineModelOptions): Promise<EngineModel> {
  const { maxConversations, threads = 1, device: section = onNative } = options;
  const model = loadModelFolder(place);
  try {
    const { config, tokenizer, template } = model;
    const contextLimit = options.contextLimit ?? Math.min(config.maxPositions, defaultContext);
    const pages = maxConversations * Math.ceil(contextLimit / ATTENTION_BLOCK);
    assertFitsMemory(estimateMemory(config, { maxRows: 0, maxScored: 0, pages, boardSlots: 1 }));
    const device = await openDevice(await resolveDevice(section), threads, {
      config,
      rows: { train: 0, decode: maxConversations },
    });
    const weights = fixedWeights(loadCompute(device, model, "weights"));
    const loraRank = model.adapter?.lora.rank ?? 0;
    const engine = new Engine({ device, config, loraRank, weights, maxConversations, contextLimit });
    return {
      config,
      engine,
      dialect: { tokenizer, template, stopTokens: config.eosTokenIds },
      async close() {
        await engine.destroy();
        device.destroy();
      },
    };
  } finally {
    model.tensors.close();
  }
}
