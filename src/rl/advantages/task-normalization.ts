/**
 * Task advantage normalisation (AgentRL, arXiv 2510.04206, Eq. 1): every task of a batch gets the same mean and scale, so
 * that none dominates the gradient by its rewards' spread or its episodes' length:
 *
 *     Ã_t = (Â_t − μ_task) / (σ_task + ε)        over all sampled tokens of one task in the batch, ε = 1e-6,
 *
 * with the population standard deviation, on the advantages of any estimator. A group without signal (all advantages
 * 0: equal rewards, under a method that compares within groups) is left out of μ and σ and stays at exactly 0.
 * `paper: true` counts it as the original does, and it gets −μ/σ: a push without evidence.
 */
import { groupBy } from "../../group-by.ts";
import type { Advantages, Estimator, Sample } from "./estimator.ts";
import { normalizeTokens } from "./token-normalization.ts";

export interface TaskNormalizationOptions {
  /** Count groups without signal, as the original does; default no. */
  paper?: boolean;
}

/** The estimator whose advantages are `estimator`'s, normalised by task. */
export function taskNormalization(estimator: Estimator, { paper = false }: TaskNormalizationOptions = {}): Estimator {
  return (groups) => {
    const advantages = estimator(groups);
    const out: Advantages = new Map();
    for (const ofTask of byTask(groups)) {
      const options = { epsilon: 1e-6, silentGroups: paper ? "count" : "keep" } as const;
      for (const entry of normalizeTokens(ofTask, advantages, options)) out.set(...entry);
    }
    return out;
  };
}

/** What is done to the estimator's A. */
export function formula({ paper = false }: TaskNormalizationOptions = {}): string {
  const over = paper ? "sampled tokens" : "sampled tokens of groups whose A is not all 0; those stay at 0";
  return `A    ← (A - mean_task(A)) / (std_task(A) + 1e-6), over ${over}`;
}

/** The samples of a group answer the same task. */
function byTask(groups: readonly (readonly Sample[])[]): Iterable<(readonly Sample[])[]> {
  const played = groups.filter((group) => group.length > 0);
  return groupBy(played, (group) => group[0]!.trajectory.task).values();
}
