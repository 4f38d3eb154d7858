/** The critic's loss, ½ Σ_t u_t (V_t − R_t)² (src/rl/advantages/actor-critic.ts), and what it says of the critic. */

export interface ValueLoss {
  loss: number;
  /** [n] dLoss/dV */
  dValues: Float32Array;
}

/** [n] each: V, R and u of the scored tokens; u is 0 where the critic is not asked. */
export function valueLoss(values: Float32Array, returns: Float32Array, scales: Float32Array): ValueLoss {
  const dValues = new Float32Array(values.length);
  let loss = 0;
  for (let t = 0; t < values.length; t++) {
    const error = values[t]! - returns[t]!;
    dValues[t] = scales[t]! * error;
    loss += 0.5 * scales[t]! * error * error;
  }
  return { loss, dValues };
}

/**
 * 1 − Var(R − V) / Var(R) over the questions asked: 1 for a critic that knows, 0 for one that says the same of every state,
 * less for one that misleads. Accumulates over micro-batches.
 */
export class ExplainedVariance {
  #count = 0;
  #returns = { sum: 0, squares: 0 };
  #errors = { sum: 0, squares: 0 };

  add(values: Float32Array, returns: Float32Array, scales: Float32Array): void {
    for (let t = 0; t < values.length; t++) {
      if (scales[t] === 0) continue;
      const target = returns[t]!;
      const error = target - values[t]!;
      this.#count++;
      this.#returns.sum += target;
      this.#returns.squares += target * target;
      this.#errors.sum += error;
      this.#errors.squares += error * error;
    }
  }

  /** Null where all returns are equal: there is nothing to explain. */
  get value(): number | null {
    const variance = ({ sum, squares }: { sum: number; squares: number }) =>
      squares / this.#count - (sum / this.#count) ** 2;
    const total = variance(this.#returns);
    return total > 1e-12 ? 1 - variance(this.#errors) / total : null;
  }
}
