/**
 * The task sampler: a pure function of a counter. Group number → task, index and seeds, so a checkpoint that holds the
 * set of trained group numbers is all that exactly-once needs. Where task weights change during a run, they change at a
 * group number: the list of those changes is part of the function, and of the checkpoint.
 */
import { AgentRLError } from "../errors.ts";

export interface SamplerTask {
  name: string;
  weight: number;
  /** Task indices to draw from, in strata (the levels of graded tasks) of relative weight. */
  strata: readonly { weight: number; indices: readonly number[] }[];
}

export interface GroupDraw {
  group: number;
  /** Position in the list of tasks. */
  task: number;
  index: number;
  /** Seed of the group's environment sessions. */
  seed: number;
}

/** Avalanching 32-bit hash of two words (the finaliser of MurmurHash3, Appleby 2011). */
export function mix32(a: number, b: number): number {
  let h = (Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35)) >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

function uniform(seed: number, draw: number): number {
  return mix32(seed, draw) / 2 ** 32;
}

function pick(strata: SamplerTask["strata"], u: number): readonly number[] {
  let left = u * strata.reduce((sum, stratum) => sum + stratum.weight, 0);
  for (const { weight, indices } of strata) {
    left -= weight;
    if (left < 0) return indices;
  }
  return strata.at(-1)!.indices;
}

/** Task weights, of any sum, from a group number on. */
export type WeightEpoch = [first: number, weights: number[]];

export class TaskSampler {
  readonly #tasks: readonly SamplerTask[];
  readonly #seed: number;
  /** Ascending in `first`; the first one begins at 0. */
  readonly #epochs: { first: number; weights: readonly number[]; cumulative: readonly number[] }[] = [];

  constructor(tasks: readonly SamplerTask[], seed: number) {
    this.#tasks = tasks;
    this.#seed = seed;
    this.reweigh([0, tasks.map((task) => task.weight)]);
  }

  get tasks(): readonly SamplerTask[] {
    return this.#tasks;
  }

  /** Draws by other weights from a group number on, at or above that of the last change. */
  reweigh([first, weights]: WeightEpoch): void {
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    if (!(total > 0)) {
      throw new AgentRLError("CONFIG", "The task weights sum to nothing", {
        where: "tasks[].weight",
        got: weights,
        expected: "at least one positive weight",
      });
    }
    if (this.#epochs.at(-1)?.first === first) this.#epochs.pop();
    let sum = 0;
    const cumulative = weights.map((weight) => {
      sum += weight;
      return sum / total;
    });
    this.#epochs.push({ first, weights, cumulative });
  }

  /** The changes of weights that matter for the numbers from `from` on. */
  epochs(from = 0): WeightEpoch[] {
    const inForce = this.#epochs.findLastIndex((epoch) => epoch.first <= from);
    return this.#epochs.slice(inForce).map(({ first, weights }) => [first, [...weights]]);
  }

  /** [tasks] share of each task in the groups from the last change on. */
  get shares(): number[] {
    const { cumulative } = this.#epochs.at(-1)!;
    return cumulative.map((edge, task) => edge - (cumulative[task - 1] ?? 0));
  }

  /**
   * Tasks follow the golden-ratio sequence, which keeps every run of groups close to the weights; indices are drawn
   * uniformly with replacement.
   */
  draw(group: number): GroupDraw {
    const u = (group * 0.6180339887498949) % 1;
    const { cumulative } = this.#epochs.findLast(({ first }) => first <= group)!;
    let task = cumulative.findIndex((edge) => u < edge);
    if (task < 0) task = this.#tasks.length - 1;
    const seed = mix32(this.#seed, group);
    const indices = pick(this.#tasks[task]!.strata, uniform(seed, 2));
    const index = indices[Math.floor(uniform(seed, 1) * indices.length)]!;
    return { group, task, index, seed };
  }
}
