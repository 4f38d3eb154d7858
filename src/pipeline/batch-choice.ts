/**
 * Which complete groups make a batch. Three rules, the first before the second before the third:
 *
 * 1. Deadlines. A group may be trained until `maxLag` versions after it was begun. Earliest deadline first is feasible
 *    exactly when, for every k, the groups due within k further steps fit in them; a batch that would leave an infeasible
 *    rest is not made.
 * 2. Minimum shares. Of task i a batch holds `quotas[i]` groups, or all that there are when they are fewer. Those that are
 *    still being played are waited for: they always complete, so nothing can block.
 * 3. Groups with a signal go before those without, and older ones before younger ones.
 */
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
