/**
 * Who works on what: issues group numbers to rollout processes, paces them by staleness, and decides which groups make
 * the next batch. Pure bookkeeping, no I/O: the supervisor feeds it events.
 *
 * Pacing (AReaL, Fu et al. 2025, arXiv 2505.24298, Eq. 3): with version v published, at most (v + 1 + maxLag) ·
 * groupsPerStep groups may have been issued in all. On top, a batch waits whenever training it without some slow group
 * would leave more old groups than the steps before their bound can take, so the bound holds for every trained token.
 * maxLag 0 is the synchronous mode.
 */
import { AgentRLError } from "../errors.ts";
import type { GroupDraw, TaskSampler } from "../rl/sampler.ts";

export interface CoordinatorOptions {
  sampler: TaskSampler;
  groupSize: number;
  groupsPerStep: number;
  maxLag: number;
  /** Training steps in all. */
  steps: number;
  /** Steps done and groups trained so far (a resumed run). */
  step?: number;
  trained?: Iterable<number>;
}

interface Group {
  draw: GroupDraw;
  worker: number;
  /** Version published when it was leased: no token of the group is older. */
  startVersion: number;
  samples: Set<number>;
  complete: boolean;
}

export interface Lease {
  draw: GroupDraw;
  /** Samples wanted; fewer than all when a lost worker had delivered some. */
  samples: number[];
}

export class Coordinator {
  readonly #options: CoordinatorOptions;
  readonly #trained: Set<number>;
  readonly #groups = new Map<number, Group>();
  /** Groups to issue again, before new numbers. */
  #requeued: number[] = [];
  #next = 0;
  #step: number;
  #training: number[] | null = null;

  constructor(options: CoordinatorOptions) {
    this.#options = options;
    this.#trained = new Set(options.trained ?? []);
    this.#step = options.step ?? 0;
  }

  /** Weight version = training steps done. */
  get version(): number {
    return this.#step;
  }

  get finished(): boolean {
    return this.#step >= this.#options.steps;
  }

  get trainedGroups(): ReadonlySet<number> {
    return this.#trained;
  }

  get inFlight(): number {
    return this.#groups.size;
  }

  /** Up to `capacity` groups for a worker that has room; empty when pacing holds it back. */
  lease(worker: number, capacity: number): Lease[] {
    const { groupSize, groupsPerStep, maxLag, steps } = this.#options;
    const leases: Lease[] = [];
    const limit = Math.min((this.#step + 1 + maxLag) * groupsPerStep, steps * groupsPerStep);
    while (leases.length < capacity) {
      const again = this.#requeued.shift();
      if (again !== undefined) {
        const group = this.#groups.get(again)!;
        group.worker = worker;
        // Samples that survive from before the loss keep the group's age.
        if (group.samples.size === 0) group.startVersion = this.#step;
        const samples = range(groupSize).filter((sample) => !group.samples.has(sample));
        leases.push({ draw: group.draw, samples });
        continue;
      }
      if (this.#trained.size + this.#groups.size >= limit) break;
      while (this.#trained.has(this.#next)) this.#next++;
      const draw = this.#options.sampler.draw(this.#next++);
      const group = { draw, worker, startVersion: this.#step, samples: new Set<number>(), complete: false };
      this.#groups.set(draw.group, group);
      leases.push({ draw, samples: range(groupSize) });
    }
    return leases;
  }

  /** A sample reached the learner. Repeats (a worker died after delivering) and strangers are ignored. */
  received(groupNumber: number, sample: number): void {
    const group = this.#groups.get(groupNumber);
    if (group === undefined || group.samples.has(sample)) return;
    group.samples.add(sample);
    if (group.samples.size < this.#options.groupSize) return;
    group.complete = true;
    this.#requeued = this.#requeued.filter((number) => number !== groupNumber);
  }

  /** A worker died: what it had not delivered is issued again, oldest first. */
  workerLost(worker: number): number {
    const lost = [...this.#groups.values()].filter((group) => group.worker === worker && !group.complete);
    const numbers = lost.map((group) => group.draw.group).filter((number) => !this.#requeued.includes(number));
    this.#requeued = [...this.#requeued, ...numbers].sort((a, b) => a - b);
    return numbers.length;
  }

  /** The groups of the next batch in ascending number, or null while it must wait. One batch at a time. */
  nextBatch(): number[] | null {
    const { groupsPerStep, maxLag } = this.#options;
    if (this.#training !== null || this.finished) return null;
    const complete = [...this.#groups.values()].filter((group) => group.complete);
    if (complete.length < groupsPerStep) return null;
    const byAge = (a: Group, b: Group) => a.startVersion - b.startVersion || a.draw.group - b.draw.group;
    const chosen = complete.sort(byAge).slice(0, groupsPerStep);
    const taken = new Set(chosen);
    const left = [...this.#groups.values()].filter((group) => !taken.has(group)).sort(byAge);
    // Earliest deadline first is feasible exactly when, for every k, the groups due within k further steps fit in them.
    for (const [place, group] of left.entries()) {
      const stepsLeft = group.startVersion + maxLag - this.#step;
      if (place >= stepsLeft * groupsPerStep) return null;
    }
    this.#training = chosen.map((group) => group.draw.group).sort((a, b) => a - b);
    return this.#training;
  }

  /** Groups that are not complete, oldest first; for the watchdog's message. */
  incomplete(): number[] {
    return [...this.#groups.values()]
      .filter((group) => !group.complete)
      .sort((a, b) => a.startVersion - b.startVersion || a.draw.group - b.draw.group)
      .map((group) => group.draw.group);
  }

  trained(groups: readonly number[]): void {
    if (this.#training === null || groups.length !== this.#training.length) {
      throw new AgentRLError("PIPELINE", "A batch was reported trained that was not asked for", {
        where: "coordinator",
        got: groups,
        expected: JSON.stringify(this.#training),
      });
    }
    for (const group of groups) {
      this.#groups.delete(group);
      this.#trained.add(group);
    }
    this.#training = null;
    this.#step++;
  }
}

function range(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}
