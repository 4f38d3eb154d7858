/** Which tasks are played: by weight in training, in order in evaluation; of the levels that a config chooses. */
import type { TaskConfig } from "../config/sections.ts";
import type { Environment } from "../env/environment.ts";
import { AgentRLError } from "../errors.ts";
import type { SamplerTask } from "../rl/sampler.ts";

/** Tasks by their weights, and within a task its levels by theirs. */
export function taskMix(tasks: readonly TaskConfig[], environments: readonly Environment[]): SamplerTask[] {
  return tasks.map((task, i) => ({ name: task.name, weight: task.weight, strata: strataOf(task, environments[i]!) }));
}

function strataOf({ name, split, levels }: TaskConfig, environment: Environment): SamplerTask["strata"] {
  const { indices } = environment.split(split);
  if (levels === undefined) return [{ weight: 1, indices }];
  return Object.entries(levels).map(([level, weight]) => ({
    weight,
    indices: ofLevels(environment, split, [Number(level)], name),
  }));
}

/**
 * A split's indices, in order, of some levels; of all without `levels`.
 * @throws AgentRLError CONFIG when the split has no task of a level.
 */
export function ofLevels(
  environment: Environment,
  split: string,
  levels: readonly number[] | undefined,
  name = environment.name,
): number[] {
  const { indices } = environment.split(split);
  if (levels === undefined) return indices;
  const levelOf = new Map(indices.map((index) => [index, environment.level(split, index)]));
  const known = new Set(levelOf.values());
  const missing = levels.find((level) => !known.has(level));
  if (missing === undefined) return indices.filter((index) => levels.includes(levelOf.get(index)!));
  throw new AgentRLError("CONFIG", `Task ${name} has no task of level ${missing} in split "${split}"`, {
    where: "levels",
    got: missing,
    expected: [...known].sort((a, b) => a - b).join(", "),
    hint: "Leave the level out.",
  });
}

/**
 * [tasks] what the environments call themselves, by which trajectories, metrics and per-task settings are told apart.
 * @throws AgentRLError CONFIG when two have one name.
 */
export function taskNamesOf(environments: readonly Environment[]): string[] {
  const names = environments.map((environment) => environment.name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice === undefined) return names;
  throw new AgentRLError("CONFIG", `Two of the tasks call themselves ${twice}`, {
    where: "tasks",
    got: names.join(", "),
    expected: "environments of different names",
    hint: "Rename one, where it is defined.",
  });
}

/** The levels that a config chooses for a task. */
export function levelsOf({ levels }: TaskConfig): number[] | undefined {
  return levels === undefined ? undefined : Object.keys(levels).map(Number);
}
