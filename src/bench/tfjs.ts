/**
 * TensorFlow.js with its WebGPU backend, the peer that `agentrl bench peer` measures beside: loaded from a folder in
 * which the user has installed it, on the adapter that this project's device is measured on.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { openInstance } from "../device/webgpu/instance.ts";
import { AgentRLError } from "../errors.ts";

export interface TfTensor {
  dispose(): void;
  data(): Promise<Float32Array>;
}

/** What the benchmark uses of the package. */
export interface Tf {
  setBackend(name: string): Promise<boolean>;
  ready(): Promise<void>;
  tensor(values: Float32Array | Int32Array, shape: readonly number[], dtype?: "float32" | "int32"): TfTensor;
  variable(initial: TfTensor): TfTensor;
  randomNormal(shape: readonly number[]): TfTensor;
  matMul(a: TfTensor, b: TfTensor, transposeA?: boolean, transposeB?: boolean): TfTensor;
  gather(x: TfTensor, indices: TfTensor): TfTensor;
  add(a: TfTensor, b: TfTensor): TfTensor;
  sub(a: TfTensor, b: TfTensor): TfTensor;
  mul(a: TfTensor, b: TfTensor | number): TfTensor;
  square(x: TfTensor): TfTensor;
  rsqrt(x: TfTensor): TfTensor;
  sigmoid(x: TfTensor): TfTensor;
  softmax(x: TfTensor): TfTensor;
  logSoftmax(x: TfTensor): TfTensor;
  mean(x: TfTensor, axis?: number, keepDims?: boolean): TfTensor;
  sum(x: TfTensor, axis?: number): TfTensor;
  oneHot(x: TfTensor, depth: number): TfTensor;
  reshape(x: TfTensor, shape: readonly number[]): TfTensor;
  transpose(x: TfTensor, order: readonly number[]): TfTensor;
  tile(x: TfTensor, times: readonly number[]): TfTensor;
  slice(x: TfTensor, begin: readonly number[], size: readonly number[]): TfTensor;
  concat(x: readonly TfTensor[], axis: number): TfTensor;
  train: {
    adam(lr: number): { minimize(loss: () => TfTensor, returnCost: true, variables: readonly TfTensor[]): TfTensor };
  };
}

/** @throws AgentRLError USAGE when the folder does not hold the packages. */
export async function loadTfjs(folder: string, adapter: string): Promise<Tf> {
  const root = resolve(folder);
  const packages = ["@tensorflow/tfjs", "@tensorflow/tfjs-backend-webgpu"];
  const missing = packages.filter((name) => !existsSync(join(root, "node_modules", name)));
  if (missing.length > 0) {
    throw new AgentRLError("USAGE", "TensorFlow.js is not installed in the folder given", {
      where: root,
      got: `no ${missing.join(", ")}`,
      hint: `mkdir -p ${folder} && cd ${folder} && npm install ${packages.map((name) => `${name}@4.22.0`).join(" ")}`,
    });
  }
  // The package is written for browsers: it looks for an adapter in `navigator`, and for a canvas.
  const gpu = await openInstance({ adapter, disabledToggles: ["timestamp_quantization"] });
  Object.defineProperty(globalThis, "navigator", { value: { gpu, userAgent: "node" }, configurable: true });
  Object.assign(globalThis, {
    window: globalThis,
    document: { createElement: () => ({ getContext: () => null }) },
  });
  // The CommonJS builds share one core.
  const load = createRequire(join(root, "package.json"));
  const tf = load(packages[0]!) as Tf;
  load(packages[1]!);
  await tf.setBackend("webgpu");
  await tf.ready();
  return tf;
}
