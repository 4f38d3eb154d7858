/**
 * Task weights that follow what is being learned. From the trained reward r of each of task k's groups:
 *
 *     fast_k ← fast_k + α (r − fast_k)      slow_k ← slow_k + α (fast_k − slow_k)      α = 1 − 2^(−1 / halfLife)
 *
 *     progress:  s_k = |fast_k − slow_k|        absolute learning progress (Portelas et al. 2019, arXiv 1910.07224; with
 *                                               two averages, Kanitscheider et al. 2021, arXiv 2106.14876; the idea:
 *                                               Graves et al. 2017, arXiv 1704.03003)
 *     variance:  s_k = p (1 − p),               p = fast_k within [0, 1]: most where half of the episodes succeed, and a
 *                                               group tells its samples apart
 *
 *     w_k = floor b_k + (1 − floor) b_k s_k / Σ_j b_j s_j        b_k: the config's weight, Σ b = 1
 *
 * The absolute value matters: a task that is being forgotten is practised too. With no signal at all, or while a task has not
 * been seen, w = b. Defaults: floor 0.3, halfLife 16 groups.
 */
export type SamplingSignal = "progress" | "variance";

export interface AdaptiveSamplingOptions {
  signal: SamplingSignal;
  /** Share of the groups that is drawn by the config's weights alone, in (0, 1). */
  floor: number;
  /** Groups of a task. */
  halfLife: number;
}

/** Moving averages of one task; null until it has been seen. */
export type TaskAverages = { fast: number; slow: number } | null;

export class AdaptiveWeights {
  readonly #options: AdaptiveSamplingOptions;
  readonly #base: readonly number[];
  readonly averages: TaskAverages[];

  /** @param base the config's weights, of any sum. @param averages those of a resumed run. */
  constructor(base: readonly number[], options: AdaptiveSamplingOptions, averages?: readonly TaskAverages[]) {
    const sum = base.reduce((total, weight) => total + weight, 0);
    this.#base = base.map((weight) => weight / sum);
    this.#options = options;
    this.averages = averages === undefined ? base.map(() => null) : averages.map((one) => one && { ...one });
  }

  /** @param reward mean trained reward of one group. */
  observe(task: number, reward: number): void {
    const known = this.averages[task];
    if (known === null || known === undefined) {
      this.averages[task] = { fast: reward, slow: reward };
      return;
    }
    const alpha = 1 - 2 ** (-1 / this.#options.halfLife);
    known.fast += alpha * (reward - known.fast);
    known.slow += alpha * (known.fast - known.slow);
  }

  /** [tasks] what to draw by from here on; the sum is 1. */
  weights(): number[] {
    const { signal, floor } = this.#options;
    const shares = this.averages.map(
      (one, task) => this.#base[task]! * (one === null ? Number.NaN : strength(one, signal)),
    );
    const sum = shares.reduce((total, share) => total + share, 0);
    // Also where it is all rounding: shares of a denormal sum do not sum to 1.
    if (!(sum > 1e-12)) return [...this.#base];
    return shares.map((share, task) => floor * this.#base[task]! + ((1 - floor) * share) / sum);
  }
}

function strength({ fast, slow }: { fast: number; slow: number }, signal: SamplingSignal): number {
  if (signal === "progress") return Math.abs(fast - slow);
  const p = Math.min(1, Math.max(0, fast));
  return p * (1 - p);
}
