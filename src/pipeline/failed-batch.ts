/**
 * A batch whose loss or gradient was not finite, as a file: the groups as they were sampled, the config, and where the
 * weights lie that they were to train. `agentrl replay` computes the same step again.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { Packr } from "msgpackr";
import { type TrainConfig, trainSchema } from "../config/train.ts";
import { AgentRLError } from "../errors.ts";
import { loadModelFolder } from "../model/files.ts";
import { adapt, loadCompute } from "../model/load.ts";
import { decodeTrajectory, encodeTrajectory } from "../rl/record.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { BatchGradient, type GradientMetrics } from "./batch-gradient.ts";
import { readCheckpoint } from "./checkpoint.ts";
import { loadCritic } from "./learner-state.ts";
import { openDevice, resolveDevice } from "./open-device.ts";
import { learnerSection } from "./run-devices.ts";
import { passSize } from "./training-options.ts";

const format = "agentrl failed batch 1";
const packr = new Packr({ useRecords: false });

export interface FailedBatch {
  config: TrainConfig;
  /** [config.tasks] what the environments call themselves. */
  taskNames: string[];
  /** Checkpoint of the weights before the step. */
  checkpoint: string;
  groups: Trajectory[][];
}

/** Writes it into the run's folder and returns the file. */
export function writeFailedBatch(run: string, step: number, batch: FailedBatch): string {
  const { config, taskNames, checkpoint, groups } = batch;
  const file = join(run, `failed-step-${String(step).padStart(6, "0")}.batch`);
  const records = groups.map((group) => group.map(encodeTrajectory));
  writeFileSync(
    file,
    packr.pack({ format, config, taskNames, checkpoint: relative(run, checkpoint), groups: records }),
  );
  return file;
}

/** @throws AgentRLError "USAGE" for a file that is none. */
export function readFailedBatch(file: string): FailedBatch {
  const refuse = (got: string) =>
    new AgentRLError("USAGE", "Not the batch of a failed step", {
      where: file,
      got,
      expected: "a file failed-step-….batch of a run's folder",
    });
  let content: { format?: unknown; config: unknown; taskNames: string[]; checkpoint: string; groups: Uint8Array[][] };
  try {
    content = packr.unpack(readFileSync(file)) as typeof content;
  } catch (error) {
    throw refuse((error as Error).message);
  }
  if (content?.format !== format) throw refuse(`format ${JSON.stringify(content?.format)}`);
  return {
    config: trainSchema.parse(content.config),
    taskNames: content.taskNames,
    checkpoint: resolve(dirname(file), content.checkpoint),
    groups: content.groups.map((group) => group.map(decodeTrajectory)),
  };
}

/**
 * The gradient of the batch once more.
 * @throws AgentRLError "NOT_FINITE" as the run did.
 */
export async function replayFailedBatch(file: string): Promise<GradientMetrics & { gradNorm: number }> {
  const { config, taskNames, checkpoint, groups } = readFailedBatch(file);
  const { state, modelFolder, critic } = readCheckpoint(checkpoint);
  const model = loadModelFolder(modelFolder);
  const rows = { train: passSize(config).maxRows, decode: 0 };
  const device = await openDevice(await resolveDevice(learnerSection(config)), config.learner.threads, {
    config: model.config,
    rows,
  });
  const base = loadCompute(device, { config: model.config, tensors: model.tensors }, "weights");
  model.tensors.close();
  const trained = { config: model.config, lora: model.adapter?.lora ?? null, base };
  const weights = model.adapter === undefined ? base : adapt(device, model.config, base, model.adapter);
  const gradient = new BatchGradient(device, trained, config, taskNames);
  loadCritic(gradient, critic, checkpoint);
  const { metrics } = await gradient.compute(weights, groups, state.step);
  await gradient.critic?.gradientNorm();
  const gradNorm = Math.sqrt(await device.sumSquares(gradient.grads.arena, gradient.grads.layout.length));
  device.destroy();
  return { ...metrics, gradNorm };
}
