/**
 * Which complete groups make a batch, by what is done about groups that take long.
 *
 * `pace` and `drop` have three rules, the first before the second before the third:
 *
 * 1. Deadlines. A group may be trained until `maxLag` versions after it was begun. Earliest deadline first is feasible
 *    exactly when, for every k, the groups due within k further steps fit in them; a batch that would leave an infeasible
 *    rest is not made.
 * 2. Minimum shares. Of task i a batch holds `quotas[i]` groups, or all that there are when they are fewer. Those that are
 *    still being played are waited for: they always complete, so nothing can block.
 * 3. Groups with a signal go before those without, and older ones before younger ones.
 *
 * With `drop` nothing that is still being played counts in them: a batch is made of what is complete, and what the steps
 * after it would find too old is thrown away. With `wait` there is one rule: the next groups in the order of issue.
 */

/** What becomes of a batch that a slow group holds up; see `staleness.overdue`. */
export type Overdue = "pace" | "drop" | "wait";

export interface Candidate {
  group: number;
  /** Position in the list of tasks. */
  task: number;
  /** Version published when it was begun: no token of it is older. */
  startVersion: number;
  complete: boolean;
  /** Complete, and its rewards are all equal. */
  silent: boolean;
}

export interface ChoiceOptions {
  /** Steps done: the version that the batch would train. */
  step: number;
  size: number;
  maxLag: number;
  /** Groups of each task that the batch is to hold; their sum is at most `size`. */
  quotas: readonly number[];
}

/** `size` of the candidates, or null where the batch must wait. */
export function chooseBatch<C extends Candidate>(candidates: readonly C[], options: ChoiceOptions): C[] | null {
  const { size, quotas } = options;
  const complete = candidates.filter((group) => group.complete);
  if (complete.length < size) return null;
  const wanted = quotas.map((quota, task) => Math.min(quota, candidates.filter((group) => group.task === task).length));
  const oldest = [...complete].sort(byAge);
  const speaking = [...complete].sort((a, b) => Number(a.silent) - Number(b.silent) || byAge(a, b));
  if (wanted.some((count, task) => complete.filter((group) => group.task === task).length < count)) return null;
  for (const chosen of [fill(speaking, wanted, size), fill(oldest, wanted, size), oldest.slice(0, size)]) {
    const taken = new Set(chosen);
    if (
      keepsDeadlines(
        candidates.filter((group) => !taken.has(group)),
        options,
      )
    )
      return chosen;
  }
  return null;
}

/** A batch of what is complete, and of the other candidates those that no later step may train. */
export function chooseDropping<C extends Candidate>(
  candidates: readonly C[],
  options: ChoiceOptions,
): { chosen: C[]; dropped: C[] } | null {
  const { step, size, maxLag } = options;
  const complete = candidates.filter((group) => group.complete);
  if (complete.length < size) return null;
  const chosen = chooseBatch(complete, options) ?? [...complete].sort(byAge).slice(0, size);
  const taken = new Set(chosen);
  const dropped = candidates.filter((group) => !taken.has(group) && group.startVersion + maxLag <= step);
  return { chosen, dropped };
}

/**
 * The next groups in the order of issue, once they are complete. Of those without a signal the first `mostSpares` are
 * spares, which take no place.
 */
export function chooseInOrder<C extends Candidate>(
  candidates: readonly C[],
  { size, mostSpares }: { size: number; mostSpares: number },
): { chosen: C[]; spares: C[] } | null {
  const chosen: C[] = [];
  const spares: C[] = [];
  for (const group of [...candidates].sort((a, b) => a.group - b.group)) {
    if (!group.complete) return null;
    if (group.silent && spares.length < mostSpares) spares.push(group);
    else chosen.push(group);
    if (chosen.length === size) return { chosen, spares };
  }
  return null;
}

/** The first groups in order, those that the shares ask for before all others. */
function fill<C extends Candidate>(order: readonly C[], wanted: readonly number[], size: number): C[] {
  const missing = [...wanted];
  const reserved = order.filter(({ task }) => (missing[task] ?? 0) > 0 && missing[task]!-- > 0);
  const taken = new Set(reserved);
  return [...reserved, ...order.filter((group) => !taken.has(group))].slice(0, size);
}

/** Whether groups left for the steps after this one can all be trained in time. */
export function keepsDeadlines(
  left: readonly Candidate[],
  { step, size, maxLag }: Pick<ChoiceOptions, "step" | "size" | "maxLag">,
): boolean {
  return [...left].sort(byAge).every((group, place) => place < (group.startVersion + maxLag - step) * size);
}

export function byAge(a: Candidate, b: Candidate): number {
  return a.startVersion - b.startVersion || a.group - b.group;
}
