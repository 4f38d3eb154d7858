/**
 * Who works on what: issues group numbers to rollout processes, paces them by staleness, and decides which groups make
 * the next batch. Pure bookkeeping, no I/O: the supervisor feeds it events.
 *
 * Pacing (AReaL, Fu et al. 2025, arXiv 2505.24298, Eq. 3): with version v published, at most (v + 1 + maxLag) ·
 * groupsPerStep groups may have been issued in all. On top, the bound holds for every trained token by what is done about
 * groups that take long (`overdue`): a batch waits whenever training it without some slow group would leave more old groups
 * than the steps before their bound can take (`pace`); it waits for the next groups in the order of issue (`wait`), of which
 * no step finds one too old, since no more are issued; or what has grown too old is thrown away (`drop`).
 * maxLag 0 is the synchronous mode.
 *
 * Dynamic sampling (DAPO, arXiv 2503.14476, Eq. 11): the first (maxFactor − 1) · groupsPerStep groups of a step that
 * complete with equal rewards are spares. A spare takes no place in a batch or in the pacing, so another group is issued
 * instead; it is used up by the next batch, beside which it counts as trained. Which groups are spares depends on their
 * numbers and ages alone, not on the order in which they complete, so a synchronous run is reproducible.
 */
import { AgentRLError } from "../errors.ts";
import { type AdaptiveSamplingOptions, AdaptiveWeights, type TaskAverages } from "../rl/adaptive-sampling.ts";
import type { GroupDraw, TaskSampler, WeightEpoch } from "../rl/sampler.ts";
import { byAge, type Candidate, chooseBatch, chooseDropping, chooseInOrder, type Overdue } from "./batch-choice.ts";
import type { GroupBooks, RecordSize } from "./messages.ts";
import { shareQuotas } from "./min-share.ts";
import { UsedNumbers } from "./used-numbers.ts";

export interface CoordinatorOptions {
  sampler: TaskSampler;
  groupSize: number;
  groupsPerStep: number;
  maxLag: number;
  /** What becomes of a batch that a slow group holds up. @default pace */
  overdue?: Overdue;
  /** Training steps in all. */
  steps: number;
  /** Groups that a step may use up, as a multiple of groupsPerStep. @default 1: no dynamic sampling */
  maxFactor?: number;
  /** [tasks] least share of every batch. @default none */
  minShares?: readonly number[];
  /** How task weights follow a signal. @default they do not */
  adaptive?: AdaptiveSamplingOptions;
  /** Bytes that episodes may take between sampling and training; at least one batch is always played. @default no bound */
  buffer?: { maxBytes: number; largestEpisode: number };
  /** Steps done and groups used up so far (a resumed run), and what its sampler had come to. */
  step?: number;
  trained?: GroupBooks["trainedGroups"];
  sampling?: SamplingState;
}

/** What a checkpoint holds of a sampler whose weights change. */
export interface SamplingState {
  /** Changes of weights that matter for the numbers that are not trained. */
  epochs: WeightEpoch[];
  averages: TaskAverages[];
  /** Every number that was issued is below it. */
  issued: number;
}

interface Group extends Candidate {
  draw: GroupDraw;
  worker: number;
  /** Trained reward of each sample that is in. */
  rewards: Map<number, number>;
  /** Bytes and sampled tokens of the samples that are in. */
  bytes: number;
  tokens: number;
  /** Times that its process died while playing it, or that its samples did not arrive. */
  losses: number;
}

/** Losses after which a group is played alone in its process, and after which it is given up: is it what kills them? */
const suspectAfter = 2;
const maxLosses = 4;

export interface Lease {
  draw: GroupDraw;
  /** Samples wanted; fewer than all when a lost worker had delivered some. */
  samples: number[];
}

export interface Batch {
  /** Groups to train, in ascending number. */
  groups: number[];
  /** Groups of equal rewards that are used up beside them. */
  spares: number[];
  /** Groups that are thrown away, since no later step may train them. */
  dropped: number[];
}

interface Choice {
  chosen: Group[];
  spares: Group[];
  dropped: Group[];
}

export class Coordinator {
  readonly #options: CoordinatorOptions;
  readonly #trained: UsedNumbers;
  readonly #groups = new Map<number, Group>();
  readonly #adaptive: AdaptiveWeights | null;
  /** Groups to issue again, before new numbers. */
  #requeued: number[] = [];
  /** [tasks] groups given up beyond those that were played to their end since. */
  readonly #givenUp: number[];
  #next = 0;
  /** Every number issued so far, also by the run that this one resumes, is below it. */
  #issued: number;
  #step: number;
  #training: Batch | null = null;
  #dropped = { groups: 0, tokens: 0 };

  constructor(options: CoordinatorOptions) {
    const { sampler, adaptive, sampling } = options;
    this.#options = options;
    this.#trained = new UsedNumbers(options.trained);
    this.#step = options.step ?? 0;
    this.#issued = sampling?.issued ?? 0;
    this.#givenUp = sampler.tasks.map(() => 0);
    const base = sampler.tasks.map((task) => task.weight);
    this.#adaptive = adaptive === undefined ? null : new AdaptiveWeights(base, adaptive, sampling?.averages);
    for (const epoch of sampling?.epochs ?? []) sampler.reweigh(epoch);
  }

  /** Weight version = training steps done. */
  get version(): number {
    return this.#step;
  }

  get finished(): boolean {
    return this.#step >= this.#options.steps;
  }

  /** What was thrown away as too old: groups, and the sampled tokens of those of their samples that were in. */
  get dropped(): { groups: number; tokens: number } {
    return { ...this.#dropped };
  }

  /** Used up: in a batch, as a spare beside one, given up, or thrown away. */
  get trainedGroups(): UsedNumbers {
    return this.#trained;
  }

  get inFlight(): number {
    return this.#groups.size;
  }

  /** Bytes of the samples that are in and not trained. */
  get bufferBytes(): number {
    return [...this.#groups.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** [tasks] share of each task in the groups that are issued next. */
  get shares(): number[] {
    return this.#options.sampler.shares;
  }

  /** For a checkpoint that is written now, or after the batch in progress; undefined where weights never change. */
  get sampling(): SamplingState | undefined {
    if (this.#adaptive === null) return undefined;
    let oldest = this.#next;
    for (const number of this.#groups.keys()) oldest = Math.min(oldest, number);
    const averages = this.#adaptive.averages.map((one) => one && { ...one });
    return { epochs: this.#options.sampler.epochs(oldest), averages, issued: this.#issued };
  }

  /** Up to `capacity` groups for a worker that has room; empty when pacing or the buffer's bound holds it back. */
  lease(worker: number, capacity: number): Lease[] {
    const { groupSize, groupsPerStep, maxLag, steps } = this.#options;
    const leases: Lease[] = [];
    const limit = Math.min((this.#step + 1 + maxLag) * groupsPerStep, steps * groupsPerStep);
    const playing = this.#playedBy(worker);
    if (playing.some(isSuspect)) return [];
    while (leases.length < capacity) {
      const again = this.#requeued[0];
      if (again !== undefined) {
        const group = this.#groups.get(again)!;
        if (isSuspect(group) && (playing.length > 0 || leases.length > 0)) break;
        this.#requeued.shift();
        group.worker = worker;
        // Samples that survive from before the loss keep the group's age.
        if (group.rewards.size === 0) group.startVersion = this.#step;
        const samples = range(groupSize).filter((sample) => !group.rewards.has(sample));
        leases.push({ draw: group.draw, samples });
        if (isSuspect(group)) break;
        continue;
      }
      const placed = this.#groups.size - this.#spares().length - (this.#training?.spares.length ?? 0);
      if (this.#step * groupsPerStep + placed >= limit) break;
      if (placed >= groupsPerStep && this.#bufferIsFull()) break;
      this.#next = this.#trained.nextUnused(this.#next);
      const draw = this.#options.sampler.draw(this.#next++);
      this.#issued = Math.max(this.#issued, this.#next);
      const { group, task } = draw;
      const begun = { group, task, draw, worker, startVersion: this.#step, complete: false, silent: false };
      this.#groups.set(group, { ...begun, rewards: new Map(), bytes: 0, tokens: 0, losses: 0 });
      leases.push({ draw, samples: range(groupSize) });
    }
    return leases;
  }

  /**
   * A sample reached the learner. Repeats (a worker died after delivering) and strangers are ignored.
   * @param reward what it is trained on.
   * @param tokens sampled ones.
   * @returns the worker that the group was last given to; null for what is ignored; "late" for a sample from before the group
   * was begun anew, which the learner is to discard.
   */
  received(
    groupNumber: number,
    sample: number,
    reward: number,
    { bytes = 0, tokens = 0, oldestVersion = null }: Partial<RecordSize> = {},
  ): number | "late" | null {
    const group = this.#groups.get(groupNumber);
    if (group === undefined || group.rewards.has(sample)) return null;
    if (oldestVersion !== null && oldestVersion < group.startVersion) return "late";
    group.rewards.set(sample, reward);
    group.bytes += bytes;
    group.tokens += tokens;
    if (group.rewards.size < this.#options.groupSize) return group.worker;
    group.complete = true;
    this.#givenUp[group.task] = Math.max(0, this.#givenUp[group.task]! - 1);
    group.silent = [...group.rewards.values()].every((other) => other === reward);
    this.#requeued = this.#requeued.filter((number) => number !== groupNumber);
    return group.worker;
  }

  /**
   * The worker has ended the group, and what it delivered had time to arrive: samples that did not are to be played again.
   * @returns how many those are.
   */
  missing(groupNumber: number, worker: number): number {
    const group = this.#groups.get(groupNumber);
    if (group === undefined || group.complete || group.worker !== worker) return 0;
    if (this.#requeued.includes(groupNumber)) return 0;
    group.losses++;
    this.#requeue([groupNumber]);
    return this.#options.groupSize - group.rewards.size;
  }

  /**
   * The environment failed a sample of the group in every try: the group is used up untrained, and another number is issued
   * in its place.
   * @returns its task, and how many more groups of that task were given up than played to their end since; null for a group
   * that is not in play.
   */
  abandon(groupNumber: number): { task: number; surplus: number } | null {
    const group = this.#groups.get(groupNumber);
    if (group === undefined || group.complete) return null;
    this.#useUp(groupNumber);
    return { task: group.task, surplus: ++this.#givenUp[group.task]! };
  }

  /**
   * A worker died: what it had not delivered is issued again, oldest first. A group that was being played in several deaths
   * is played alone in its process the next times, so that it ends nothing else; if it goes on so, it is `hopeless`.
   * @returns how many groups those are.
   */
  workerLost(worker: number): number {
    const lost = this.#playedBy(worker);
    for (const group of lost) group.losses++;
    this.#requeue(lost.map((group) => group.group));
    return lost.length;
  }

  /** What a worker has been given and not delivered. */
  playedBy(worker: number): GroupDraw[] {
    return this.#playedBy(worker).map(({ draw }) => draw);
  }

  /** Groups that were lost too often, to be given up with `abandon`. */
  get hopeless(): { group: number; task: number; index: number }[] {
    return [...this.#groups.values()]
      .filter(({ complete, losses }) => !complete && losses >= maxLosses)
      .map(({ draw: { group, task, index } }) => ({ group, task, index }));
  }

  /** The next batch, or null while it must wait. One at a time. */
  nextBatch(): Batch | null {
    if (this.#training !== null || this.finished) return null;
    const choice = this.#choose();
    if (choice === null) return null;
    const { chosen, spares, dropped } = choice;
    this.#training = { groups: ascending(chosen), spares: ascending(spares), dropped: ascending(dropped) };
    for (const { group, tokens } of dropped) {
      this.#useUp(group);
      this.#dropped.groups++;
      this.#dropped.tokens += tokens;
    }
    this.#adapt([...chosen, ...spares]);
    return this.#training;
  }

  #choose(): Choice | null {
    const { groupsPerStep: size, maxLag, minShares, overdue } = this.#options;
    const groups = [...this.#groups.values()];
    if (overdue === "wait") {
      const choice = chooseInOrder(groups, { size, mostSpares: this.#mostSpares });
      return choice && { ...choice, dropped: [] };
    }
    const spares = this.#spares();
    const candidates = groups.filter((group) => !spares.includes(group));
    const quotas = minShares === undefined ? [] : shareQuotas(minShares, size, this.#step);
    const options = { step: this.#step, size, maxLag, quotas };
    if (overdue === "drop") {
      const choice = chooseDropping(candidates, options);
      return (
        choice && { chosen: choice.chosen, spares, dropped: choice.dropped.filter((group) => this.#isBegun(group)) }
      );
    }
    const chosen = chooseBatch(candidates, options);
    return chosen && { chosen, spares, dropped: [] };
  }

  /** What a lost worker left nothing of is begun anew, by the weights of then. */
  #isBegun({ group, rewards }: Group): boolean {
    return rewards.size > 0 || !this.#requeued.includes(group);
  }

  /** Groups that are not complete, oldest first; for the watchdog's message. */
  incomplete(): number[] {
    return [...this.#groups.values()]
      .filter((group) => !group.complete)
      .sort(byAge)
      .map((group) => group.group);
  }

  trained(groups: readonly number[]): void {
    if (this.#training === null || groups.length !== this.#training.groups.length) {
      throw new AgentRLError("PIPELINE", "A batch was reported trained that was not asked for", {
        where: "coordinator",
        got: groups,
        expected: JSON.stringify(this.#training),
      });
    }
    for (const group of [...groups, ...this.#training.spares]) {
      this.#groups.delete(group);
      this.#trained.add(group);
    }
    this.#training = null;
    this.#step++;
  }

  /** It is in play no more, and its number is not issued again. */
  #useUp(groupNumber: number): void {
    this.#groups.delete(groupNumber);
    this.#trained.add(groupNumber);
    this.#requeued = this.#requeued.filter((number) => number !== groupNumber);
  }

  get #mostSpares(): number {
    const { groupsPerStep, maxFactor = 1 } = this.#options;
    return Math.floor((maxFactor - 1) * groupsPerStep + 1e-9);
  }

  #playedBy(worker: number): Group[] {
    return [...this.#groups.values()].filter(
      (group) => group.worker === worker && !group.complete && !this.#requeued.includes(group.group),
    );
  }

  #requeue(numbers: readonly number[]): void {
    this.#requeued = [...this.#requeued, ...numbers].sort((a, b) => a - b);
  }

  /** What is being played counts with the most that it can come to. */
  #bufferIsFull(): boolean {
    const { buffer, groupSize } = this.#options;
    if (buffer === undefined) return false;
    const { maxBytes, largestEpisode } = buffer;
    let due = groupSize;
    for (const { rewards } of this.#groups.values()) due += groupSize - rewards.size;
    return this.bufferBytes + due * largestEpisode > maxBytes;
  }

  /** Groups without a signal that take no place, of those that no batch has yet. */
  #spares(): Group[] {
    const most = this.#mostSpares;
    if (most === 0) return [];
    const taken = new Set([...(this.#training?.groups ?? []), ...(this.#training?.spares ?? [])]);
    return [...this.#groups.values()]
      .filter((group) => group.silent && !taken.has(group.group))
      .sort(byAge)
      .slice(0, most);
  }

  /** Learns from the groups that a batch uses up, in an order that does not depend on timing. */
  #adapt(groups: readonly Group[]): void {
    if (this.#adaptive === null) return;
    for (const { task, rewards } of [...groups].sort((a, b) => a.group - b.group)) {
      const inOrder = [...rewards].sort(([a], [b]) => a - b).map(([, reward]) => reward);
      this.#adaptive.observe(task, inOrder.reduce((sum, reward) => sum + reward, 0) / inOrder.length);
    }
    this.#options.sampler.reweigh([this.#issued, this.#adaptive.weights()]);
  }
}

function isSuspect({ losses }: Group): boolean {
  return losses >= suspectAfter;
}

function ascending(groups: readonly Group[]): number[] {
  return groups.map((group) => group.group).sort((a, b) => a - b);
}

function range(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}
