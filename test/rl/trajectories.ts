/** Trajectories for tests: shapes and stamps chosen, tokens drawn from a seed. */
import type { Trajectory } from "../../src/rl/trajectory.ts";

export function trajectory(options: {
  /** 1 where sampled. */
  mask: number[];
  vocab?: number;
  group?: number;
  sample?: number;
  version?: number[];
  oldest?: number[];
  reward?: number;
  endReason?: Trajectory["endReason"];
  task?: string;
}): Trajectory {
  const { mask, vocab = 64, group = 0, sample = 0, reward = 0, endReason = "completed", task = "dbbench" } = options;
  const n = mask.length;
  let state = (group * 7919 + sample * 104729 + 1) >>> 0;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return {
    task,
    split: "train",
    index: 3,
    group,
    sample,
    seed: 9,
    tokens: Uint32Array.from({ length: n }, () => Math.floor(next() * vocab)),
    sampled: Uint8Array.from(mask),
    logProbs: Float32Array.from(mask, (flag) => (flag ? -next() * 3 : 0)),
    keptMass: new Float32Array(n).fill(1),
    policy: new Uint8Array(n),
    version: Uint32Array.from(options.version ?? mask.map(() => 0)),
    oldestVersion: Uint32Array.from(options.oldest ?? mask.map(() => 0)),
    temperature: 1,
    turns: [{ start: mask.indexOf(1), end: n, reward, parseFailure: false }],
    reward,
    endReason,
    metrics: { level: 2 },
    timings: { ended: 0, total: 1, environment: 0.5, generation: 0.5 },
  };
}
