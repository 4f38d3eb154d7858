/** How tokens are drawn. The random number of a token is a pure function of (run seed, group, sample, position). */
export interface Sampling {
  /** 0 = greedy. */
  temperature: number;
  /** Keep the k most likely; 0 = off. */
  topK: number;
  /** Nucleus mass; 1 = off. */
  topP: number;
  /** Relative floor; 0 = off. */
  minP: number;
}

/** Philox counter words 1 and 2 and the key; word 0 is the token's position. */
export interface SeedWords {
  group: number;
  sample: number;
  key: number;
}

export const greedy: Sampling = { temperature: 0, topK: 0, topP: 1, minP: 0 };
