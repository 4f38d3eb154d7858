/**
 * Minimum shares of a batch in whole groups: of a task with share m, a batch of n groups gets ⌊m n⌋ or ⌈m n⌉, and over the
 * steps m n on average. The rounding is a pure function of the step, so a resumed run goes on as it would have:
 *
 *     q_i(s) = ⌊m_i n⌋ + 1 where ⌊(s + 1) f_i + o_i⌋ > ⌊s f_i + o_i⌋,   f_i: the fraction of m_i n, o_i = i / tasks
 *
 * The offsets o_i spread the tasks' extra groups over the steps; where they fall together nevertheless, and the batch has no
 * room for all, the tasks give way by turns.
 */
export function shareQuotas(shares: readonly number[], groupsPerStep: number, step: number): number[] {
  const exact = shares.map((share) => share * groupsPerStep);
  // 0.3 · 10 is a hair above 3 in binary: what is left of it is no fraction.
  const quotas = exact.map((value) => Math.floor(value + 1e-9));
  let room = groupsPerStep - quotas.reduce((sum, quota) => sum + quota, 0);
  for (let turn = 0; turn < shares.length; turn++) {
    const i = (step + turn) % shares.length;
    const fraction = Math.max(0, exact[i]! - quotas[i]!);
    const offset = i / shares.length;
    const due = Math.floor((step + 1) * fraction + offset) > Math.floor(step * fraction + offset);
    if (!due || room === 0) continue;
    quotas[i]!++;
    room--;
  }
  return quotas;
}
