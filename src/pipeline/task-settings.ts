/** What tasks have of their own in how they are trained, by the names that their trajectories carry. */

import type { TrainConfig } from "../config/train.ts";
import { algorithmOf, hasOwnAdvantage, type TrainTaskConfig } from "../config/train-tasks.ts";
import { groupBy } from "../group-by.ts";
import type { Sample } from "../rl/advantages/estimator.ts";
import { trainedReward } from "../rl/rewards.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { type Estimate, type Method, methodOf, type Values } from "./method.ts";

export class TaskSettings {
  readonly #config: TrainConfig;
  readonly #tasks: ReadonlyMap<string, TrainTaskConfig>;
  /** Of tasks with advantages of their own. */
  readonly #methods: ReadonlyMap<string, Method>;

  /** @param names [config.tasks] what the environments call themselves; default: as the config does. */
  constructor(config: TrainConfig, names: readonly string[] = config.tasks.map((task) => task.name)) {
    this.#config = config;
    this.#tasks = new Map(config.tasks.map((task, i) => [names[i]!, task]));
    this.#methods = new Map(
      [...this.#tasks]
        .filter(([, task]) => hasOwnAdvantage(task))
        .map(([name, task]) => [name, methodOf(algorithmOf(config.algorithm, task))]),
    );
  }

  /** What a trajectory is trained on. */
  rewardOf(trajectory: Trajectory): number {
    const own = this.#tasks.get(trajectory.task)?.algorithm.incompletePenalty;
    return trainedReward(trajectory, own ?? this.#config.algorithm.incompletePenalty);
  }

  /** Weight of a trajectory's tokens in the loss, relative to others'. */
  lossWeightOf({ task }: Trajectory): number {
    return this.#tasks.get(task)?.lossWeight ?? 1;
  }

  /** The advantages of a batch: groups of tasks with settings of their own by themselves, all others together. */
  estimate(method: Method, groups: readonly (readonly Sample[])[], values: Values | null): Estimate {
    if (this.#methods.size === 0) return method.estimate(groups, values);
    const parts = groupBy(groups, (group) => this.#methods.get(group[0]?.trajectory.task ?? "") ?? method);
    const estimates = [...parts].map(([of, part]) => of.estimate(part, values));
    return { advantages: new Map(estimates.flatMap(({ advantages }) => [...advantages])) };
  }
}
