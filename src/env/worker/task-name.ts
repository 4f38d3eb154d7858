/** Task names of the wire: "kg-std" is the evaluation split of environment kg, "kg-env_train" its training split. */
import { isModulePath } from "../definition.ts";

export interface NamedTask {
  environment: string;
  split: "train" | "eval";
}

const suffixes = { "-std": "eval", "-env_train": "train" } as const;

export function taskOfName(name: string): NamedTask {
  if (!isModulePath(name)) {
    for (const [suffix, split] of Object.entries(suffixes)) {
      if (name.endsWith(suffix)) return { environment: name.slice(0, -suffix.length), split };
    }
  }
  return { environment: name, split: "eval" };
}

/**
 * The name that a worker registers by default: "dbbench" is dbbench-std, as the protocol calls the evaluation split; a file's
 * task is called as the file.
 */
export function wireName(task: string): string {
  if (isModulePath(task)) return task.replace(/^.*[/\\]/, "").replace(/\.\w+$/, "");
  return Object.keys(suffixes).some((suffix) => task.endsWith(suffix)) ? task : `${task}-std`;
}

/** Sessions at once and turns per episode of the five tasks, as the original deploys them. */
const deployed: Readonly<Record<string, { concurrency: number; maxTurns: number }>> = {
  alfworld: { concurrency: 16, maxTurns: 20 },
  dbbench: { concurrency: 32, maxTurns: 15 },
  kg: { concurrency: 32, maxTurns: 15 },
  os: { concurrency: 32, maxTurns: 8 },
  webshop: { concurrency: 64, maxTurns: 20 },
};
const otherTasks = { concurrency: 32, maxTurns: 30 };

export function deploymentOf(name: string): { concurrency: number; maxTurns: number } {
  return deployed[taskOfName(name).environment] ?? otherTasks;
}
