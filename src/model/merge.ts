/**
 * An adapter added into the matrices that it stands beside, W + (alpha / rank) A B, on the host: for a model that is handed on
 * whole. Each element is summed in float64 and rounded once.
 */
import type { ModelConfig } from "./config.ts";
import type { TensorReader } from "./files.ts";
import { adapterLayout, adapterNames, type LoraShape, loraScale } from "./lora.ts";
import { type HostTensor, parameterLayout, parameterNames, unpackTensors } from "./parameters.ts";

/** The model's tensors by Hugging Face name, in the layout's order. @throws AgentRLError MODEL_FILE */
export function mergedTensors(
  config: ModelConfig,
  tensors: Pick<TensorReader, "read">,
  adapter?: { lora: LoraShape; data: Float32Array },
): Map<string, HostTensor> {
  const names = parameterLayout(config).entries.map(({ name }) => name);
  const merged = new Map(names.map((name) => [name, tensors.read(name) as HostTensor]));
  if (adapter === undefined) return merged;
  const { lora, data } = adapter;
  const factors = unpackTensors(adapterLayout(config, lora), data);
  for (let layer = 0; layer < config.layers; layer++) {
    for (const role of lora.targets) {
      const name = parameterNames.weight(layer, role);
      const { a, b } = adapterNames(layer, role);
      merged.set(name, withProduct(merged.get(name)!, factors.get(a)!, factors.get(b)!, loraScale(lora)));
    }
  }
  return merged;
}

/** weight [out, in] + scale * b [out, rank] a [rank, in] */
function withProduct(weight: HostTensor, a: HostTensor, b: HostTensor, scale: number): HostTensor {
  const [rank, inner] = a.shape as [number, number];
  const data = new Float32Array(weight.data.length);
  const row = new Float64Array(inner);
  for (let out = 0; out * inner < data.length; out++) {
    row.fill(0);
    for (let r = 0; r < rank; r++) {
      const factor = b.data[out * rank + r]!;
      for (let i = 0; i < inner; i++) row[i]! += factor * a.data[r * inner + i]!;
    }
    for (let i = 0; i < inner; i++) data[out * inner + i] = weight.data[out * inner + i]! + scale * row[i]!;
  }
  return { shape: weight.shape, data };
}
