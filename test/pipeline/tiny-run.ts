/** A run small enough for tests: a random model of some 20,000 parameters, made by this project's own sft. */
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { loadSftConfig, loadTrainConfig } from "../../src/config/load.ts";
import { runSft } from "../../src/pipeline/sft.ts";
import { type RunOptions, type RunStep, runTraining } from "../../src/pipeline/train.ts";

export const tasks = [{ name: "dbbench" }, { name: "kg" }];

export function temporaryFolder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), "agentrl-test-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** A model folder after a few steps of sft: knows the tokens, not the tasks. */
export async function makeModel(folder: string, overrides: Record<string, unknown> = {}): Promise<string> {
  const out = join(folder, "model");
  const file = join(folder, "sft.yaml");
  const sft = {
    model: {
      new: { vocabSize: 400, hiddenSize: 32, intermediateSize: 48, layers: 2, heads: 2, kvHeads: 1, headDim: 16 },
    },
    out,
    tasks,
    episodes: 60,
    steps: 12,
    batchTokens: 3000,
    optimizer: { lr: 0.01 },
    ...overrides,
  };
  writeFileSync(file, stringify(sft));
  await runSft({ config: loadSftConfig(file).config, out });
  return out;
}

export function runOptions(folder: string, name: string, settings: Record<string, unknown>): RunOptions {
  const file = join(folder, `${name}.yaml`);
  writeFileSync(file, stringify(settings));
  const { config, yaml } = loadTrainConfig(file);
  return { config, yaml, out: join(folder, name) };
}

/** Runs and collects the steps' metrics. */
export async function run(options: RunOptions) {
  const steps: RunStep[] = [];
  const summary = await runTraining({
    ...options,
    onEvent: (event) => {
      options.onEvent?.(event);
      if (event.type === "step") steps.push(event.metrics as RunStep);
    },
  });
  return { summary, steps };
}

/** A run's folder as it was when its processes were killed after the checkpoint of `step`, which it must have kept. */
export function killedAfter(run: RunOptions, step: number, out: string): RunOptions {
  cpSync(run.out, out, { recursive: true });
  const checkpoints = join(out, "checkpoints");
  const kept = `step-${String(step).padStart(6, "0")}`;
  for (const name of readdirSync(checkpoints)) {
    if (name.startsWith("step-") && name > kept) rmSync(join(checkpoints, name), { recursive: true });
  }
  writeFileSync(join(checkpoints, "latest"), `${kept}\n`);
  return { ...run, out, resume: true };
}
