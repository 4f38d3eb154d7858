/**
 * AdamW (Loshchilov & Hutter 2019) over the whole arena: two calls of the device's operator, the decayed prefix and
 * the rest. The gradient is clipped by its global norm; a gradient that is not finite stops the step before any weight
 * is touched. Values are read from one arena and may be written to another: that is how a new version goes straight
 * into a free slot of the weight board.
 */
import type { Device, Tensor } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import type { ParameterLayout } from "./parameters.ts";
import type { Arena } from "./weights.ts";

export interface AdamWOptions {
  beta1: number;
  beta2: number;
  eps: number;
  /** Applied to matrices, not to norm weights. */
  weightDecay: number;
}

export interface OptimizerState {
  /** Steps taken. */
  step: number;
  /** First and second moments, in the arena's layout. */
  m: Float32Array;
  v: Float32Array;
}

export interface StepResult {
  /** Global L2 norm of the gradient (after gradScale, before clipping). */
  gradNorm: number;
  clipped: boolean;
  /** What the gradient was multiplied by: gradScale times the clipping factor. */
  scale: number;
}

export class AdamW {
  readonly #device: Device;
  readonly #layout: ParameterLayout;
  readonly #options: AdamWOptions;
  readonly #m: Tensor;
  readonly #v: Tensor;
  #step = 0;

  constructor(device: Device, layout: ParameterLayout, options: AdamWOptions) {
    this.#device = device;
    this.#layout = layout;
    this.#options = options;
    this.#m = device.alloc(this.#layout.length, "f32", "adamw.m");
    this.#v = device.alloc(this.#layout.length, "f32", "adamw.v");
  }

  /**
   * One update. `out` is an arena of the layout's length; it may be `weights.arena`. The gradients are left as they
   * are: zero them before the next batch.
   * @param args.maxGradNorm clip to this norm; Infinity = off.
   * @param args.gradScale multiplies the gradient first; default 1.
   * @throws AgentRLError NOT_FINITE: with nothing changed when the gradient's norm is not finite; with `out` and the moments
   * written when the updated weights are not.
   */
  async step(args: {
    weights: Arena;
    out: Tensor;
    grads: Arena;
    lr: number;
    maxGradNorm: number;
    gradScale?: number;
  }): Promise<StepResult> {
    const { weights, out, grads, lr, maxGradNorm, gradScale = 1 } = args;
    const { length, decayedLength } = this.#layout;
    const gradNorm = Math.sqrt(await this.#device.sumSquares(grads.arena, length)) * Math.abs(gradScale);
    if (!Number.isFinite(gradNorm)) {
      throw new AgentRLError("NOT_FINITE", "The gradient is not finite; the weights were left as they were.", {
        where: `optimizer step ${this.#step + 1}`,
        got: `global norm ${gradNorm}`,
        expected: "a finite norm",
        hint: "Lower the learning rate, or look for a log-probability or advantage of the batch that is not finite.",
      });
    }
    const clipped = gradNorm > maxGradNorm;
    const scale = clipped ? (gradScale * maxGradNorm) / gradNorm : gradScale;

    this.#step++;
    const { weightDecay, ...betas } = this.#options;
    const update = (offset: number, end: number, decay: number): void => {
      const view = (tensor: Tensor): Tensor => this.#device.view(tensor, offset, end - offset);
      this.#device.adamw({
        param: view(weights.arena),
        out: view(out),
        grad: view(grads.arena),
        m: view(this.#m),
        v: view(this.#v),
        length: end - offset,
        lr,
        ...betas,
        weightDecay: decay,
        step: this.#step,
        gradScale: scale,
      });
    };
    update(0, decayedLength, weightDecay);
    update(decayedLength, length, 0);
    const norm = Math.sqrt(await this.#device.sumSquares(out, length));
    if (!Number.isFinite(norm)) {
      this.#step--;
      throw new AgentRLError("NOT_FINITE", "The updated weights are not finite; they are not published.", {
        where: `optimizer step ${this.#step + 1}`,
        got: `norm ${norm} after a gradient of norm ${gradNorm}`,
        expected: "a finite norm",
        hint: "Lower optimizer.lr or optimizer.weightDecay.",
      });
    }
    return { gradNorm, clipped, scale };
  }

  /** A copy, for a checkpoint. */
  async state(): Promise<OptimizerState> {
    return { step: this.#step, m: await this.#device.readF32(this.#m), v: await this.#device.readF32(this.#v) };
  }

  /** @throws AgentRLError CHECKPOINT when the moments are not this model's. */
  load(state: OptimizerState): void {
    const { length } = this.#layout;
    if (state.m.length !== length || state.v.length !== length) {
      throw new AgentRLError("CHECKPOINT", "The optimizer's state does not belong to this model.", {
        where: "AdamW.load",
        got: { m: state.m.length, v: state.v.length },
        expected: `${length} elements each`,
        hint: "Resume with the model config that the checkpoint was written with.",
      });
    }
    this.#step = state.step;
    this.#device.write(this.#m, state.m);
    this.#device.write(this.#v, state.v);
  }

  destroy(): void {
    this.#device.free(this.#m);
    this.#device.free(this.#v);
  }
}
