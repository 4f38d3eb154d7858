/**
 * The critic: a linear head on the policy's trunk, V(s) = w·h + b, with h the normed hidden state of the row that predicts
 * a token, so the state that the token was sampled in. It starts at 0 and has an optimizer of its own. A detached head
 * learns from the policy's features as they are; a shared trunk gets the gradient of the value loss as well.
 */
import type { Device, Tensor } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "./config.ts";

export interface ValueHeadOptions {
  /** Rows of the largest pass. */
  maxScored: number;
  /** Share of the value loss's gradient that goes on into the trunk; 0: detached. */
  trunk: number;
}

/** Its weights, first and second moments, in the layout of `biasAt`. */
export interface ValueHeadState {
  weights: Float32Array;
  m: Float32Array;
  v: Float32Array;
}

export interface ValueHeadStep {
  lr: number;
  beta1: number;
  beta2: number;
  eps: number;
  /** Of the gradient, from `gradientNorm`. */
  norm: number;
  maxGradNorm: number;
  /** 1-based. */
  step: number;
}

/** Place of the bias behind the weights: where a GPU can bind it by itself (256 bytes). */
function biasAt(hiddenSize: number): number {
  return Math.ceil(hiddenSize / 64) * 64;
}

export class ValueHead {
  readonly #device: Device;
  readonly #dim: number;
  /** Of the weights, with the bias at the end. */
  readonly #length: number;
  readonly #trunk: number;
  readonly #weights: Tensor;
  readonly #grads: Tensor;
  readonly #m: Tensor;
  readonly #v: Tensor;
  /** [maxScored] */
  readonly #values: Tensor;
  readonly #dValues: Tensor;
  readonly #scaled: Tensor;
  readonly #ones: Tensor;

  constructor(device: Device, { hiddenSize }: ModelConfig, { maxScored, trunk }: ValueHeadOptions) {
    const alloc = (length: number, label: string) => device.alloc(length, "f32", `value-head.${label}`);
    this.#device = device;
    this.#dim = hiddenSize;
    this.#length = biasAt(hiddenSize) + 1;
    this.#trunk = trunk;
    this.#weights = alloc(this.#length, "weights");
    this.#grads = alloc(this.#length, "gradients");
    this.#m = alloc(this.#length, "m");
    this.#v = alloc(this.#length, "v");
    this.#values = alloc(maxScored, "values");
    this.#dValues = alloc(maxScored, "dValues");
    this.#scaled = alloc(maxScored, "scaled");
    this.#ones = alloc(maxScored, "ones");
    device.fill(this.#ones, 1);
  }

  /** [rows] values of `hidden` [rows, hiddenSize]. */
  async forward(hidden: Tensor, rows: number): Promise<Float32Array> {
    const { w, b } = this.#parts(this.#weights);
    this.#device.matmul({ layout: "nn", a: hidden, b: w, bias: b, out: this.#values, m: rows, n: 1, k: this.#dim });
    return this.#device.readF32(this.#values, rows);
  }

  /**
   * Adds the gradient of the value loss, given [rows] dLoss/dValue: to the head's own, and its trunk's share to `dHidden`
   * [rows, hiddenSize].
   */
  backward(hidden: Tensor, dValues: Float32Array, dHidden: Tensor, rows: number): void {
    const device = this.#device;
    const { w, b } = this.#parts(this.#grads);
    device.write(this.#dValues, dValues);
    device.matmul({ layout: "tn", a: hidden, b: this.#dValues, out: w, m: this.#dim, n: 1, k: rows, accumulate: true });
    device.matmul({ layout: "tn", a: this.#ones, b: this.#dValues, out: b, m: 1, n: 1, k: rows, accumulate: true });
    if (this.#trunk === 0) return;
    device.write(
      this.#scaled,
      dValues.map((slope) => slope * this.#trunk),
    );
    const weights = this.#parts(this.#weights).w;
    device.matmul({
      layout: "nt",
      a: this.#scaled,
      b: weights,
      out: dHidden,
      m: rows,
      n: this.#dim,
      k: 1,
      accumulate: true,
    });
  }

  zeroGradients(): void {
    this.#device.fill(this.#grads, 0);
  }

  /**
   * Norm of its gradient.
   * @throws AgentRLError NOT_FINITE when it is not finite: no weight should be moved then, neither the policy's.
   */
  async gradientNorm(): Promise<number> {
    const norm = Math.sqrt(await this.#device.sumSquares(this.#grads, this.#length));
    if (Number.isFinite(norm)) return norm;
    throw new AgentRLError("NOT_FINITE", "The critic's gradient is not finite; the weights were left as they were.", {
      where: "value head",
      got: `norm ${norm}`,
      expected: "a finite norm",
      hint: "Lower algorithm.critic.lr, or look for a reward that is out of proportion.",
    });
  }

  /** AdamW on the head's weights, without decay; a gradient of `norm` is clipped to `maxGradNorm` by itself. */
  step({ norm, maxGradNorm, ...options }: ValueHeadStep): void {
    this.#device.adamw({
      param: this.#weights,
      out: this.#weights,
      grad: this.#grads,
      m: this.#m,
      v: this.#v,
      length: this.#length,
      weightDecay: 0,
      gradScale: norm > maxGradNorm ? maxGradNorm / norm : 1,
      ...options,
    });
  }

  /** A copy, in the weights' layout. */
  gradients(): Promise<Float32Array> {
    return this.#device.readF32(this.#grads);
  }

  async state(): Promise<ValueHeadState> {
    const [weights, m, v] = await Promise.all([this.#weights, this.#m, this.#v].map((t) => this.#device.readF32(t)));
    return { weights: weights!, m: m!, v: v! };
  }

  /** @throws AgentRLError CHECKPOINT when the state is another model's. */
  load({ weights, m, v }: ValueHeadState): void {
    const length = this.#length;
    if ([weights, m, v].some((values) => values.length !== length)) {
      throw new AgentRLError("CHECKPOINT", "The critic's state does not belong to this model.", {
        where: "ValueHead.load",
        got: [weights.length, m.length, v.length],
        expected: `${length} elements each`,
      });
    }
    this.#device.write(this.#weights, weights);
    this.#device.write(this.#m, m);
    this.#device.write(this.#v, v);
  }

  destroy(): void {
    const own = [this.#weights, this.#grads, this.#m, this.#v, this.#values, this.#dValues, this.#scaled, this.#ones];
    for (const tensor of own) this.#device.free(tensor);
  }

  #parts(arena: Tensor): { w: Tensor; b: Tensor } {
    return { w: this.#device.view(arena, 0, this.#dim), b: this.#device.view(arena, this.#length - 1, 1) };
  }
}
