/**
 * Checkpoints: weights, optimizer, step and the set of trained group numbers. A checkpoint is written to a temporary
 * folder, every file synced, the folder renamed, and only then does `latest` move (by rename as well). What `latest` names
 * is never touched before. So whatever happens, and when, `latest` names a whole checkpoint.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { isOrphaned } from "../end-with-parent.ts";
import { AgentRLError, briefly } from "../errors.ts";
import { openSafetensors, writeSafetensors } from "../model/safetensors.ts";
import type { ValueHeadState } from "../model/value-head.ts";

const stateSchema = z.strictObject({
  format: z.literal(1),
  step: z.int().min(0),
  seed: z.int(),
  configHash: z.string(),
  trainedGroups: z.array(z.tuple([z.int(), z.int()])),
  optimizerStep: z.int().min(0),
  /** Versions, older than the step, that copies of a cross-policy pool stand at. */
  staleVersions: z.array(z.int().min(0)).optional(),
  checksum: z.string(),
  /** Where task weights change during the run. */
  sampling: z
    .strictObject({
      epochs: z.array(z.tuple([z.int().min(0), z.array(z.number())])),
      averages: z.array(z.strictObject({ fast: z.number(), slow: z.number() }).nullable()),
      issued: z.int().min(0),
    })
    .optional(),
});

export type CheckpointState = z.output<typeof stateSchema>;

export interface CheckpointContent {
  state: CheckpointState;
  /** Writes the model, or the adapters, into this folder. */
  saveModel: (folder: string) => void;
  optimizer: { m: Float32Array; v: Float32Array };
  /** Weights of `state.staleVersions`, as the board holds them. */
  stale?: ReadonlyMap<number, Float32Array>;
  /** Where the method has one. */
  critic?: ValueHeadState;
}

const latestFile = "latest";
const stateFile = "state.json";
const optimizerFile = "optimizer.safetensors";
const criticFile = "critic.safetensors";

/** Folder of the newest checkpoint, or null. */
export function latestCheckpoint(folder: string): string | null {
  const name = latestName(folder);
  return name === null ? null : join(folder, name);
}

function latestName(folder: string): string | null {
  const pointer = join(folder, latestFile);
  return existsSync(pointer) ? readFileSync(pointer, "utf8").trim() : null;
}

/** The step's name, with a number where `latest` names another checkpoint of the same step. */
function nameFor(folder: string, step: number, state: string): string {
  const plain = `step-${String(step).padStart(6, "0")}`;
  const latest = latestName(folder);
  if (latest?.split(".")[0] !== plain) return plain;
  const file = join(folder, latest, stateFile);
  if (existsSync(file) && readFileSync(file, "utf8") === state) return latest;
  return `${plain}.${Number(latest.split(".")[1] ?? 0) + 1}`;
}

/** What processes that were killed while they wrote have left, all but `mine`. */
function removeUnfinished(folder: string, mine: string): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const writer = /^\.step-[\d.]+\.(\d+)\.tmp$/.exec(name)?.[1];
    if (writer !== undefined && path !== mine && !isAlive(Number(writer))) rmSync(path, { recursive: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/**
 * @returns the checkpoint's folder.
 * @throws AgentRLError "DISK" when it cannot be written; the previous checkpoint and `latest` are untouched. "PIPELINE" when
 * this process's supervisor is gone: the folder is the run's next start's.
 */
export function writeCheckpoint(folder: string, content: CheckpointContent, keep: number): string {
  const state = `${JSON.stringify(content.state, null, 2)}\n`;
  const name = nameFor(folder, content.state.step, state);
  const target = join(folder, name);
  // A run that ends or begins where it has a checkpoint has nothing to write.
  if (name === latestName(folder)) return target;
  const temporary = join(folder, `.${name}.${process.pid}.tmp`);
  try {
    mkdirSync(temporary, { recursive: true });
    removeUnfinished(folder, temporary);
    content.saveModel(join(temporary, "model"));
    writeVectors(join(temporary, optimizerFile), content.optimizer);
    if (content.critic !== undefined) writeVectors(join(temporary, criticFile), { ...content.critic });
    for (const [version, weights] of content.stale ?? [])
      writeVectors(join(temporary, staleFile(version)), { weights });
    writeFileSync(join(temporary, stateFile), state, { flush: true });
    syncTree(temporary);
    if (isOrphaned()) throw new AgentRLError("PIPELINE", "The supervisor is gone: its next start goes on from before");
    rmSync(target, { recursive: true, force: true });
    renameSync(temporary, target);
    syncFolder(folder);
    const pointer = join(folder, `.${latestFile}.tmp`);
    writeFileSync(pointer, `${name}\n`, { flush: true });
    renameSync(pointer, join(folder, latestFile));
    syncFolder(folder);
  } catch (error) {
    // Frees what the unfinished copy holds; the cause is what the user must hear of.
    rmSync(temporary, { recursive: true, force: true });
    if (error instanceof AgentRLError && error.code !== "DISK") throw error;
    throw new AgentRLError("DISK", "A checkpoint could not be written", {
      where: target,
      got: error instanceof AgentRLError ? briefly(error) : (error as Error).message,
      expected: "room and permission to write it",
      hint: `free space and go on with --resume: ${latestCheckpoint(folder) ?? "no earlier checkpoint"} is intact`,
      cause: error,
    });
  }
  prune(folder, name, keep);
  return target;
}

/** @throws AgentRLError "CHECKPOINT" when a part is missing or does not parse. */
export function readCheckpoint(folder: string): {
  state: CheckpointState;
  modelFolder: string;
  optimizer: { m: Float32Array; v: Float32Array };
  critic?: ValueHeadState;
} {
  const critic = join(folder, criticFile);
  return {
    state: readState(folder),
    modelFolder: join(folder, "model"),
    optimizer: readVectors(join(folder, optimizerFile), ["m", "v"]),
    ...(existsSync(critic) && { critic: readVectors(critic, ["weights", "m", "v"]) }),
  };
}

/** @throws AgentRLError "CHECKPOINT" */
export function readState(folder: string): CheckpointState {
  const file = join(folder, stateFile);
  try {
    return stateSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (error) {
    throw new AgentRLError("CHECKPOINT", "A checkpoint's state cannot be read", {
      where: file,
      got: error instanceof Error ? error.message : String(error),
      expected: "a state.json that this version wrote",
      hint: "name an earlier checkpoint in the file `latest`",
      cause: error,
    });
  }
}

/** Weights of a stale copy, as the board holds them. @throws AgentRLError MODEL_FILE */
export function readStaleWeights(folder: string, version: number): Float32Array {
  return readVectors(join(folder, staleFile(version)), ["weights"]).weights;
}

function writeVectors(file: string, vectors: Readonly<Record<string, Float32Array>>): void {
  writeSafetensors(
    file,
    new Map(Object.entries(vectors).map(([name, data]) => [name, { shape: [data.length], data }])),
  );
}

function readVectors<Name extends string>(file: string, names: readonly Name[]): Record<Name, Float32Array> {
  const tensors = openSafetensors(file);
  try {
    return Object.fromEntries(names.map((name) => [name, tensors.read(name).data])) as Record<Name, Float32Array>;
  } finally {
    tensors.close();
  }
}

function staleFile(version: number): string {
  return `stale-${String(version).padStart(6, "0")}.safetensors`;
}

function prune(folder: string, newest: string, keep: number): void {
  const names = readdirSync(folder)
    .filter((name) => /^step-\d+(\.\d+)?$/.test(name) && name <= newest)
    .sort();
  for (const name of names.slice(0, Math.max(0, names.length - keep))) {
    rmSync(join(folder, name), { recursive: true, force: true });
  }
}

function syncTree(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) syncTree(path);
    else syncFile(path);
  }
  syncFolder(folder);
}

function syncFile(path: string): void {
  const handle = openSync(path, "r+");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

function syncFolder(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
