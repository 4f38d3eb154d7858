/**
 * The device that a config names. `auto` is settled once, by the process that starts a run, so that all its processes
 * compute alike; the WebGPU package is loaded only where it may be used.
 */
import { existsSync } from "node:fs";
import type { DeviceSection } from "../config/sections.ts";
import type { Device, WeightType } from "../device/device.ts";
import { NativeDevice } from "../device/native.ts";
import type { AdapterOptions } from "../device/webgpu/adapter.ts";
import type { ModelConfig } from "../model/config.ts";
import { productShapes } from "../model/product-shapes.ts";

export type ResolvedDevice =
  | { kind: "native"; weights: WeightType }
  | { kind: "webgpu"; adapter: AdapterOptions; description: string };

/**
 * `auto` takes a hardware WebGPU adapter when there is one, else native: an adapter that computes on the CPU (llvmpipe,
 * SwiftShader) is many times slower than the addon.
 * @param option That the adapter is asked for by; default: webgpu.adapter.
 * @throws AgentRLError DEVICE when `webgpu` is asked for and there is no adapter, or it lacks what the section asks for.
 */
export async function resolveDevice(
  { device, native, webgpu }: DeviceSection,
  option?: string,
): Promise<ResolvedDevice> {
  const onNative: ResolvedDevice = { kind: "native", weights: native.weights };
  if (device === "native" || (device === "auto" && !mayHaveGpu())) return onNative;
  const { requireAdapter, findAdapter, describeAdapter, assertSupports } = await import("../device/webgpu/adapter.ts");
  const { profile, products, weights, kvCache } = webgpu;
  const adapter: AdapterOptions = { profile, products, weights, kvCache };
  if (webgpu.adapter !== undefined) adapter.adapter = webgpu.adapter;
  const found =
    device === "webgpu" ? await requireAdapter(adapter, option) : await findAdapter(adapter).catch(() => null);
  if (found === null) return onNative;
  const { software, description } = describeAdapter(found);
  if (device === "auto" && software) return onNative;
  assertSupports(found, adapter);
  return { kind: "webgpu", adapter, description };
}

/** Whether looking for a hardware adapter can find one. On Linux a GPU's driver shows itself as a device file. */
function mayHaveGpu(): boolean {
  if (process.platform !== "linux") return true;
  return ["/dev/dri", "/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/mali0", "/dev/kgsl-3d0"].some((file) =>
    existsSync(file),
  );
}

/** Opens the device and prepares it for a model: `rows` of a training micro-batch and of a decode step, 0 for none. */
export async function openDevice(
  device: ResolvedDevice,
  threads: number,
  model: { config: ModelConfig; rows: { train: number; decode: number } },
): Promise<Device> {
  if (device.kind === "native") return new NativeDevice({ threads, weights: device.weights });
  const { WebGpuDevice } = await import("../device/webgpu/webgpu-device.ts");
  const opened = await WebGpuDevice.open(device.adapter);
  await opened.tune(productShapes(model.config, model.rows));
  return opened;
}
