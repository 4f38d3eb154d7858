/**
 * Compute pipelines, made once for each kernel and set of constants. Kernels with the same access modes share one
 * pipeline layout, and so can share bind groups.
 */
import { IMMEDIATE_BYTES } from "./adapter.ts";
import type { Constants } from "./preprocess.ts";
import { loadShader, type Shader } from "./shader.ts";

export interface Pipeline {
  readonly shader: Shader;
  readonly pipeline: GPUComputePipeline;
  readonly layout: BindingLayout;
}

export interface BindingLayout {
  readonly id: number;
  readonly group: GPUBindGroupLayout;
  readonly pipeline: GPUPipelineLayout;
}

export class Pipelines {
  /** Pipelines compiled so far. */
  created = 0;
  readonly #device: GPUDevice;
  readonly #layouts = new Map<string, BindingLayout>();
  readonly #byKernel = new Map<string, Pipeline>();

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** Compiles at the first call. An error in the shader reaches the device's error handler. */
  get(kernel: string, constants: Constants): Pipeline {
    const key = kernelKey(kernel, constants);
    let found = this.#byKernel.get(key);
    if (found === undefined) {
      const shader = loadShader(kernel, constants);
      const layout = this.#layoutOf(shader);
      const { label, code } = shader;
      const module = this.#device.createShaderModule({ label, code });
      const pipeline = this.#device.createComputePipeline({ label, layout: layout.pipeline, compute: { module } });
      found = { shader, pipeline, layout };
      this.created++;
      this.#byKernel.set(key, found);
    }
    return found;
  }

  /** Names of the kernels compiled so far. */
  kernels(): Set<string> {
    return new Set(Array.from(this.#byKernel.keys(), (key) => key.split("|")[0]!));
  }

  #layoutOf(shader: Shader): BindingLayout {
    const label = `${shader.bindings.map(({ access }) => (access === "read" ? "r" : "w")).join("")}${shader.params.length > 0 ? "+p" : ""}`;
    let layout = this.#layouts.get(label);
    if (layout === undefined) {
      const entries = shader.bindings.map(({ access }, binding): GPUBindGroupLayoutEntry => {
        const type = access === "read" ? "read-only-storage" : "storage";
        return { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } };
      });
      const group = this.#device.createBindGroupLayout({ label, entries });
      const pipeline = this.#device.createPipelineLayout({
        label,
        bindGroupLayouts: [group],
        immediateSize: shader.params.length > 0 ? IMMEDIATE_BYTES : 0,
      });
      layout = { id: this.#layouts.size, group, pipeline };
      this.#layouts.set(label, layout);
    }
    return layout;
  }
}

/** Constants in the order in which the caller wrote them: each kernel has one caller. */
function kernelKey(kernel: string, constants: Constants): string {
  let key = kernel;
  for (const name in constants) key += `|${name}=${constants[name]}`;
  return key;
}
