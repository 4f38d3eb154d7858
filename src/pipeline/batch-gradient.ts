/**
 * The gradient of a batch: advantages, then every micro-batch forward, through the method's loss, and backward. The
 * learner's step and `agentrl replay` compute it here alike.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { TrainConfig } from "../config/train.ts";
import type { Device } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import { loadFolder } from "../model/load.ts";
import { TrainPass } from "../model/train-pass.ts";
import { allocateGradients, type GradientArena } from "../model/trained.ts";
import { ValueHead } from "../model/value-head.ts";
import type { ComputeWeights } from "../model/weights.ts";
import type { Advantages, Sample } from "../rl/advantages/estimator.ts";
import {
  forEachScored,
  gatherScored,
  type MicroBatch,
  type Packed,
  packMicroBatches,
  scoredOffsets,
} from "../rl/batch.ts";
import { isOverlong, isSilent, selectTrained } from "../rl/filters.ts";
import { ExplainedVariance, type ValueLoss, valueLoss } from "../rl/objectives/value.ts";
import { tokenScales } from "../rl/token-scales.ts";
import { noVersion, type Trajectory } from "../rl/trajectory.ts";
import { type Estimate, type LossPart, type Method, methodOf, type ScoredTokens } from "./method.ts";
import type { SlotModel } from "./slot-weights.ts";
import type { StepMetrics } from "./step-metrics.ts";
import { TaskGradients } from "./task-gradients.ts";
import { TaskSettings } from "./task-settings.ts";
import { passSize } from "./training-options.ts";

/** What a batch's gradient says of itself. */
export type GradientMetrics = Pick<
  StepMetrics,
  | "loss"
  | "entropy"
  | "ratio"
  | "clipFraction"
  | "maskFraction"
  | "kl"
  | "valueLoss"
  | "explainedVariance"
  | "trainedTokens"
  | "zeroVarianceGroups"
  | "overlongEpisodes"
> & {
  /** Each task's share of the gradient, src/pipeline/task-gradients.ts; of tasks that have any. */
  gradientShares: Record<string, number>;
};

/** Advantages of what an estimator judged: all but what has no part in the loss where a critic is asked. */
export interface ComputedGradient {
  metrics: GradientMetrics;
  advantages: Advantages;
}

export class BatchGradient {
  /** Holds the gradient after `compute`. */
  readonly grads: GradientArena;
  /** The critic, where the method has one; holds its own gradient after `compute`. */
  readonly critic: ValueHead | null;
  readonly tasks: TaskSettings;
  readonly #byTask: TaskGradients;
  readonly #config: TrainConfig;
  readonly #method: Method;
  readonly #pass: TrainPass;
  /** The frozen weights that a KL penalty compares with. */
  readonly #reference: ComputeWeights | null;

  /** @param taskNames [config.tasks] what the environments call themselves; default: as the config does. */
  constructor(device: Device, model: SlotModel, config: TrainConfig, taskNames?: readonly string[]) {
    this.#config = config;
    this.tasks = new TaskSettings(config, taskNames);
    this.#method = methodOf(config.algorithm);
    const size = passSize(config);
    this.critic = this.#method.needsCritic
      ? new ValueHead(device, model.config, { maxScored: size.maxScored, trunk: trunkShare(config.algorithm.critic) })
      : null;
    this.#pass = new TrainPass(device, model.config, size, this.critic);
    this.grads = allocateGradients(device, model, "gradients");
    const several = config.tasks.length > 1;
    const part = several ? allocateGradients(device, model, "gradient of one task") : null;
    this.#byTask = new TaskGradients(device, this.grads, part);
    // The model that the run began with, also after a resume: adapters begin as nothing.
    const initial = () => model.base ?? loadFolder(device, config.model.path, "reference");
    this.#reference = this.#method.needsReference ? initial() : null;
  }

  /**
   * @param weights Those that are trained, of version `version`.
   * @throws AgentRLError "NOT_FINITE" naming the token where the loss is not a finite number.
   */
  async compute(weights: ComputeWeights, groups: Trajectory[][], version: number): Promise<ComputedGradient> {
    const { lossMean, filters } = this.#config.algorithm;
    const trajectories = groups.flat();
    const overlong = new Set(filters.overlong === "mask" ? trajectories.filter(isOverlong) : []);
    const weightOf = (one: Trajectory) => this.tasks.lossWeightOf(one);
    const trainable = trajectories.filter((one) => !overlong.has(one) && weightOf(one) > 0);
    const judged = this.critic === null ? groups : groupsWithin(groups, new Set(trainable));
    const samples = judged.map((group) =>
      group.map((trajectory): Sample => ({ trajectory, reward: this.tasks.rewardOf(trajectory) })),
    );
    const asked = judged.flat();
    const values = this.critic === null ? null : await this.#values(weights, asked);
    const estimate = this.tasks.estimate(this.#method, samples, values);
    const { trainsSilent } = this.#method;
    const { zeroVariance } = filters;
    const { active, counted } = selectTrained(trainable, estimate.advantages, { trainsSilent, zeroVariance });
    const scales = tokenScales(counted, lossMean, this.#config.rollout.contextLimit, weightOf);

    this.critic?.zeroGradients();
    const explained = new ExplainedVariance();
    const sums = { loss: 0, clipped: 0, masked: 0, ratio: 0, entropy: 0, kl: 0, value: 0, tokens: 0 };
    const gradientShares = await this.#byTask.compute(active, async (ofTask, into) => {
      for (const micro of packMicroBatches(ofTask, passSize(this.#config))) {
        const reference = await this.#referenceLogProbs(micro);
        const { logProbs, entropies, values } = await this.#pass.forward(weights, micro.batch);
        const recorded = gather(micro.items, estimate, scales);
        const tokens = { logProbs, entropies, ...recorded, ...(reference && { reference }) };
        const out = this.#method.loss(tokens, version);
        assertFinite(micro.items, tokens, out);
        const critic = this.#criticLoss(micro.items, values, estimate, explained);
        await this.#pass.backward(weights, { ...out, ...(critic && { dValues: critic.dValues }) }, into);
        sums.value += critic?.loss ?? 0;
        sums.loss += out.loss;
        sums.clipped += out.clipped;
        sums.masked += out.masked;
        sums.ratio += out.ratioSum;
        sums.entropy += out.entropySum;
        sums.kl += out.klSum;
        sums.tokens += logProbs.length;
        // Episodes that arrived meanwhile are taken off the ring between two micro-batches.
        await nextTurn();
      }
    });
    const mean = (sum: number, none: number) => (sums.tokens > 0 ? sum / sums.tokens : none);
    const metrics: GradientMetrics = {
      loss: sums.loss,
      entropy: mean(sums.entropy, 0),
      ratio: mean(sums.ratio, 1),
      clipFraction: mean(sums.clipped, 0),
      maskFraction: mean(sums.masked, 0),
      kl: this.#reference === null ? null : mean(sums.kl, 0),
      valueLoss: this.critic === null ? null : sums.value,
      explainedVariance: this.critic === null ? null : explained.value,
      trainedTokens: sums.tokens,
      zeroVarianceGroups: judged.filter((group) => group.every((one) => isSilent(one, estimate.advantages))).length,
      overlongEpisodes: overlong.size,
      gradientShares,
    };
    return { metrics, advantages: estimate.advantages };
  }

  /** The critic's word on every state that a token was sampled in, before anything of the batch is trained. */
  async #values(weights: ComputeWeights, trajectories: readonly Trajectory[]): Promise<Map<Trajectory, Float32Array>> {
    const values = new Map(trajectories.map((one) => [one, new Float32Array(one.tokens.length)]));
    for (const { items, batch } of packMicroBatches(trajectories, passSize(this.#config))) {
      const said = (await this.#pass.forward(weights, batch)).values;
      forEachScored(items, (trajectory, i, at) => {
        values.get(trajectory)![i] = said[at]!;
      });
      await nextTurn();
    }
    return values;
  }

  #criticLoss(
    items: readonly Packed[],
    values: Float32Array,
    { returns, valueScales }: Estimate,
    explained: ExplainedVariance,
  ): ValueLoss | null {
    if (returns === undefined || valueScales === undefined) return null;
    const targets = gatherScored(items, (trajectory, i) => returns.get(trajectory)![i]!);
    const shares = gatherScored(items, (trajectory, i) => valueScales.get(trajectory)![i]!);
    const out = valueLoss(values, targets, shares);
    if (!Number.isFinite(out.loss)) {
      throw new AgentRLError("NOT_FINITE", "The critic's loss is not finite; the weights were left as they were.", {
        where: `groups ${[...new Set(items.map((item) => item.trajectory.group))].join(", ")}`,
        got: `loss ${out.loss}`,
        expected: "a finite number",
        hint: "Lower algorithm.critic.lr, or look for a reward that is out of proportion.",
      });
    }
    explained.add(values, targets, shares);
    return out;
  }

  /** [n] log-probabilities of the batch's targets under the reference; undefined without one. */
  async #referenceLogProbs({ batch }: MicroBatch): Promise<Float32Array | undefined> {
    if (this.#reference === null) return undefined;
    const { logProbs } = await this.#pass.forward(this.#reference, batch);
    // The pass writes the next result where this one is.
    return logProbs.slice();
  }
}

/** What the record and the estimator say of a micro-batch's scored tokens. */
function gather(
  items: readonly Packed[],
  { advantages }: Estimate,
  scales: ReadonlyMap<Trajectory, number>,
): Omit<ScoredTokens, "logProbs" | "entropies" | "reference"> {
  return {
    behaviour: gatherScored(items, (trajectory, i) => trajectory.logProbs[i]!),
    keptMass: gatherScored(items, (trajectory, i) => trajectory.keptMass[i]!),
    advantages: gatherScored(items, (trajectory, i) => advantages.get(trajectory)![i]!),
    scales: gatherScored(items, (trajectory) => scales.get(trajectory)!),
    versions: gatherScored(items, versionOf),
    offsets: scoredOffsets(items),
  };
}

/** What no version of the run sampled counts as older than all of them. */
function versionOf({ version }: Trajectory, i: number): number {
  return version[i] === noVersion ? Number.NEGATIVE_INFINITY : version[i]!;
}

/** What a critic judges: those that are left out of its loss need no baseline either. */
function groupsWithin(groups: Trajectory[][], within: ReadonlySet<Trajectory>): Trajectory[][] {
  return groups.map((group) => group.filter((one) => within.has(one))).filter((group) => group.length > 0);
}

function trunkShare({ trunk, coefficient }: TrainConfig["algorithm"]["critic"]): number {
  return trunk === "shared" ? coefficient : 0;
}

function assertFinite(items: readonly Packed[], tokens: ScoredTokens, { loss, dLogProbs, dEntropies }: LossPart): void {
  const bad = dLogProbs.findIndex((slope, t) => !Number.isFinite(slope) || !Number.isFinite(dEntropies[t]!));
  if (bad < 0 && Number.isFinite(loss)) return;
  const at = Math.max(bad, 0);
  const trajectories = [...new Set(items.map((item) => item.trajectory))];
  const item = Math.min(
    tokens.offsets.findLastIndex((start) => start <= at),
    trajectories.length - 1,
  );
  const { task, index, group, sample } = trajectories[item]!;
  const { logProbs, behaviour, advantages } = tokens;
  throw new AgentRLError("NOT_FINITE", "The loss is not finite; the weights were left as they were.", {
    where: `${task} ${index}, group ${group}, sample ${sample}, sampled token ${at - tokens.offsets[item]!}`,
    got: `loss ${loss}: log-probability ${logProbs[at]}, recorded ${behaviour[at]}, advantage ${advantages[at]}`,
    expected: "finite numbers",
    hint: "Lower the learning rate, or look for a reward that is out of proportion.",
  });
}
