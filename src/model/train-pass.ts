/**
 * Forward and backward over one packed micro-batch of whole sequences (packed-batch.ts): log-probabilities and
 * entropies of the scored rows out, gradients of all parameters accumulated. The objective stays outside: it sees the
 * two arrays and gives back dLoss/dLogProb and dLoss/dEntropy.
 *
 * Only rows whose hidden state predicts a token of the loss are scored. They alone go through the head, and through
 * everything behind the last layer's attention: nothing else reads the other rows there.
 */
import type { Device, Tensor } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import { allocateBuffers, type BufferPlan, type Buffers, f32, freeBuffers, u32 } from "./buffers.ts";
import type { ModelConfig } from "./config.ts";
import { layerDone } from "./layer-done.ts";
import { checkedLayout, type PackedBatch, sharesPrefixes, type TrainLimits } from "./packed-batch.ts";
import { projectionGradientPlan, projectionPlan } from "./projection-plan.ts";
import {
  type AttentionRows,
  type AttentionTensors,
  type SpreadBuffers,
  sharedAttention,
  sharedAttentionBackward,
  spreadPlan,
  writeSpread,
} from "./shared-attention.ts";
import {
  attentionShape,
  finishLayer,
  headShape,
  normInput,
  normOutput,
  openFeedForward,
  projectKeysValues,
  projectQueries,
  ropeTable,
} from "./transformer.ts";
import { finishLayerBackward, projectionsBackward } from "./transformer-backward.ts";
import type { ValueHead } from "./value-head.ts";
import type { ComputeWeights, Gradients, LayerWeights } from "./weights.ts";

/** The rows of one sequence are distinct, so positions never pass the number of rows. */
export function trainPositions(config: ModelConfig, limits: TrainLimits): number {
  return Math.min(config.maxPositions, limits.maxRows);
}

/** What the forward pass keeps of each layer in any case. */
function layerInputPlan(config: ModelConfig, { maxRows }: TrainLimits) {
  return { input: f32(maxRows * config.hiddenSize) } satisfies Record<string, BufferPlan>;
}

/** What it computes besides; `tailRows` are the rows that go on behind the attention. */
function layerPlan(config: ModelConfig, limits: TrainLimits, layer: number) {
  const { maxRows: rows, maxSpread = rows } = limits;
  const tailRows = layer === config.layers - 1 ? limits.maxScored : rows;
  const { hiddenSize, intermediateSize, heads, kvHeads, headDim } = config;
  return {
    q: f32(rows * heads * headDim),
    k: f32(rows * kvHeads * headDim),
    v: f32(rows * kvHeads * headDim),
    attended: f32(rows * heads * headDim),
    lse: f32(maxSpread * heads),
    middle: f32(tailRows * hiddenSize),
    gate: f32(tailRows * intermediateSize),
    up: f32(tailRows * intermediateSize),
  } satisfies Record<string, BufferPlan>;
}

/** Of all layers: `kept` [layers] of each its own, `computed` of each its own or, where it is computed again, one for all. */
export function trainLayerPlans(config: ModelConfig, limits: TrainLimits) {
  const own = limits.recompute ? 1 : config.layers;
  return {
    kept: Array.from({ length: config.layers }, () => layerInputPlan(config, limits)),
    computed: Array.from({ length: own }, (_, layer) => layerPlan(config, limits, layer)),
  };
}

/** What the layers share. */
export function trainSharedPlan(config: ModelConfig, limits: TrainLimits) {
  const { maxRows, maxScored, maxSpread = maxRows } = limits;
  const { hiddenSize, intermediateSize, heads, kvHeads, headDim } = config;
  return {
    cosSin: f32(trainPositions(config, { maxRows, maxScored }) * headDim),
    tokens: u32(maxRows),
    positions: u32(maxRows),
    offsets: u32(maxSpread + 1),
    scoredRows: u32(maxScored),
    targets: u32(maxScored),
    temperatures: f32(maxScored),

    normed: f32(maxRows * hiddenSize),
    invRms: f32(maxRows),
    activated: f32(maxRows * intermediateSize),
    scoredInput: f32(maxScored * hiddenSize),
    scoredAttended: f32(maxScored * heads * headDim),
    output: f32(maxScored * hiddenSize),
    hidden: f32(maxScored * hiddenSize),
    outputInvRms: f32(maxScored),
    logProbs: f32(maxScored),
    entropies: f32(maxScored),
    headLse: f32(maxScored),

    dLogProbs: f32(maxScored),
    dEntropies: f32(maxScored),
    dHidden: f32(maxScored * hiddenSize),
    dScored: f32(maxScored * hiddenSize),
    dScoredAttended: f32(maxScored * heads * headDim),
    dResidual: f32(maxRows * hiddenSize),
    dNormed: f32(maxRows * hiddenSize),
    dActivated: f32(maxRows * intermediateSize),
    dUp: f32(maxRows * intermediateSize),
    dAttended: f32(maxRows * heads * headDim),
    dQ: f32(maxRows * heads * headDim),
    dK: f32(maxRows * kvHeads * headDim),
    dV: f32(maxRows * kvHeads * headDim),
    ...projectionPlan(config, limits),
    ...projectionGradientPlan(config, limits),
  } satisfies Record<string, BufferPlan>;
}

/** What shared prefixes take besides, where the limits allow them. */
export function trainSpreadPlan(config: ModelConfig, limits: TrainLimits) {
  const { maxRows, maxSpread = maxRows } = limits;
  return sharesPrefixes(limits) ? spreadPlan(config, { maxRows, maxSpread }) : null;
}

/** Of the loss, by what the forward pass gave: [scored] each. */
export interface Derivatives {
  dLogProbs: Float32Array;
  dEntropies: Float32Array;
  /** For a pass with a value head; absent: the head gets no gradient. */
  dValues?: Float32Array;
}

type LayerBuffers = Buffers<ReturnType<typeof layerInputPlan> & ReturnType<typeof layerPlan>>;
type SharedBuffers = Buffers<ReturnType<typeof trainSharedPlan>>;

export class TrainPass {
  readonly #device: Device;
  readonly #config: ModelConfig;
  readonly #limits: TrainLimits;
  readonly #layers: LayerBuffers[];
  /** Each buffer of `#layers` once. */
  readonly #owned: Buffers<Record<string, BufferPlan>>[];
  readonly #shared: SharedBuffers;
  readonly #spread: SpreadBuffers | null;
  readonly #valueHead: ValueHead | null;
  /** Sizes of the forward pass whose activations are held; undefined when there is none to go back through. */
  #pending: (AttentionRows & { scored: number }) | undefined;

  /** With a `valueHead`, which stays the caller's, passes give values as well. */
  constructor(device: Device, config: ModelConfig, limits: TrainLimits, valueHead: ValueHead | null = null) {
    const { maxRows, maxScored, maxSpread = maxRows } = limits;
    if (!(maxScored >= 1 && maxScored <= maxRows && maxRows <= maxSpread)) {
      throw new AgentRLError("PIPELINE", "The limits of a training pass do not fit together.", {
        where: "TrainPass",
        got: limits,
        expected: "1 <= maxScored <= maxRows <= maxSpread",
      });
    }
    this.#device = device;
    this.#config = config;
    this.#limits = limits;
    this.#valueHead = valueHead;
    this.#shared = allocateBuffers(device, trainSharedPlan(config, limits), "train");
    const spread = trainSpreadPlan(config, limits);
    this.#spread = spread && allocateBuffers(device, spread, "train.spread");
    const plans = trainLayerPlans(config, limits);
    const kept = plans.kept.map((plan, layer) => allocateBuffers(device, plan, `train.layer${layer}`));
    const computed = plans.computed.map((plan, layer) => allocateBuffers(device, plan, `train.layer${layer}`));
    this.#layers = kept.map((input, layer) => ({ ...input, ...(computed[layer] ?? computed[0]!) }));
    this.#owned = [...kept, ...computed];
    device.write(this.#shared.cosSin, ropeTable(config, trainPositions(config, limits)));
    if (this.#shared.ones !== undefined) device.fill(this.#shared.ones, 1);
  }

  /**
   * Log-probability of each target (log-softmax over the whole vocabulary at its temperature), entropy in nats, and the
   * value head's value, [scored] each; no values without a head. Drops the activations of an earlier forward pass.
   * @throws AgentRLError PIPELINE when the batch is malformed or over the limits.
   */
  async forward(
    weights: ComputeWeights,
    batch: PackedBatch,
  ): Promise<{ logProbs: Float32Array; entropies: Float32Array; values: Float32Array }> {
    const device = this.#device;
    const config = this.#config;
    const shared = this.#shared;
    const layout = checkedLayout(config, this.#limits, batch);
    const rows = batch.tokens.length;
    const spread = batch.source?.length ?? rows;
    const scored = batch.scoredRows.length;
    const pending = { rows, spread, sequences: batch.offsets.length - 1, offsets: shared.offsets, scored };
    this.#pending = pending;
    const none = new Float32Array(0);
    if (scored === 0) return { logProbs: none, entropies: none, values: none };

    device.write(shared.tokens, batch.tokens);
    device.write(shared.positions, layout.positions);
    device.write(shared.offsets, batch.offsets);
    device.write(shared.scoredRows, batch.scoredRows);
    device.write(shared.targets, batch.targets);
    device.write(shared.temperatures, batch.temperatures);
    if (spread > rows) writeSpread(device, this.#spread!, batch.source!, layout);

    const { hiddenSize: dim, vocabSize: vocab, heads, headDim } = config;
    const { normed, invRms, activated, scoredRows: index, lowRank } = shared;
    device.embed({ table: weights.embedding, ids: shared.tokens, out: this.#layers[0]!.input, rows, dim, vocab });
    for (const [i, buffers] of this.#layers.entries()) {
      const layer = weights.layers[i]!;
      const { input: residual, attended, middle, gate, up } = buffers;
      this.#attend(layer, buffers, pending);
      const feedForward = { normed, invRms, gate, up, activated, ...(lowRank && { lowRank }) };
      const next = this.#layers[i + 1];
      if (next !== undefined) {
        finishLayer(device, config, layer, { residual, attended, middle, out: next.input, rows }, feedForward);
        await layerDone();
        continue;
      }
      const { scoredInput, scoredAttended, output: out } = shared;
      device.gatherRows({ x: residual, index, out: scoredInput, rows: scored, dim });
      device.gatherRows({ x: attended, index, out: scoredAttended, rows: scored, dim: heads * headDim });
      const io = { residual: scoredInput, attended: scoredAttended, middle, out, rows: scored };
      finishLayer(device, config, layer, io, feedForward);
    }
    const { output, hidden, outputInvRms, targets, temperatures, logProbs, entropies, headLse } = shared;
    normOutput(device, config, weights, { residual: output, hidden, invRms: outputInvRms, rows: scored });
    const head = headShape(config, weights, hidden, scored);
    device.headLogProb({ ...head, targets, temperatures, logProbs, entropies, lse: headLse });
    const read = await Promise.all([
      device.readF32(logProbs, scored),
      device.readF32(entropies, scored),
      this.#valueHead?.forward(hidden, scored) ?? none,
    ]);
    return { logProbs: read[0], entropies: read[1], values: read[2] };
  }

  /**
   * Adds the gradient of the loss to `grads`, given the loss's derivatives by the last forward pass's outputs, [scored]
   * each. `weights` must be those of that forward pass.
   * @throws AgentRLError PIPELINE without a forward pass to go back through, or when lengths differ.
   */
  async backward(weights: ComputeWeights, derivatives: Derivatives, grads: Gradients): Promise<void> {
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) {
      throw new AgentRLError("PIPELINE", "A backward pass has no forward pass to go back through.", {
        where: "TrainPass.backward",
        expected: "one forward call before each backward call",
      });
    }
    const { rows, scored } = pending;
    const { dLogProbs, dEntropies, dValues } = derivatives;
    if ([dLogProbs, dEntropies, dValues].some((slopes) => slopes !== undefined && slopes.length !== scored)) {
      throw new AgentRLError("PIPELINE", "The loss's derivatives do not fit the forward pass.", {
        where: "TrainPass.backward",
        got: { dLogProbs: dLogProbs.length, dEntropies: dEntropies.length, dValues: dValues?.length },
        expected: `${scored} of each, one for a scored row`,
      });
    }
    if (scored === 0) return;

    const device = this.#device;
    const config = this.#config;
    const shared = this.#shared;
    const { hiddenSize: dim, vocabSize: vocab, heads, headDim } = config;
    const rotation = { cosSin: shared.cosSin, positions: shared.positions };
    const { scoredRows: index, dResidual, dAttended, dQ, dK, dV } = shared;

    this.#headBackward(weights, derivatives, grads, scored);
    for (let i = config.layers - 1; i >= 0; i--) {
      const layer = weights.layers[i]!;
      const layerGrads = grads.layers[i]!;
      const { input: residual, attended, middle, gate, up } = this.#layers[i]!;
      if (i < config.layers - 1) {
        if (this.#limits.recompute) this.#computeAgain(layer, this.#layers[i]!, pending);
        const io = { attended, middle, gate, up, dResidual, dAttended, rows };
        finishLayerBackward(device, config, layer, layerGrads, io, shared);
      } else {
        const { scoredAttended, dScored, dScoredAttended } = shared;
        const tail = { attended: scoredAttended, dResidual: dScored, dAttended: dScoredAttended, rows: scored };
        finishLayerBackward(device, config, layer, layerGrads, { middle, gate, up, ...tail }, shared);
        device.fill(device.view(dResidual, 0, rows * dim), 0);
        device.fill(device.view(dAttended, 0, rows * heads * headDim), 0);
        device.scatterRows({ x: dScored, index, out: dResidual, rows: scored, dim });
        device.scatterRows({ x: dScoredAttended, index, out: dAttended, rows: scored, dim: heads * headDim });
      }
      this.#attentionBackward(this.#layers[i]!, pending);
      projectionsBackward(
        device,
        config,
        layer,
        layerGrads,
        { residual, dQ, dK, dV, dResidual, rows },
        rotation,
        shared,
      );
      await layerDone();
    }
    const { embedding: dTable } = grads;
    if (dTable !== undefined) device.embedBackward({ ids: shared.tokens, dOut: dResidual, dTable, rows, dim, vocab });
  }

  /** A layer from its input up to `attended`. */
  #attend(weights: LayerWeights, buffers: LayerBuffers, batch: AttentionRows): void {
    const device = this.#device;
    const config = this.#config;
    const { rows } = batch;
    const { normed, invRms, positions, cosSin } = this.#shared;
    const { input: residual, q, k, v } = buffers;
    const rotation = { cosSin, positions };
    normInput(device, config, weights, { residual, normed, invRms, rows });
    projectKeysValues(device, config, weights, { normed, k, v, rows }, rotation, this.#shared);
    this.#roundKeysValues(k, v, rows);
    projectQueries(device, config, weights, { normed, q, rows }, rotation, this.#shared);
    this.#attention(buffers, batch);
  }

  /** What the forward pass computed of a layer and a later layer has overwritten. */
  #computeAgain(weights: LayerWeights, buffers: LayerBuffers, batch: AttentionRows): void {
    this.#attend(weights, buffers, batch);
    const { input: residual, attended, middle, gate, up } = buffers;
    const { normed, invRms, lowRank } = this.#shared;
    const io = { residual, attended, middle, rows: batch.rows };
    const scratch = { normed, invRms, gate, up, ...(lowRank && { lowRank }) };
    openFeedForward(this.#device, this.#config, weights, io, scratch);
  }

  /**
   * What an f16 cache makes of them while sampling: attention reads the same numbers here. In the backward pass the
   * gradient goes straight through the rounding, which has derivative 1 but for its steps (Bengio et al. 2013).
   */
  #roundKeysValues(k: Tensor, v: Tensor, rows: number): void {
    if (this.#device.storage.kvCache === "f32") return;
    const length = rows * this.#config.kvHeads * this.#config.headDim;
    this.#device.roundHalf({ x: k, out: k, length });
    this.#device.roundHalf({ x: v, out: v, length });
  }

  #attention(io: AttentionTensors, batch: AttentionRows): void {
    if (batch.spread > batch.rows) {
      sharedAttention(this.#device, this.#config, io, batch, this.#spread!);
      return;
    }
    const { offsets, sequences, rows } = batch;
    const { q, k, v, attended: out, lse } = io;
    this.#device.attention({ ...attentionShape(this.#config), q, k, v, out, lse, offsets, sequences, rows });
  }

  /** Goes from `dAttended` to `dQ`, `dK` and `dV`. */
  #attentionBackward(io: AttentionTensors, batch: AttentionRows): void {
    const { dAttended, dQ, dK, dV } = this.#shared;
    if (batch.spread > batch.rows) {
      const gradients = { dAttended, dQ, dK, dV };
      sharedAttentionBackward(this.#device, this.#config, { ...io, ...gradients }, batch, this.#spread!);
      return;
    }
    const { offsets, sequences, rows } = batch;
    const { q, k, v, attended: out, lse } = io;
    const forward = { ...attentionShape(this.#config), q, k, v, out, lse, offsets, sequences, rows };
    this.#device.attentionBackward({ ...forward, dOut: dAttended, dQ, dK, dV });
  }

  /** Leaves the gradient of the last layer's output in `dScored`. */
  #headBackward(weights: ComputeWeights, derivatives: Derivatives, grads: Gradients, scored: number): void {
    const device = this.#device;
    const { targets, temperatures, headLse: lse, entropies, hidden, dHidden, dLogProbs, dEntropies } = this.#shared;
    device.write(dLogProbs, derivatives.dLogProbs);
    device.write(dEntropies, derivatives.dEntropies);
    device.headBackward({
      ...headShape(this.#config, weights, hidden, scored),
      targets,
      temperatures,
      lse,
      entropies,
      dLogProbs,
      dEntropies,
      dHidden,
      ...(grads.head && { dWeight: grads.head }),
    });
    if (derivatives.dValues !== undefined) this.#valueHead?.backward(hidden, derivatives.dValues, dHidden, scored);
    device.rmsNormBackward({
      x: this.#shared.output,
      weight: weights.finalNorm,
      invRms: this.#shared.outputInvRms,
      dOut: dHidden,
      dX: this.#shared.dScored,
      ...(grads.finalNorm && { dWeight: grads.finalNorm }),
      rows: scored,
      dim: this.#config.hiddenSize,
    });
  }

  destroy(): void {
    freeBuffers(this.#device, this.#shared);
    if (this.#spread !== null) freeBuffers(this.#device, this.#spread);
    for (const buffers of this.#owned) freeBuffers(this.#device, buffers);
  }
}
