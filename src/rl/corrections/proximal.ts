/**
 * The proximal policy of decoupled objectives (Hilton et al. 2021, arXiv 2110.00641): the recent policy that the trust
 * region is drawn around, apart from the older one that sampled. Two ways to its log-probabilities:
 *
 *     recomputed:     π_prox = the policy at the start of the step (AReaL, Fu et al. 2025, arXiv 2505.24298)
 *     interpolated:   log π_prox = (1/d) log μ + (1 - 1/d) log π      (A-3PO, Li et al. 2025, arXiv 2512.06547)
 *
 * d is the token's age, the version being trained less the version that sampled it; at d = 0 the three policies are
 * one, and π_prox = μ. With one update a batch the policy at the start of the step is the one being trained, so
 * "recomputed" is the forward pass's own log-probabilities held constant: every ratio is exactly 1, no clip ever acts,
 * and the importance weight π_prox / μ is all that remains.
 */

/** A copy, so that the denominator stays what it is whatever becomes of the pass's buffer. */
export function recomputed(logProbs: Float32Array): Float32Array {
  return logProbs.slice();
}

/**
 * @param versions [n] the weight version that sampled each token; -Infinity for weights that never were the run's, whose
 * proximal policy is the one being trained.
 * @param current the version being trained, no older than any of them.
 */
export function interpolated(
  logProbs: Float32Array,
  behaviour: Float32Array,
  versions: ArrayLike<number>,
  current: number,
): Float32Array {
  return behaviour.map((recorded, t) => {
    const age = current - versions[t]!;
    return age < 1 ? recorded : recorded + (1 - 1 / age) * (logProbs[t]! - recorded);
  });
}
