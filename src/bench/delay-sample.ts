/** The delays of an environment as they come to pass, timers and event loop included. */
import { setTimeout as sleep } from "node:timers/promises";
import { delayed, type Latency } from "../env/delayed.ts";
import { latencyEnvironment } from "./latency-environment.ts";

const batch = 20;

export interface DelaySample {
  draws: number;
  /** Milliseconds. */
  medianMs: number;
  p99Ms: number;
  meanMs: number;
}

/** Starts so many sessions of an environment that does nothing, side by side: takes little longer than the longest delay. */
export async function sampleDelays(latency: Latency, draws: number): Promise<DelaySample> {
  const environment = delayed(latencyEnvironment(0, 1), latency);
  const time = async (index: number) => {
    const asked = performance.now();
    const session = await environment.start("data", index, 1);
    const took = performance.now() - asked;
    await session.close();
    return took;
  };
  const starts: Promise<number>[] = [];
  for (let index = 0; index < draws; index++) {
    starts.push(time(index));
    // Starting all of them at once would hold up the first ones' timers.
    if (index % batch === batch - 1) await sleep(10);
  }
  const times = await Promise.all(starts);
  times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.min(draws - 1, Math.floor(share * draws))]!;
  return { draws, medianMs: at(0.5), p99Ms: at(0.99), meanMs: times.reduce((sum, time) => sum + time, 0) / draws };
}
