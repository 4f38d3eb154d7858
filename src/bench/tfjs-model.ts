/** The decoder of src/model in TensorFlow.js' operators: the same weights, the same loss, differentiated by the package. */
import type { ModelConfig } from "../model/config.ts";
import { type LinearRole, type ParameterEntry, parameterLayout, parameterNames } from "../model/parameters.ts";
import { ropeTable } from "../model/transformer.ts";
import type { Tf, TfTensor } from "./tfjs.ts";

export class TfjsModel {
  readonly #tf: Tf;
  readonly #config: ModelConfig;
  readonly #parameters = new Map<string, TfTensor>();
  readonly #optimizer: ReturnType<Tf["train"]["adam"]>;

  /** `arena`: the parameters as `parameterLayout` places them. */
  constructor(tf: Tf, config: ModelConfig, arena: Float32Array, lr: number) {
    this.#tf = tf;
    this.#config = config;
    for (const entry of parameterLayout(config).entries) {
      const values = arena.slice(entry.offset, entry.offset + entry.length);
      this.#parameters.set(entry.name, tf.variable(tf.tensor(values, storedShape(entry))));
    }
    this.#optimizer = tf.train.adam(lr);
  }

  /** One optimizer step on sequences of equal length; resolves to the mean negative log-probability of the targets. */
  async step(tokens: Int32Array, targets: Int32Array, sequences: number): Promise<number> {
    const tf = this.#tf;
    const inputs = tf.tensor(tokens, [tokens.length], "int32");
    const wanted = tf.tensor(targets, [targets.length], "int32");
    const variables = [...this.#parameters.values()];
    const cost = this.#optimizer.minimize(() => this.#loss(inputs, wanted, sequences), true, variables);
    const [loss] = await cost.data();
    for (const tensor of [inputs, wanted, cost]) tensor.dispose();
    return loss!;
  }

  #loss(tokens: TfTensor, targets: TfTensor, sequences: number): TfTensor {
    const tf = this.#tf;
    const { layers, vocabSize } = this.#config;
    const embedding = this.#get(parameterNames.embedding);
    const rows = (tokens as TfTensor & { size: number }).size;
    let x = tf.gather(embedding, tokens);
    for (let i = 0; i < layers; i++) x = this.#layer(i, x, rows, sequences);
    const hidden = this.#norm(x, this.#get(parameterNames.finalNorm));
    const logProbs = tf.logSoftmax(tf.matMul(hidden, embedding, false, true));
    const chosen = tf.sum(tf.mul(logProbs, tf.oneHot(targets, vocabSize)), 1);
    return tf.mul(tf.mean(chosen), -1);
  }

  #layer(i: number, x: TfTensor, rows: number, sequences: number): TfTensor {
    const tf = this.#tf;
    const norms = parameterNames.norms(i);
    const weight = (role: LinearRole) => this.#get(parameterNames.weight(i, role));
    const normed = this.#norm(x, this.#get(norms.attentionNorm));
    const project = (role: LinearRole) => tf.matMul(normed, weight(role));
    const attended = this.#attend(project("q"), project("k"), project("v"), rows / sequences, sequences);
    const middle = tf.add(x, tf.matMul(attended, weight("o")));
    const inner = this.#norm(middle, this.#get(norms.mlpNorm));
    const gate = tf.matMul(inner, weight("gate"));
    const activated = tf.mul(tf.mul(gate, tf.sigmoid(gate)), tf.matMul(inner, weight("up")));
    return tf.add(middle, tf.matMul(activated, weight("down")));
  }

  #norm(x: TfTensor, weight: TfTensor): TfTensor {
    const tf = this.#tf;
    const { rmsNormEps } = this.#config;
    const eps = tf.tensor(Float32Array.of(rmsNormEps), []);
    const scale = tf.rsqrt(tf.add(tf.mean(tf.square(x), -1, true), eps));
    return tf.mul(tf.mul(x, scale), weight);
  }

  #attend(q: TfTensor, k: TfTensor, v: TfTensor, length: number, sequences: number): TfTensor {
    const tf = this.#tf;
    const { heads, kvHeads, headDim } = this.#config;
    const perKey = heads / kvHeads;
    const split = (x: TfTensor, count: number) => tf.reshape(x, [sequences, length, count, headDim]);
    const widen = (x: TfTensor) => {
      const apart = tf.reshape(x, [sequences * length, kvHeads, 1, headDim]);
      return tf.reshape(tf.tile(apart, [1, 1, perKey, 1]), [sequences, length, heads, headDim]);
    };
    const byHead = (x: TfTensor) => tf.transpose(x, [0, 2, 1, 3]);
    const queries = byHead(this.#rotate(split(q, heads), length, sequences, heads));
    const keys = byHead(widen(this.#rotate(split(k, kvHeads), length, sequences, kvHeads)));
    const scores = tf.mul(tf.matMul(queries, keys, false, true), 1 / Math.sqrt(headDim));
    const shares = tf.softmax(tf.add(scores, this.#mask(length)));
    const attended = tf.matMul(shares, byHead(widen(split(v, kvHeads))));
    return tf.reshape(tf.transpose(attended, [0, 2, 1, 3]), [sequences * length, heads * headDim]);
  }

  #mask(length: number): TfTensor {
    const mask = Float32Array.from({ length: length * length }, (_, at) =>
      at % length <= Math.floor(at / length) ? 0 : -1e9,
    );
    return this.#tf.tensor(mask, [1, 1, length, length]);
  }

  #rotate(x: TfTensor, length: number, sequences: number, count: number): TfTensor {
    const tf = this.#tf;
    const half = this.#config.headDim / 2;
    const table = ropeTable(this.#config, length);
    const part = (offset: number) => {
      const values = Float32Array.from(
        { length: length * half },
        (_, at) => table[Math.floor(at / half) * 2 * half + offset + (at % half)]!,
      );
      return tf.tensor(values, [1, length, 1, half]);
    };
    const [cos, sin] = [part(0), part(half)];
    const size = [sequences, length, count, half];
    const [a, b] = [tf.slice(x, [0, 0, 0, 0], size), tf.slice(x, [0, 0, 0, half], size)];
    const first = tf.sub(tf.mul(a, cos), tf.mul(b, sin));
    const second = tf.add(tf.mul(b, cos), tf.mul(a, sin));
    return tf.concat([first, second], 3);
  }

  #get(name: string): TfTensor {
    return this.#parameters.get(name)!;
  }
}

/** The arena holds linear weights as [in, out], the transpose of what files hold. */
function storedShape(entry: ParameterEntry): readonly number[] {
  return entry.transposed ? [...entry.shape].reverse() : entry.shape;
}
