/**
 * Which of a batch's trajectories carry loss, and which of them count in its mean:
 *
 * - zero variance. A trajectory whose advantages are all 0 has no gradient. drop: it is left out of M and N as well
 *   (src/rl/token-scales.ts), so the step's size does not depend on how many there are. keep: it counts there, as in GRPO's
 *   original (Shao et al. 2024, arXiv 2402.03300): the fewer groups have a signal, the smaller the step.
 * - overlong. An episode that the length or context limit cut off may have been on its way to success. mask: it carries no
 *   loss (DAPO, Yu et al. 2025, arXiv 2503.14476, §3.4) and is out of the mean, but its reward stays in its group's baseline.
 * - loss weight 0: its task is played and measured only.
 *
 * Defaults: drop, train.
 */
import type { Advantages } from "./advantages/estimator.ts";
import type { Trajectory } from "./trajectory.ts";

export interface Selection {
  /** Those that carry loss. */
  active: Trajectory[];
  /** Those that the loss is a mean over. */
  counted: Trajectory[];
}

export interface SelectionOptions {
  /** An advantage of 0 has a gradient nevertheless: there is a penalty, or a critic. */
  trainsSilent: boolean;
  zeroVariance: "drop" | "keep";
}

/** A limit of length ended it, not the policy or the task. */
export function isOverlong({ endReason }: Pick<Trajectory, "endReason">): boolean {
  return endReason === "length limit" || endReason === "context limit";
}

/** Without any signal: no token of it is pushed up or down. */
export function isSilent(trajectory: Trajectory, advantages: Advantages): boolean {
  return advantages.get(trajectory)!.every((advantage) => advantage === 0);
}

/** @param trainable those that neither the overlong filter nor a loss weight of 0 takes out. */
export function selectTrained(
  trainable: readonly Trajectory[],
  advantages: Advantages,
  { trainsSilent, zeroVariance }: SelectionOptions,
): Selection {
  if (trainsSilent) return { active: [...trainable], counted: [...trainable] };
  const active = trainable.filter((one) => !isSilent(one, advantages));
  return { active, counted: zeroVariance === "keep" ? [...trainable] : active };
}
