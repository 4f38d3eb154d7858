/** The environment that a task of a config names. */
import { environments } from "../../envs/index.ts";
import type { TaskConfig } from "../config/sections.ts";
import type { Environment } from "../env/environment.ts";

export function openEnvironment({ name, options }: Pick<TaskConfig, "name" | "options">): Environment {
  const { data, prompt } = options;
  return environments.create(name, data === undefined ? { prompt } : { prompt, data });
}
