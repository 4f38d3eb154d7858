/**
 * Forward and backward over one packed micro-batch of whole sequences: log-probabilities and entropies of the scored
 * rows out, gradients of all parameters accumulated. The objective stays outside: it sees the two arrays and gives
 * back dLoss/dLogProb and dLoss/dEntropy.
 *
 * Only rows whose hidden state predicts a token of the loss are scored. They alone go through the head, and through
 * everything behind the last layer's attention: nothing else reads the other rows there.
 */
import type { Device } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import { allocateBuffers, type BufferPlan, type Buffers, f32, freeBuffers, u32 } from "./buffers.ts";
import type { ModelConfig } from "./config.ts";
import {
  attentionShape,
  finishLayer,
  headShape,
  normInput,
  normOutput,
  projectKeysValues,
  projectQueries,
  ropeTable,
} from "./transformer.ts";
import { finishLayerBackward, projectionsBackward } from "./transformer-backward.ts";
import type { Weights } from "./weights.ts";

export interface PackedBatch {
  /** [rows] sequences one after another, no padding. */
  tokens: Uint32Array;
  /** [sequences + 1] first row of each sequence, then `rows`. */
  offsets: Uint32Array;
  /** [scored] ascending: rows whose hidden state predicts a target. */
  scoredRows: Uint32Array;
  /** [scored] token that each scored row predicts. */
  targets: Uint32Array;
  /** [scored], > 0 */
  temperatures: Float32Array;
}

export interface TrainLimits {
  /** Rows of the largest micro-batch. */
  maxRows: number;
  /** Scored rows of the largest micro-batch. */
  maxScored: number;
}

/** Positions of a packed sequence never pass the number of rows. */
export function trainPositions(config: ModelConfig, limits: TrainLimits): number {
  return Math.min(config.maxPositions, limits.maxRows);
}

/** What the forward pass keeps of each layer; `tailRows` are the rows that go on behind the attention. */
export function trainLayerPlan(config: ModelConfig, limits: TrainLimits, layer: number) {
  const rows = limits.maxRows;
  const tailRows = layer === config.layers - 1 ? limits.maxScored : rows;
  const { hiddenSize, intermediateSize, heads, kvHeads, headDim } = config;
  return {
    input: f32(rows * hiddenSize),
    q: f32(rows * heads * headDim),
    k: f32(rows * kvHeads * headDim),
    v: f32(rows * kvHeads * headDim),
    attended: f32(rows * heads * headDim),
    lse: f32(rows * heads),
    middle: f32(tailRows * hiddenSize),
    gate: f32(tailRows * intermediateSize),
    up: f32(tailRows * intermediateSize),
  } satisfies Record<string, BufferPlan>;
}

/** What the layers share. */
export function trainSharedPlan(config: ModelConfig, { maxRows, maxScored }: TrainLimits) {
  const { hiddenSize, intermediateSize, heads, kvHeads, headDim } = config;
  return {
    cosSin: f32(trainPositions(config, { maxRows, maxScored }) * headDim),
    tokens: u32(maxRows),
    positions: u32(maxRows),
    offsets: u32(maxRows + 1),
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
  } satisfies Record<string, BufferPlan>;
}

type LayerBuffers = Buffers<ReturnType<typeof trainLayerPlan>>;
type SharedBuffers = Buffers<ReturnType<typeof trainSharedPlan>>;

export class TrainPass {
  readonly #device: Device;
  readonly #config: ModelConfig;
  readonly #limits: TrainLimits;
  readonly #layers: LayerBuffers[];
  readonly #shared: SharedBuffers;
  /** Sizes of the forward pass whose activations are held; undefined when there is none to go back through. */
  #pending: { rows: number; sequences: number; scored: number } | undefined;

  constructor(device: Device, config: ModelConfig, limits: TrainLimits) {
    if (!(limits.maxScored >= 1 && limits.maxScored <= limits.maxRows)) {
      throw new AgentRLError("PIPELINE", "The limits of a training pass do not fit together.", {
        where: "TrainPass",
        got: limits,
        expected: "1 <= maxScored <= maxRows",
      });
    }
    this.#device = device;
    this.#config = config;
    this.#limits = limits;
    this.#shared = allocateBuffers(device, trainSharedPlan(config, limits), "train");
    this.#layers = Array.from({ length: config.layers }, (_, layer) => {
      return allocateBuffers(device, trainLayerPlan(config, limits, layer), `train.layer${layer}`);
    });
    device.write(this.#shared.cosSin, ropeTable(config, trainPositions(config, limits)));
  }

  /**
   * Log-probability of each target (log-softmax over the whole vocabulary at its temperature) and entropy in nats,
   * [scored] each. Drops the activations of an earlier forward pass.
   * @throws AgentRLError PIPELINE when the batch is malformed or over the limits.
   */
  async forward(weights: Weights, batch: PackedBatch): Promise<{ logProbs: Float32Array; entropies: Float32Array }> {
    const device = this.#device;
    const config = this.#config;
    const shared = this.#shared;
    checkBatch(config, this.#limits, batch);
    const rows = batch.tokens.length;
    const sequences = batch.offsets.length - 1;
    const scored = batch.scoredRows.length;
    this.#pending = { rows, sequences, scored };
    if (scored === 0) return { logProbs: new Float32Array(0), entropies: new Float32Array(0) };

    device.write(shared.tokens, batch.tokens);
    device.write(shared.positions, positionsOf(batch.offsets, rows));
    device.write(shared.offsets, batch.offsets);
    device.write(shared.scoredRows, batch.scoredRows);
    device.write(shared.targets, batch.targets);
    device.write(shared.temperatures, batch.temperatures);

    const { hiddenSize: dim, vocabSize: vocab, heads, headDim } = config;
    const { normed, invRms, positions, cosSin, offsets, activated, scoredRows: index } = shared;
    const rotation = { cosSin, positions };
    device.embed({ table: weights.embedding, ids: shared.tokens, out: this.#layers[0]!.input, rows, dim, vocab });
    for (const [i, buffers] of this.#layers.entries()) {
      const layer = weights.layers[i]!;
      const { input: residual, q, k, v, attended, lse, middle, gate, up } = buffers;
      normInput(device, config, layer, { residual, normed, invRms, rows });
      projectKeysValues(device, config, layer, { normed, k, v, rows }, rotation);
      projectQueries(device, config, layer, { normed, q, rows }, rotation);
      device.attention({ ...attentionShape(config), q, k, v, out: attended, lse, offsets, sequences });
      const feedForward = { normed, invRms, gate, up, activated };
      const next = this.#layers[i + 1];
      if (next !== undefined) {
        finishLayer(device, config, layer, { residual, attended, middle, out: next.input, rows }, feedForward);
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
    return { logProbs: await device.readF32(logProbs, scored), entropies: await device.readF32(entropies, scored) };
  }

  /**
   * Adds the gradient of the loss to `grads`, given the loss's derivatives by the last forward pass's outputs, [scored]
   * each. `weights` must be those of that forward pass.
   * @throws AgentRLError PIPELINE without a forward pass to go back through, or when lengths differ.
   */
  async backward(
    weights: Weights,
    derivatives: { dLogProbs: Float32Array; dEntropies: Float32Array },
    grads: Weights,
  ): Promise<void> {
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) {
      throw new AgentRLError("PIPELINE", "A backward pass has no forward pass to go back through.", {
        where: "TrainPass.backward",
        expected: "one forward call before each backward call",
      });
    }
    const { rows, sequences, scored } = pending;
    if (derivatives.dLogProbs.length !== scored || derivatives.dEntropies.length !== scored) {
      throw new AgentRLError("PIPELINE", "The loss's derivatives do not fit the forward pass.", {
        where: "TrainPass.backward",
        got: { dLogProbs: derivatives.dLogProbs.length, dEntropies: derivatives.dEntropies.length },
        expected: `${scored} of each, one for a scored row`,
      });
    }
    if (scored === 0) return;

    const device = this.#device;
    const config = this.#config;
    const shared = this.#shared;
    const { hiddenSize: dim, vocabSize: vocab, heads, headDim } = config;
    const rotation = { cosSin: shared.cosSin, positions: shared.positions };
    const { offsets, scoredRows: index, dResidual, dAttended, dQ, dK, dV } = shared;

    this.#headBackward(weights, derivatives, grads, scored);
    for (let i = config.layers - 1; i >= 0; i--) {
      const layer = weights.layers[i]!;
      const layerGrads = grads.layers[i]!;
      const { input: residual, q, k, v, attended, lse, middle, gate, up } = this.#layers[i]!;
      if (i < config.layers - 1) {
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
      const forward = { ...attentionShape(config), q, k, v, out: attended, lse, offsets, sequences };
      device.attentionBackward({ ...forward, dOut: dAttended, dQ, dK, dV });
      projectionsBackward(
        device,
        config,
        layer,
        layerGrads,
        { residual, dQ, dK, dV, dResidual, rows },
        rotation,
        shared,
      );
    }
    device.embedBackward({ ids: shared.tokens, dOut: dResidual, dTable: grads.embedding, rows, dim, vocab });
  }

  /** Leaves the gradient of the last layer's output in `dScored`. */
  #headBackward(
    weights: Weights,
    derivatives: { dLogProbs: Float32Array; dEntropies: Float32Array },
    grads: Weights,
    scored: number,
  ): void {
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
      dWeight: grads.head,
    });
    device.rmsNormBackward({
      x: this.#shared.output,
      weight: weights.finalNorm,
      invRms: this.#shared.outputInvRms,
      dOut: dHidden,
      dX: this.#shared.dScored,
      dWeight: grads.finalNorm,
      rows: scored,
      dim: this.#config.hiddenSize,
    });
  }

  destroy(): void {
    freeBuffers(this.#device, this.#shared);
    for (const buffers of this.#layers) freeBuffers(this.#device, buffers);
  }
}

function positionsOf(offsets: Uint32Array, rows: number): Uint32Array {
  const positions = new Uint32Array(rows);
  for (let s = 0; s + 1 < offsets.length; s++) {
    for (let row = offsets[s]!; row < offsets[s + 1]!; row++) positions[row] = row - offsets[s]!;
  }
  return positions;
}

function checkBatch(config: ModelConfig, limits: TrainLimits, batch: PackedBatch): void {
  const { tokens, offsets, scoredRows, targets, temperatures } = batch;
  const rows = tokens.length;
  const scored = scoredRows.length;
  const fail = (what: string, got: unknown, expected: string): never => {
    throw new AgentRLError("PIPELINE", `A packed batch is malformed: ${what}.`, {
      where: "TrainPass.forward",
      got,
      expected,
    });
  };
  if (rows < 1 || rows > limits.maxRows) fail("number of rows", rows, `1 to ${limits.maxRows}`);
  if (scored > limits.maxScored) fail("number of scored rows", scored, `at most ${limits.maxScored}`);
  if (targets.length !== scored || temperatures.length !== scored) {
    const got = { scoredRows: scored, targets: targets.length, temperatures: temperatures.length };
    fail("lengths of the scored rows' arrays", got, "three equal lengths");
  }
  if (offsets.length < 2 || offsets[0] !== 0 || offsets[offsets.length - 1] !== rows) {
    fail("sequence offsets", Array.from(offsets.subarray(0, 8)), `from 0 to ${rows}`);
  }
  for (let s = 0; s + 1 < offsets.length; s++) {
    const length = offsets[s + 1]! - offsets[s]!;
    if (length < 1 || length > config.maxPositions) {
      fail(`length of sequence ${s}`, length, `1 to max_position_embeddings = ${config.maxPositions}`);
    }
  }
  const vocab = `token ids below ${config.vocabSize}`;
  const badToken = tokens.findIndex((token) => token >= config.vocabSize);
  if (badToken >= 0) fail(`token of row ${badToken}`, tokens[badToken], vocab);
  for (let i = 0; i < scored; i++) {
    if (scoredRows[i]! >= rows || (i > 0 && scoredRows[i]! <= scoredRows[i - 1]!)) {
      fail(`scored row ${i}`, scoredRows[i], `ascending rows below ${rows}`);
    }
    if (targets[i]! >= config.vocabSize) fail(`target of row ${scoredRows[i]}`, targets[i], vocab);
    if (!(temperatures[i]! > 0)) fail(`temperature of row ${scoredRows[i]}`, temperatures[i], "a number above 0");
  }
}
