/** The task sampler of a config: tasks by their weights, and within a task its levels by theirs. */
import type { TaskConfig } from "../config/sections.ts";
import type { Environment } from "../env/environment.ts";
import { AgentRLError } from "../errors.ts";
import { type SamplerTask, TaskSampler } from "../rl/sampler.ts";

export function taskMix(tasks: readonly TaskConfig[], environments: readonly Environment[], seed: number): TaskSampler {
  return new TaskSampler(
    tasks.map((task, i) => ({ name: task.name, weight: task.weight, strata: strataOf(task, environments[i]!) })),
    seed,
  );
}

function strataOf({ name, split, levels }: TaskConfig, environment: Environment): SamplerTask["strata"] {
  const { indices } = environment.split(split);
  if (levels === undefined) return [{ weight: 1, indices }];
  return Object.entries(levels).map(([level, weight]) => {
    const chosen = indices.filter((index) => environment.level(split, index) === Number(level));
    if (chosen.length > 0) return { weight, indices: chosen };
    const known = [...new Set(indices.map((index) => environment.level(split, index)))].sort((a, b) => a - b);
    throw new AgentRLError("CONFIG", `Task ${name} has no task of level ${level} in split "${split}"`, {
      where: "tasks[].levels",
      got: level,
      expected: known.join(", "),
      hint: "Leave the level out.",
    });
  });
}
