/**
 * What an objective is: a pure function from the scored tokens of a micro-batch to their share of the loss and its
 * gradient. Every objective has the form
 *
 *     loss = -Σ_t w_t κ_t c_t f(π_t, π_prox,t, A_t)
 *
 * with w the token's share of the batch (src/rl/token-scales.ts), κ the probability mass that top-k, top-p or min-p kept
 * when it was drawn (the importance weight from the cut distribution to the whole one) and c the correction's weight
 * (src/rl/corrections); all three are constants for the gradient. Each file gives its own f as `formula(options)`, and
 * takes ρ_t = π_t / π_prox,t for the ratio. The shares are fixed before the backward pass and trajectories stay whole,
 * so neither micro-batches nor packing change the gradient.
 */
export interface TokenBatch {
  /** [n] log-probabilities under the weights being trained; trajectories end to end and whole. */
  logProbs: Float32Array;
  /** [n] entropies in nats. */
  entropies: Float32Array;
  /** [n] log-probabilities recorded when the tokens were sampled. */
  behaviour: Float32Array;
  /** [n] κ, the kept mass of each token's draw. */
  keptMass: Float32Array;
  /** [n] log-probabilities of the proximal policy, the ratio's denominator: `behaviour` itself unless decoupled. */
  proximal: Float32Array;
  /** [n] log-probabilities under the frozen reference, where a KL term asks for it. */
  reference?: Float32Array;
  /** [n] A. */
  advantages: Float32Array;
  /** [n] w, fixed before the backward pass. */
  scales: Float32Array;
  /** [n] c, the correction's importance weight or mask; 1 without one. */
  weights: Float32Array;
  /** [s + 1] first token of each trajectory. */
  offsets: Uint32Array;
}

export interface Surrogate {
  /** This part's share of the loss. */
  loss: number;
  /** [n] dLoss/dLogProb. */
  dLogProbs: Float32Array;
  /** Tokens with an advantage whose gradient the objective removed or bounded. */
  clipped: number;
}

export type Objective = (batch: TokenBatch) => Surrogate;

/** Where penalties add their gradient. */
export interface Gradients {
  /** [n] dLoss/dLogProb. */
  dLogProbs: Float32Array;
  /** [n] dLoss/dEntropy. */
  dEntropies: Float32Array;
}

/** A term beside the surrogate: adds its gradient to `into` and returns its share of the loss. */
export type Penalty = (batch: TokenBatch, into: Gradients) => number;
