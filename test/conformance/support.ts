/**
 * What the conformance tests share: the devices that they run on, seeded inputs, and comparison of bits.
 *
 * Every operator is tested on the native device, in each of its settings (instruction set × threads), which must give
 * the same bits, and on every WebGPU adapter found, against the same float64 references and laws.
 */
import { describe, expect } from "vitest";
import { addon } from "../../src/device/addon.ts";
import type { Device, Tensor } from "../../src/device/device.ts";
import { NativeDevice } from "../../src/device/native.ts";
import type { WebGpuDevice } from "../../src/device/webgpu/webgpu-device.ts";
import { onEveryAdapter } from "../device/webgpu/adapters.ts";

type Result = Float32Array | Uint32Array;

/** A device under test. Tensors that a run allocates are freed after it. */
export interface Target {
  readonly kind: Device["kind"];
  /** Runs once in every setting, asserts that all give the same bits, and returns them. */
  inEverySetting<R extends Result>(run: (device: Device) => Promise<R[]>): Promise<R[]>;
  /** Runs in one setting. */
  withDevice<T>(run: (device: Device) => Promise<T>): Promise<T>;
  /** Cases of a property: fewer on WebGPU, where most of a case's time goes to the driver. */
  runs(native: number): { numRuns: number };
  /**
   * Relative error that exp(x) may have beyond a correctly rounded one: none on the native device; WGSL allows
   * 3 + 2 |x| ULP (W3C WGSL, §15.7.4.1).
   */
  expError(x: number): number;
  /**
   * What bounds derived for exp, log and division of 1 ULP are multiplied by. WGSL allows a division 2.5 ULP, a log 3 and
   * an exp of the small arguments that a softmax turns on about 8.
   */
  readonly looseness: number;
}

/** Registers the tests once for each device. */
export function onEveryDevice(suite: string, tests: (target: Target) => void): void {
  describe(`${suite} on native`, () => tests(native));
  onEveryAdapter(suite, (device) => tests(webgpu(device)));
}

const native: Target = {
  kind: "native",
  inEverySetting,
  async withDevice(run) {
    const device = new NativeDevice({ threads: 2 });
    try {
      return await run(device);
    } finally {
      device.destroy();
    }
  },
  runs: (numRuns) => ({ numRuns }),
  expError: () => 0,
  looseness: 1,
};

function webgpu(device: () => WebGpuDevice): Target {
  const withDevice: Target["withDevice"] = async (run) => {
    const tensors: Tensor[] = [];
    try {
      return await run(recordingAllocations(device(), tensors));
    } finally {
      for (const tensor of tensors) device().free(tensor);
    }
  };
  return {
    kind: "webgpu",
    inEverySetting: withDevice,
    withDevice,
    runs: (numRuns) => ({ numRuns: Math.ceil(numRuns / 4) }),
    expError: (x) => (3 + 2 * Math.abs(x)) * 2 ** -23,
    looseness: 8,
  };
}

/** The device, with everything that is allocated through it noted in `tensors`. */
function recordingAllocations(device: Device, tensors: Tensor[]): Device {
  const alloc: Device["alloc"] = (...args) => {
    const tensor = device.alloc(...args);
    tensors.push(tensor);
    return tensor;
  };
  return new Proxy(device, {
    get(target, name) {
      if (name === "alloc") return alloc;
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

interface Setting {
  label: string;
  open(): Device;
}

/** Best instruction set first; 1 thread and 3 threads (more than this machine may have: tiles move between them). */
const settings: Setting[] = addon.simdLevels().flatMap((simd) =>
  [1, 3].map((threads) => ({
    label: `${simd}, ${threads} threads`,
    open() {
      addon.setSimd(simd);
      return new NativeDevice({ threads });
    },
  })),
);

/** Random numbers in (-scale, scale), a pure function of the seed (mulberry32). */
export function randomF32(length: number, seed: number, scale = 1): Float32Array {
  const next = generator(seed);
  return Float32Array.from({ length }, () => (2 * next() - 1) * scale);
}

export function randomU32(length: number, seed: number, below: number): Uint32Array {
  const next = generator(seed);
  return Uint32Array.from({ length }, () => Math.floor(next() * below));
}

export function generator(seed: number): () => number {
  let state = (seed * 2654435761) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A tensor with these values. */
export function upload(device: Device, data: Float32Array | Uint32Array): Tensor {
  const tensor = device.alloc(data.length, data instanceof Float32Array ? "f32" : "u32");
  device.write(tensor, data);
  return tensor;
}

/** Runs in every setting of the native device, asserts that all give the same bits, and returns them. */
export async function inEverySetting<R extends Result>(run: (device: Device) => Promise<R[]>): Promise<R[]> {
  let first: R[] | undefined;
  for (const setting of settings) {
    const device = setting.open();
    try {
      const results = await run(device);
      if (first === undefined) first = results;
      else results.forEach((result, i) => void expectSameBits(result, first![i]!, `output ${i}, ${setting.label}`));
    } finally {
      device.destroy();
      addon.setSimd(addon.simdLevels()[0]!);
    }
  }
  return first!;
}

export function expectSameBits(got: Result, expected: Result, label: string): void {
  expect(got.length, label).toBe(expected.length);
  const a = new Uint32Array(got.buffer, got.byteOffset, got.length);
  const b = new Uint32Array(expected.buffer, expected.byteOffset, expected.length);
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) expect.fail(`${label}: element ${i} is ${got[i]}, not ${expected[i]} bit for bit`);
  }
}

/** |got - expected| <= tolerance, one number or one per element. */
export function expectClose(
  got: ArrayLike<number>,
  expected: ArrayLike<number>,
  tolerance: number | ArrayLike<number>,
  label: string,
): void {
  expect(got.length, label).toBe(expected.length);
  for (let i = 0; i < got.length; i++) {
    const limit = typeof tolerance === "number" ? tolerance : tolerance[i]!;
    if (!(Math.abs(got[i]! - expected[i]!) <= limit)) {
      expect.fail(`${label}: element ${i} is ${got[i]}, expected ${expected[i]} within ${limit}`);
    }
  }
}

/** Central differences of a float64 function at x: the gradient to about 1e-9 of its scale. */
export function finiteDifferences(f: (x: Float64Array) => number, x: ArrayLike<number>): Float64Array {
  const at = Float64Array.from(x);
  const h = 1e-5;
  return at.map((value, i) => {
    at[i] = value + h;
    const above = f(at);
    at[i] = value - h;
    const below = f(at);
    at[i] = value;
    return (above - below) / (2 * h);
  });
}
