/** The environment that a task of a config names: one of the registry, or a user's own file. */
import { environments } from "../../envs/index.ts";
import type { TaskConfig } from "../config/sections.ts";
import { isModulePath } from "../env/definition.ts";
import { delayed, type Latency } from "../env/delayed.ts";
import type { Environment } from "../env/environment.ts";

interface NamedTask {
  name: string;
  options: Partial<TaskConfig["options"]>;
  latency?: Latency | undefined;
}

/** @throws AgentRLError CONFIG for an unknown name or a file without an environment. */
export async function openEnvironment(task: NamedTask): Promise<Environment> {
  const environment = await openOnTime(task);
  return task.latency === undefined ? environment : delayed(environment, task.latency);
}

async function openOnTime(task: NamedTask): Promise<Environment> {
  const given = Object.entries(task.options).filter(([, value]) => value !== undefined);
  const options = Object.fromEntries(given);
  if (!isModulePath(task.name)) return environments.create(task.name, options);
  const { openOffLoop } = await import("../env/off-loop.ts");
  return openOffLoop(task.name, options);
}
