/** From a model's files to weights that a pass computes with: those of a model, with its adapter where the folder is one. */
import type { Device } from "../device/device.ts";
import type { ModelConfig } from "./config.ts";
import { loadModelFolder, type ModelFolder } from "./files.ts";
import { adapterLayout, type LoraShape } from "./lora.ts";
import { packTensors, parameterLayout } from "./parameters.ts";
import { withAdapters } from "./trained.ts";
import { allocateCompute, type ComputeWeights } from "./weights.ts";

/** The weights of a model's files, to compute with on this device. @throws AgentRLError MODEL_FILE */
export function loadCompute(
  device: Device,
  { config, tensors, adapter }: Pick<ModelFolder, "config" | "tensors" | "adapter">,
  label: string,
): ComputeWeights {
  const weights = allocateCompute(device, config, label);
  weights.write(packTensors(parameterLayout(config), (name) => tensors.read(name)));
  return adapter === undefined ? weights : adapt(device, config, weights, adapter);
}

/** The weights with an adapter of a file. */
export function adapt(
  device: Device,
  config: ModelConfig,
  base: ComputeWeights,
  { lora, data }: { lora: LoraShape; data: Float32Array },
): ComputeWeights {
  const arena = device.alloc(adapterLayout(config, lora).length, "f32", "adapters");
  device.write(arena, data);
  return withAdapters(device, config, base, { lora, arena });
}

/** The same, of a model folder. @throws AgentRLError MODEL_FILE */
export function loadFolder(device: Device, folder: string, label: string): ComputeWeights {
  const model = loadModelFolder(folder);
  try {
    return loadCompute(device, model, label);
  } finally {
    model.tensors.close();
  }
}
