/**
 * The PPO clipped surrogate (Schulman et al. 2017, Eq. 7), with the two clip ranges apart (DAPO's clip-higher, Yu et
 * al. 2025, arXiv 2503.14476) and an entropy bonus. For a sampled token with recorded log-probability μ (behaviour
 * policy), current log-probability π, advantage A and entropy H, and w_t the token's share of the batch (`tokenScales`):
 *
 *     ρ = exp(π − μ)
 *     loss = Σ_t w_t [ −κ min(ρ A, clip(ρ, 1 − clipLow, 1 + clipHigh) A) − entropyBonus · H ]
 *
 * Both log-probabilities are over the whole vocabulary. κ is the mass that top-k, top-p or min-p kept when the token
 * was drawn: the token came from the cut distribution, μ/κ, so κ is the importance weight from there to the whole one
 * (decoupled from the clip, as in Hilton et al. 2021, arXiv 2110.00641); 1 where nothing was cut. The shares are fixed
 * before the backward pass, so neither micro-batches nor packing change the gradient.
 */
export interface ClipConfig {
  clipLow: number;
  clipHigh: number;
  entropyBonus: number;
}

export interface ObjectiveInput {
  /** [n] log-probabilities under the weights being trained. */
  logProbs: Float32Array;
  /** [n] entropies in nats. */
  entropies: Float32Array;
  /** [n] recorded log-probabilities. */
  behaviour: Float32Array;
  /** [n] κ, the kept mass of each token's draw. */
  keptMass: Float32Array;
  /** [n] */
  advantages: Float32Array;
  /** [n] w. */
  scales: Float32Array;
}

export interface ObjectiveOutput {
  /** This part's share of the loss. */
  loss: number;
  /** [n] dLoss/dLogProb. */
  dLogProbs: Float32Array;
  /** [n] dLoss/dEntropy. */
  dEntropies: Float32Array;
  /** Tokens whose gradient the clip removed. */
  clipped: number;
  /** Σ ρ and Σ H, for the metrics. */
  ratioSum: number;
  entropySum: number;
}

export function clippedSurrogate(input: ObjectiveInput, config: ClipConfig): ObjectiveOutput {
  const { logProbs, entropies, behaviour, keptMass, advantages, scales } = input;
  const n = logProbs.length;
  const dLogProbs = new Float32Array(n);
  const dEntropies = new Float32Array(n);
  let loss = 0;
  let clipped = 0;
  let ratioSum = 0;
  let entropySum = 0;
  for (let t = 0; t < n; t++) {
    const advantage = advantages[t]!;
    const ratio = Math.exp(logProbs[t]! - behaviour[t]!);
    const bounded = Math.min(Math.max(ratio, 1 - config.clipLow), 1 + config.clipHigh);
    // The minimum takes the clipped branch exactly when the clip makes the surrogate smaller; its gradient is 0.
    const isClipped = bounded * advantage < ratio * advantage;
    const weight = scales[t]! * keptMass[t]!;
    loss -= weight * Math.min(ratio * advantage, bounded * advantage);
    loss -= scales[t]! * config.entropyBonus * entropies[t]!;
    if (isClipped) clipped++;
    else dLogProbs[t] = -weight * ratio * advantage;
    dEntropies[t] = -scales[t]! * config.entropyBonus;
    ratioSum += ratio;
    entropySum += entropies[t]!;
  }
  return { loss, dLogProbs, dEntropies, clipped, ratioSum, entropySum };
}
