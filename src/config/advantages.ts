/** The names of the advantage estimators, and what sets kinds of them apart. */

/** Those that need no critic: one task's may differ from the others'. */
export const ownAdvantages = ["grpo", "dr-grpo", "rloo", "reinforce++", "reinforce++-baseline", "gigpo"] as const;
export const advantages = [...ownAdvantages, "gae-turn", "gae-token"] as const;

export type Advantage = (typeof advantages)[number];
export type OwnAdvantage = (typeof ownAdvantages)[number];

/** Compares an episode with a critic's values. */
export function needsCritic(advantage: Advantage): advantage is Exclude<Advantage, OwnAdvantage> {
  return advantage === "gae-turn" || advantage === "gae-token";
}

/** Compares an episode with the others of its group; else with the batch, or with a critic. */
export function needsPeers(advantage: Advantage): boolean {
  return advantage !== "reinforce++" && !needsCritic(advantage);
}

/** A group of equal rewards has a signal as well. */
export function teachesOnEqual(advantage: Advantage): boolean {
  return advantage === "reinforce++" || advantage === "gigpo" || needsCritic(advantage);
}
