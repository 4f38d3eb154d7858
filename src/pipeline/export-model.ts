/** `agentrl export`: a model as other programs take it, whole or as an adapter, with a card that says where it comes from. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { AgentRLError } from "../errors.ts";
import { isAdapterFolder, openAdapterFolder, saveAdapterFolder } from "../model/adapter-files.ts";
import { writeDurably, writeFully } from "../model/durable.ts";
import { loadModelFolder, saveModelFolder } from "../model/files.ts";
import { mergedTensors } from "../model/merge.ts";
import type { FileDType } from "../model/safetensors.ts";
import { latestCheckpoint, readState } from "./checkpoint.ts";
import { modelCard, type RunFacts } from "./model-card.ts";

export interface ExportOptions {
  /** A model's or an adapter's folder, a GGUF file, or a run's folder: its newest checkpoint. */
  model: string;
  /** Folder to write. */
  out: string;
  /** The adapter alone, instead of the model with the adapter added into it. @default false */
  adapter?: boolean;
  /** How weights are written. @default f32 */
  dtype?: FileDType;
}

/** @throws AgentRLError MODEL_FILE, TOKENIZER, DISK; USAGE for an adapter where there is none, or an `out` that holds something. */
export function exportModel(options: ExportOptions): void {
  const { out, adapter = false, dtype = "f32" } = options;
  if (existsSync(join(out, "config.json")) || isAdapterFolder(out)) {
    throw new AgentRLError("USAGE", "The folder holds a model already.", {
      where: out,
      expected: "a new folder",
      hint: "Choose another --out.",
    });
  }
  const checkpoint = latestCheckpoint(join(options.model, "checkpoints"));
  const folder = checkpoint === null ? options.model : join(checkpoint, "model");
  const run = checkpoint === null ? null : runFacts(options.model, checkpoint);
  if (adapter) exportAdapter(folder, out);
  else exportWhole(folder, out, dtype);
  const card = modelCard({ ...(isAdapterFolder(folder) && { base: openAdapterFolder(folder).base }), adapter, run });
  writeDurably(join(out, "README.md"), (descriptor) => writeFully(descriptor, Buffer.from(card)));
}

function exportWhole(folder: string, out: string, dtype: FileDType): void {
  const model = loadModelFolder(folder);
  try {
    const tensors = mergedTensors(model.config, model.tensors, model.adapter);
    saveModelFolder(out, { ...model, tensors, dtype });
  } finally {
    model.tensors.close();
  }
}

function exportAdapter(folder: string, out: string): void {
  if (!isAdapterFolder(folder)) {
    throw new AgentRLError("USAGE", "The model has no adapter.", {
      where: folder,
      expected: "a run with `lora`, or an adapter's folder",
      hint: "Leave --adapter out: the whole model is written.",
    });
  }
  const { base, lora } = openAdapterFolder(folder);
  const model = loadModelFolder(folder);
  model.tensors.close();
  saveAdapterFolder(out, { base, config: model.config, lora, arena: model.adapter!.data });
}

/** What a run's folder says of the run, up to the checkpoint. */
function runFacts(run: string, checkpoint: string): RunFacts {
  const { step } = readState(checkpoint);
  const lines = readFileSync(join(run, "metrics.jsonl"), "utf8").split("\n").slice(0, -1);
  const records = lines.map((line) => JSON.parse(line)).filter((record) => record.step <= step);
  return { step, config: parse(readFileSync(join(run, "config.yaml"), "utf8")), records };
}
