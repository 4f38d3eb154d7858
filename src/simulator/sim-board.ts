/** The weights of a simulation: a hash of all that they were trained on stands for them. */
import { createHash } from "node:crypto";
import type { Trajectory } from "../rl/trajectory.ts";

/** Versions and the groups that made them, newest first: a checkpoint keeps it whole for the price of a pointer. */
export interface Lineage {
  readonly version: number;
  readonly weights: string;
  readonly groups: readonly number[];
  readonly before: Lineage | null;
}

export const untrained: Lineage = { version: 0, weights: "", groups: [], before: null };

/** The next version: what it is depends on the one before and on every token of the batch, in order. */
export function trained(before: Lineage, batch: readonly Trajectory[][]): Lineage {
  const hash = createHash("sha256").update(before.weights);
  for (const { tokens, reward, sample, group } of batch.flat()) hash.update(`${group}.${sample}.${tokens}.${reward};`);
  const groups = batch.map(([first]) => first!.group);
  return { version: before.version + 1, weights: hash.digest("hex").slice(0, 16), groups, before };
}

/** All groups that went into the weights, in order of training. */
export function groupsOf(lineage: Lineage): number[] {
  const steps: (readonly number[])[] = [];
  for (let one: Lineage | null = lineage; one !== null; one = one.before) steps.push(one.groups);
  return steps.reverse().flat();
}

/** Where rollouts read what the learner publishes. */
export class SimBoard {
  #newest: Lineage | null = null;

  publish(lineage: Lineage): void {
    this.#newest = lineage;
  }

  get newest(): Lineage | null {
    return this.#newest;
  }
}
