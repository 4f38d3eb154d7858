/**
 * One step of generation: the new rows of many sequences at once, one row for a sequence that is decoding, many for one
 * that is prefilling, over a paged KV cache. The operators are those of the training pass (transformer.ts), so the
 * log-probability of a sampled token is, bit for bit, the one that TrainPass.forward gives it.
 *
 * Behind the last layer's keys and values only the rows that are sampled go on: a prefill costs no head.
 */
import { ATTENTION_BLOCK, type Device, type Storage, type Tensor } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import { allocateBuffers, type BufferPlan, type Buffers, f32, freeBuffers, u32 } from "./buffers.ts";
import type { ModelConfig } from "./config.ts";
import { layerDone } from "./layer-done.ts";
import { projectionPlan } from "./projection-plan.ts";
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
import type { ComputeWeights } from "./weights.ts";

export interface InferenceLimits {
  /** Rows of the largest step. */
  maxRows: number;
  /** Pages of ATTENTION_BLOCK keys in the KV cache. */
  pages: number;
  /** Rank of the adapters that weights may come with; default 0: none. */
  loraRank?: number;
}

/** Per sampled row; see Device.headSample. */
export interface SamplingArrays {
  temperatures: Float32Array;
  topK: Uint32Array;
  topP: Float32Array;
  minP: Float32Array;
  /** [samples, 4] */
  seeds: Uint32Array;
}

export interface InferenceStep {
  rows: number;
  /** [rows]. Rows of one sequence are in the order of their positions. */
  tokens: Uint32Array;
  /** [rows] */
  positions: Uint32Array;
  /** [rows] line of `pageTable`. */
  sequenceOf: Uint32Array;
  /** [rows] where the row's key and value go: page * ATTENTION_BLOCK + place in page. */
  slots: Uint32Array;
  /** [lines, pageTableStride] pages of each sequence in order. */
  pageTable: Uint32Array;
  pageTableStride: number;
  /** [samples] ascending: rows whose next token is drawn; the last row of its sequence. */
  sampleRows: Uint32Array;
  sampling: SamplingArrays;
}

/** One entry for each sampled row. */
export interface SampledTokens {
  tokens: Uint32Array;
  /** Log-softmax over the whole vocabulary at the row's temperature. */
  logProbs: Float32Array;
  keptMass: Float32Array;
}

function inferencePositions(config: ModelConfig, limits: InferenceLimits): number {
  return Math.min(config.maxPositions, limits.pages * ATTENTION_BLOCK);
}

export function cachePlan(config: ModelConfig, { pages }: InferenceLimits, dtype: Storage["kvCache"]) {
  const length = pages * ATTENTION_BLOCK * config.kvHeads * config.headDim;
  return { k: { length, dtype }, v: { length, dtype } } satisfies Record<string, BufferPlan>;
}

export function inferencePlan(config: ModelConfig, limits: InferenceLimits) {
  const rows = limits.maxRows;
  const { hiddenSize, intermediateSize, heads, kvHeads, headDim } = config;
  return {
    cosSin: f32(inferencePositions(config, limits) * headDim),
    tokens: u32(rows),
    positions: u32(rows),
    sequenceOf: u32(rows),
    slots: u32(rows),
    sampleRows: u32(rows),
    samplePositions: u32(rows),
    sampleSequenceOf: u32(rows),
    temperatures: f32(rows),
    topK: u32(rows),
    topP: f32(rows),
    minP: f32(rows),
    seeds: u32(4 * rows),

    residual: f32(rows * hiddenSize),
    normed: f32(rows * hiddenSize),
    sampleResidual: f32(rows * hiddenSize),
    sampleNormed: f32(rows * hiddenSize),
    invRms: f32(rows),
    q: f32(rows * heads * headDim),
    k: f32(rows * kvHeads * headDim),
    v: f32(rows * kvHeads * headDim),
    attended: f32(rows * heads * headDim),
    gate: f32(rows * intermediateSize),
    up: f32(rows * intermediateSize),
    activated: f32(rows * intermediateSize),
    sampled: u32(rows),
    logProbs: f32(rows),
    keptMass: f32(rows),
    ...projectionPlan(config, limits),
  } satisfies Record<string, BufferPlan>;
}

/** The rows that go through a layer's queries and what follows. */
interface ActiveRows {
  rows: number;
  residual: Tensor;
  normed: Tensor;
  positions: Tensor;
  sequenceOf: Tensor;
}

export class InferencePass {
  readonly #device: Device;
  readonly #config: ModelConfig;
  readonly #limits: InferenceLimits;
  readonly #caches: Buffers<ReturnType<typeof cachePlan>>[];
  readonly #buffers: Buffers<ReturnType<typeof inferencePlan>>;
  #pageTable: Tensor;

  constructor(device: Device, config: ModelConfig, limits: InferenceLimits) {
    this.#device = device;
    this.#config = config;
    this.#limits = limits;
    this.#buffers = allocateBuffers(device, inferencePlan(config, limits), "inference");
    this.#caches = Array.from({ length: config.layers }, (_, layer) => {
      return allocateBuffers(device, cachePlan(config, limits, device.storage.kvCache), `inference.cache${layer}`);
    });
    // Sequences that share pages can need more entries than there are pages: it grows.
    this.#pageTable = device.alloc(limits.pages, "u32", "inference.pageTable");
    device.write(this.#buffers.cosSin, ropeTable(config, inferencePositions(config, limits)));
  }

  /**
   * Writes the rows' keys and values into the cache and draws a token for each of `sampleRows`.
   * @throws AgentRLError PIPELINE when the step is malformed or over the limits.
   */
  async step(weights: ComputeWeights, step: InferenceStep): Promise<SampledTokens> {
    const device = this.#device;
    const config = this.#config;
    const buffers = this.#buffers;
    this.#check(step);
    this.#write(step);

    const { rows } = step;
    const samples = step.sampleRows.length;
    const { hiddenSize: dim, vocabSize: vocab, kvHeads, headDim } = config;
    const { residual, normed, invRms, q, k, v, slots, attended, gate, up, activated, positions, cosSin } = buffers;
    const every: ActiveRows = { rows, residual, normed, positions, sequenceOf: buffers.sequenceOf };
    device.embed({ table: weights.embedding, ids: buffers.tokens, out: residual, rows, dim, vocab });
    const feedForward = { invRms, gate, up, activated, ...(buffers.lowRank && { lowRank: buffers.lowRank }) };
    let active = every;
    for (const [i, layer] of weights.layers.entries()) {
      const { k: kCache, v: vCache } = this.#caches[i]!;
      normInput(device, config, layer, { residual, normed, invRms, rows });
      projectKeysValues(device, config, layer, { normed, k, v, rows }, { cosSin, positions }, buffers);
      device.kvWrite({ k, v, kCache, vCache, slots, rows, width: kvHeads * headDim });
      if (i === config.layers - 1) {
        if (samples === 0) break;
        if (samples < rows) active = this.#gatherSampled(samples);
      }
      projectQueries(
        device,
        config,
        layer,
        { normed: active.normed, q, rows: active.rows },
        { cosSin, positions: active.positions },
        buffers,
      );
      device.attentionCached({
        ...attentionShape(config),
        q,
        kCache,
        vCache,
        out: attended,
        positions: active.positions,
        sequenceOf: active.sequenceOf,
        pageTable: this.#pageTable,
        pageTableStride: step.pageTableStride,
        rows: active.rows,
      });
      const stream = active.residual;
      const io = { residual: stream, attended, middle: stream, out: stream, rows: active.rows };
      finishLayer(device, config, layer, io, { ...feedForward, normed: active.normed });
      await layerDone();
    }
    if (samples === 0)
      return { tokens: new Uint32Array(0), logProbs: new Float32Array(0), keptMass: new Float32Array(0) };

    const hidden = active.normed;
    normOutput(device, config, weights, { residual: active.residual, hidden, invRms, rows: samples });
    const { temperatures, topK, topP, minP, seeds, sampled, logProbs, keptMass } = buffers;
    const head = headShape(config, weights, hidden, samples);
    device.headSample({ ...head, temperatures, topK, topP, minP, seeds, tokens: sampled, logProbs, keptMass });
    const read = await Promise.all([
      device.readU32(sampled, samples),
      device.readF32(logProbs, samples),
      device.readF32(keptMass, samples),
    ]);
    return { tokens: read[0], logProbs: read[1], keptMass: read[2] };
  }

  /** Copies a page's keys and values in all layers: copy on write of a page that sequences share. */
  copyPage(from: number, to: number): void {
    const length = ATTENTION_BLOCK * this.#config.kvHeads * this.#config.headDim;
    for (const { k, v } of this.#caches) {
      for (const cache of [k, v]) {
        const source = this.#device.view(cache, from * length, length);
        this.#device.copy(source, this.#device.view(cache, to * length, length), length);
      }
    }
  }

  destroy(): void {
    freeBuffers(this.#device, this.#buffers);
    for (const cache of this.#caches) freeBuffers(this.#device, cache);
    this.#device.free(this.#pageTable);
  }

  #gatherSampled(samples: number): ActiveRows {
    const { residual, normed, sampleRows: index, sampleResidual, sampleNormed } = this.#buffers;
    const dim = this.#config.hiddenSize;
    this.#device.gatherRows({ x: residual, index, out: sampleResidual, rows: samples, dim });
    this.#device.gatherRows({ x: normed, index, out: sampleNormed, rows: samples, dim });
    return {
      rows: samples,
      residual: sampleResidual,
      normed: sampleNormed,
      positions: this.#buffers.samplePositions,
      sequenceOf: this.#buffers.sampleSequenceOf,
    };
  }

  #write(step: InferenceStep): void {
    const device = this.#device;
    const buffers = this.#buffers;
    const { rows, sampleRows, sampling, pageTable } = step;
    if (pageTable.length > this.#pageTable.length) {
      device.free(this.#pageTable);
      this.#pageTable = device.alloc(Math.ceil(1.5 * pageTable.length), "u32", "inference.pageTable");
    }
    device.write(this.#pageTable, pageTable);
    device.write(buffers.tokens, step.tokens.subarray(0, rows));
    device.write(buffers.positions, step.positions.subarray(0, rows));
    device.write(buffers.sequenceOf, step.sequenceOf.subarray(0, rows));
    device.write(buffers.slots, step.slots.subarray(0, rows));
    const samples = sampleRows.length;
    if (samples === 0) return;
    if (samples < rows) {
      device.write(buffers.sampleRows, sampleRows);
      device.write(
        buffers.samplePositions,
        sampleRows.map((row) => step.positions[row]!),
      );
      device.write(
        buffers.sampleSequenceOf,
        sampleRows.map((row) => step.sequenceOf[row]!),
      );
    }
    device.write(buffers.temperatures, sampling.temperatures.subarray(0, samples));
    device.write(buffers.topK, sampling.topK.subarray(0, samples));
    device.write(buffers.topP, sampling.topP.subarray(0, samples));
    device.write(buffers.minP, sampling.minP.subarray(0, samples));
    device.write(buffers.seeds, sampling.seeds.subarray(0, 4 * samples));
  }

  #check(step: InferenceStep): void {
    const { rows, tokens, positions, sequenceOf, slots, pageTable, pageTableStride, sampleRows, sampling } = step;
    const fail = (what: string, got: unknown, expected: string): never => {
      throw new AgentRLError("PIPELINE", `A generation step is malformed: ${what}.`, {
        where: "InferencePass.step",
        got,
        expected,
      });
    };
    if (rows < 1 || rows > this.#limits.maxRows) fail("number of rows", rows, `1 to ${this.#limits.maxRows}`);
    if (Math.min(tokens.length, positions.length, sequenceOf.length, slots.length) < rows) {
      const got = [tokens.length, positions.length, sequenceOf.length, slots.length];
      fail("lengths of tokens, positions, sequenceOf and slots", got, `at least ${rows} each`);
    }
    const lines = Math.floor(pageTable.length / pageTableStride);
    const maxPosition = Math.min(inferencePositions(this.#config, this.#limits), pageTableStride * ATTENTION_BLOCK);
    const slotCount = this.#limits.pages * ATTENTION_BLOCK;
    for (let row = 0; row < rows; row++) {
      if (tokens[row]! >= this.#config.vocabSize) {
        fail(`token of row ${row}`, tokens[row], `token ids below ${this.#config.vocabSize}`);
      }
      if (positions[row]! >= maxPosition) fail(`position of row ${row}`, positions[row], `below ${maxPosition}`);
      if (sequenceOf[row]! >= lines) fail(`page table line of row ${row}`, sequenceOf[row], `below ${lines}`);
      if (slots[row]! >= slotCount) fail(`slot of row ${row}`, slots[row], `below ${slotCount}`);
    }
    const samples = sampleRows.length;
    for (let i = 0; i < samples; i++) {
      if (sampleRows[i]! >= rows || (i > 0 && sampleRows[i]! <= sampleRows[i - 1]!)) {
        fail(`sampled row ${i}`, sampleRows[i], `ascending rows below ${rows}`);
      }
    }
    const { temperatures, topK, topP, minP, seeds } = sampling;
    if (Math.min(temperatures.length, topK.length, topP.length, minP.length, seeds.length / 4) < samples) {
      const got = [temperatures.length, topK.length, topP.length, minP.length, seeds.length];
      fail("lengths of the sampling arrays", got, `at least ${samples} each, ${4 * samples} seeds`);
    }
  }
}
