/** A run that does not fit into memory is refused with the settings with which it would. */
import type { TrainConfig } from "../config/train.ts";
import type { ModelConfig } from "../model/config.ts";
import { assertFitsMemory, formatBytes } from "../model/memory.ts";
import { planRun } from "./plan.ts";

/** One step towards less memory: what to set, and the config with it; undefined when it is taken already. */
type Saving = (config: TrainConfig) => { set: string; config: TrainConfig } | undefined;

/** By what they cost: those that change no number first, then those that change speed, then those that change the method. */
const savings: Saving[] = [
  (config) => {
    if (config.learner.recompute) return undefined;
    return { set: "learner.recompute=true", config: { ...config, learner: { ...config.learner, recompute: true } } };
  },
  (config) => {
    const { microBatchTokens } = config.learner;
    const least = config.rollout.contextLimit;
    if (microBatchTokens <= least) return undefined;
    const learner = { ...config.learner, microBatchTokens: Math.max(least, Math.floor(microBatchTokens / 4)) };
    return { set: `learner.microBatchTokens=${learner.microBatchTokens}`, config: { ...config, learner } };
  },
  (config) => {
    const { maxSequences, groupSize } = config.rollout;
    if (maxSequences <= groupSize) return undefined;
    const rollout = { ...config.rollout, maxSequences: Math.max(groupSize, Math.floor(maxSequences / 4)) };
    return { set: `rollout.maxSequences=${rollout.maxSequences}`, config: { ...config, rollout } };
  },
  (config) => {
    if (config.lora !== undefined) return undefined;
    const lora = { rank: 16, targets: [...allTargets] };
    return { set: "lora.rank=16", config: { ...config, lora } };
  },
  (config) => {
    if (config.lora === undefined || config.device === "webgpu" || config.native.weights !== "f32") return undefined;
    return { set: "native.weights=bf16", config: { ...config, native: { ...config.native, weights: "bf16" } } };
  },
];

const allTargets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const;

/** @throws AgentRLError MEMORY naming the largest parts, and settings that would fit where there are any. */
export function assertRunFits(config: TrainConfig, model: ModelConfig, available: number): void {
  const { memory } = planRun(config, model);
  if (memory.total > available) assertFitsMemory(memory, available, fittingSettings(config, model, available));
}

/** Settings, taken one after the other until the run fits; in words. Undefined when all together are not enough. */
export function fittingSettings(config: TrainConfig, model: ModelConfig, available: number): string | undefined {
  const taken: string[] = [];
  let current = config;
  for (const saving of savings) {
    const next = saving(current);
    if (next === undefined) continue;
    const before = planRun(current, model).memory.total;
    const { total } = planRun(next.config, model).memory;
    if (total >= before) continue;
    taken.push(next.set);
    current = next.config;
    if (total <= available) return `${taken.map((set) => `--set ${set}`).join(" ")} takes ${formatBytes(total)}`;
  }
  return undefined;
}
