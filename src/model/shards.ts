/** The weights of a model folder: model.safetensors, or the shards that model.safetensors.index.json names. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { AgentRLError } from "../errors.ts";
import { openSafetensors, type SafetensorsReader, type Tensor } from "./safetensors.ts";
import type { TensorInfo } from "./safetensors-header.ts";

export const weightsFile = "model.safetensors";
export const indexFile = "model.safetensors.index.json";

/** Tensors by Hugging Face's name, wherever they lie. */
export interface TensorSource {
  names(): string[];
  info(name: string): TensorInfo | undefined;
  /** @throws AgentRLError MODEL_FILE */
  read(name: string): Tensor;
  close(): void;
}

/**
 * Opens every file and checks its header, so that a shard that is missing or damaged is found at once.
 * @throws AgentRLError MODEL_FILE
 */
export function openShards(folder: string): TensorSource {
  const readers = new Map<string, SafetensorsReader>();
  const close = () => {
    for (const reader of readers.values()) reader.close();
  };
  const open = (file: string): SafetensorsReader => {
    const reader = readers.get(file) ?? openSafetensors(path.join(folder, file));
    readers.set(file, reader);
    return reader;
  };
  try {
    const readerOf = new Map<string, SafetensorsReader>();
    const index = path.join(folder, indexFile);
    if (!existsSync(path.join(folder, weightsFile)) && existsSync(index)) {
      for (const [name, file] of Object.entries(readWeightMap(index))) {
        const reader = open(file);
        if (reader.info(name) === undefined) {
          throw new AgentRLError("MODEL_FILE", `Tensor "${name}" is not in the shard that the index names.`, {
            where: index,
            got: `${file} without it`,
            expected: `${file} to hold "${name}"`,
            hint: "Fetch the shards and the index of one version of the model.",
          });
        }
        readerOf.set(name, reader);
      }
    } else {
      const reader = open(weightsFile);
      for (const name of reader.names()) readerOf.set(name, reader);
    }
    return {
      names: () => [...readerOf.keys()],
      info: (name) => readerOf.get(name)?.info(name),
      read: (name) => readerOf.get(name)!.read(name),
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** Tensor name to file name. @throws AgentRLError MODEL_FILE */
export function readWeightMap(file: string): Record<string, string> {
  let map: unknown;
  try {
    map = (JSON.parse(readFileSync(file, "utf8")) as { weight_map?: unknown }).weight_map;
  } catch (cause) {
    throw new AgentRLError("MODEL_FILE", "The index of the model's shards cannot be read.", {
      where: file,
      got: (cause as Error).message,
      expected: "JSON with a weight_map",
      hint: "Fetch the file again.",
      cause,
    });
  }
  // A shard's name is a file beside the index, never a path out of the folder.
  const valid =
    typeof map === "object" &&
    map !== null &&
    Object.values(map).every((shard) => typeof shard === "string" && path.basename(shard) === shard);
  if (!valid) {
    throw new AgentRLError("MODEL_FILE", "The index of the model's shards is malformed.", {
      where: `${file}: weight_map`,
      got: map,
      expected: "a map of tensor name to file name",
      hint: "Fetch the file again.",
    });
  }
  return map as Record<string, string>;
}
