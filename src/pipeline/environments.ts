/** The environment that a task of a config names. */
import { environments } from "../../envs/index.ts";
import type { Environment } from "../env/environment.ts";

export function openEnvironment(task: {
  name: string;
  options: { prompt: "full" | "brief"; data?: string | undefined };
}): Environment {
  const { data, prompt } = task.options;
  return environments.create(task.name, data === undefined ? { prompt } : { prompt, data });
}
