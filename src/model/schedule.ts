/**
 * The learning rate of each optimizer step: a linear warm-up, then constant, linear decay or a half cosine
 * (Loshchilov & Hutter 2017) down to a floor. A pure function of the step, so that a resumed run needs no state.
 */

export type ScheduleKind = "constant" | "linear" | "cosine";

export interface Schedule {
  kind: ScheduleKind;
  /** Peak learning rate. */
  lr: number;
  /** The first `warmupSteps` steps rise linearly; the step after them has the peak. */
  warmupSteps: number;
  /** Steps of the whole run; a decaying schedule would reach its floor one step later, so that no step is wasted. */
  totalSteps: number;
  /** The floor, as a share of the peak; `constant` never goes there. */
  finalShare: number;
}

/** `step` is 1-based. Steps after `totalSteps` keep the floor. */
export function learningRate(schedule: Schedule, step: number): number {
  const { kind, lr, warmupSteps, totalSteps, finalShare } = schedule;
  if (step <= warmupSteps) return (lr * step) / (warmupSteps + 1);
  if (kind === "constant") return lr;
  const progress = Math.min(1, (step - 1 - warmupSteps) / Math.max(1, totalSteps - warmupSteps));
  const share = kind === "linear" ? 1 - progress : (1 + Math.cos(Math.PI * progress)) / 2;
  return lr * (finalShare + (1 - finalShare) * share);
}
