/** Faults of a run by name, counted: a line of metrics.jsonl says what has gone wrong so far and was put right. */
export const faultNames = [
  /** Tries of a sample that the environment failed, or did not answer in time; or that an endpoint failed. */
  "environmentFaults",
  "environmentTimeouts",
  "endpointFaults",
  /** Tries of a sample that took longer than `recovery.episodeSeconds`. */
  "episodeTimeouts",
  /** Groups given up: their samples failed in every try, or they ended the process that played them, again and again. */
  "abandonedGroups",
  /** Samples played anew since they never reached the learner. */
  "lostSamples",
  /** Copies of a sample that the learner had already, and samples of groups that were trained or given up meanwhile. */
  "duplicateSamples",
  "lateSamples",
  /** Records that failed their checksum or made no sense. */
  "corruptRecords",
  "rolloutRestarts",
  "learnerRestarts",
  /** Processes that were killed since nothing moved in them. */
  "hungProcesses",
  "checkpointFailures",
  /** Times that traces, TensorBoard's file, Weights & Biases or the metrics' port did not take something. */
  "traceFailures",
  "tensorboardFailures",
  "wandbFailures",
  "prometheusFailures",
  /** Times that the whole machine, or this process, stood still: a laptop's sleep, a stopped process. */
  "clockJumps",
] as const;

export type FaultName = (typeof faultNames)[number];
export type FaultCounts = Record<FaultName, number>;

export function noFaults(): FaultCounts {
  return Object.fromEntries(faultNames.map((name) => [name, 0])) as FaultCounts;
}

export function addFaults(to: FaultCounts, more: Partial<FaultCounts>): FaultCounts {
  for (const name of faultNames) to[name] += more[name] ?? 0;
  return to;
}
