/** A line of metrics as named numbers: what TensorBoard and Weights & Biases draw. */
import type { RunStep } from "../../pipeline/run-log.ts";

const ofStep = [
  ...["reward", "loss", "entropy", "ratio", "clipFraction", "maskFraction", "kl", "valueLoss", "explainedVariance"],
  ...["gradNorm", "lr", "sampledTokens", "trainedTokens", "zeroVarianceGroups", "spareGroups", "overlongEpisodes"],
  ...["meanLag", "maxLag", "mismatch", "mismatchTokens", "tokensPerSecond", "bufferBytes"],
  ...["abortedTokens", "droppedGroups", "droppedTokens"],
] as const satisfies readonly (keyof RunStep)[];
const ofTask = [
  ...["reward", "success", "episodes", "turns", "sampledTokens", "tokenShare", "gradientShare", "meanLag", "maxLag"],
  ...["parseFailureRate"],
] as const satisfies readonly (keyof RunStep["tasks"][string])[];

/**
 * As in `reward`, `task/kg/reward`, `task/kg/end/turn limit` (a share), `utilisation/learner`, `milliseconds/train`,
 * `faults/lostSamples`. What a run does not measure (null) has no entry; NaN and infinities have.
 */
export function scalarsOf(line: RunStep): Map<string, number> {
  const scalars = new Map<string, number>();
  const set = (name: string, value: unknown) => {
    if (typeof value === "number") scalars.set(name, value);
  };
  for (const name of ofStep) set(name, line[name]);
  for (const [task, metrics] of Object.entries(line.tasks)) {
    for (const name of ofTask) set(`task/${task}/${name}`, metrics[name]);
    for (const [reason, count] of Object.entries(metrics.endReasons)) {
      set(`task/${task}/end/${reason}`, count / metrics.episodes);
    }
    for (const [policy, share] of Object.entries(metrics.policyShare ?? {}))
      set(`task/${task}/policy/${policy}`, share);
  }
  for (const [part, share] of Object.entries(line.utilisation)) set(`utilisation/${part}`, share);
  for (const [part, ms] of Object.entries(line.timings)) set(`milliseconds/${part}`, ms);
  for (const [task, weight] of Object.entries(line.samplingWeights)) set(`task/${task}/samplingWeight`, weight);
  for (const [fault, count] of Object.entries(line.faults)) set(`faults/${fault}`, count);
  return scalars;
}

/** Of a step that was evaluated, as in `heldOut/kg/success`. */
export function evaluationScalars({ evaluation = [] }: Pick<RunStep, "evaluation">): Map<string, number> {
  const scalars = new Map<string, number>();
  for (const { task, success, meanReward } of evaluation) {
    if (success !== null) scalars.set(`heldOut/${task}/success`, success);
    if (meanReward !== null) scalars.set(`heldOut/${task}/reward`, meanReward);
  }
  return scalars;
}
