/** Choice of the adapter, and the device opened on it with all that it offers. */
import { AgentRLError } from "../../errors.ts";
import type { Storage } from "../device.ts";
import { type InstanceOptions, openInstance } from "./instance.ts";
import { type ProfileName, profileOf } from "./profile.ts";
import { isVulkanDevice, onVulkanDevice } from "./vulkan-device.ts";

export interface AdapterOptions extends Partial<Storage> {
  profile?: ProfileName;
  /** Part of an adapter's name, or a Vulkan device (vulkan-device.ts); default: the fastest. */
  adapter?: string;
  backend?: InstanceOptions["backend"];
  /** "f16": forward products on the adapter's matrix units, operands rounded to f16, sums in f32. @default "f32" */
  products?: "f32" | "f16";
}

export interface AdapterInfo {
  vendor: string;
  architecture: string;
  device: string;
  description: string;
  /** Computes on the CPU: llvmpipe, SwiftShader, WARP. */
  software: boolean;
}

export interface OpenAdapter {
  device: GPUDevice;
  info: AdapterInfo;
  profile: ProfileName;
  subgroupSizes: { min: number; max: number };
  storage: Storage;
  /** Set where forward products are computed on matrix units. */
  matrixUnits?: SubgroupMatrixConfig;
}

/** One shape of matrix that the adapter multiplies at once. */
export interface SubgroupMatrixConfig {
  componentType: string;
  resultComponentType: string;
  M: number;
  N: number;
  K: number;
}

/** What Dawn adds to an adapter's description. */
type ExtendedInfo = GPUAdapterInfo & { subgroupMatrixConfigs?: Iterable<SubgroupMatrixConfig> };

/** Immediate data (push constants) of a dispatch: sixteen 32-bit numbers, what every adapter of Dawn has. */
export const IMMEDIATE_BYTES = 64;

const wantedFeatures = [
  "timestamp-query",
  "shader-f16",
  "subgroups",
  "subgroup-size-control",
  "chromium-experimental-subgroup-matrix",
] as const;

const noAdapterHint =
  "install a Vulkan driver (Debian and Ubuntu: mesa-vulkan-drivers, version 23 or newer), or use --device native";

/** The config's option that an adapter was asked for by, where no other is told. */
const asked = "webgpu.adapter";

/**
 * Null where there is no adapter at all.
 * @throws AgentRLError DEVICE when none is the one asked for; the message lists those there are.
 */
export async function findAdapter(options: AdapterOptions = {}, option = asked): Promise<GPUAdapter | null> {
  const { enabled, disabled } = profileOf(options.profile ?? "safe");
  const instance: InstanceOptions = { enabledToggles: enabled, disabledToggles: disabled };
  if (options.backend !== undefined) instance.backend = options.backend;
  const { adapter } = options;
  if (adapter !== undefined && isVulkanDevice(adapter)) {
    return onVulkanDevice(adapter, option, async () => {
      const found = await request(instance);
      await assertSelected(adapter, option, found);
      return found;
    });
  }
  if (adapter !== undefined) instance.adapter = adapter;
  try {
    return await request(instance);
  } catch (cause) {
    if (cause instanceof AgentRLError) throw cause;
    throw new AgentRLError("DEVICE", "No WebGPU adapter has this name", {
      where: `${option}: ${adapter}`,
      got: cause instanceof Error ? cause.message : String(cause),
      expected: "part of a name that is listed",
      cause,
    });
  }
}

async function request(options: InstanceOptions): Promise<GPUAdapter | null> {
  const gpu = await openInstance(options);
  return gpu.requestAdapter({ powerPreference: "high-performance" });
}

/** Names of the adapters that this process sees. Dawn tells them when it is asked for one that does not exist. */
export async function adapterNames(): Promise<string[]> {
  const gpu = await openInstance({ adapter: "none of this name" });
  const listing = await gpu.requestAdapter().then(
    () => "",
    (error: Error) => error.message,
  );
  return Array.from(listing.matchAll(/name: '([^']*)'/g), ([, name]) => name!);
}

/** Where no device fits, or there is no layer to hide the others, all of them are seen as before. */
async function assertSelected(device: string, option: string, found: GPUAdapter | null): Promise<void> {
  const names = await adapterNames();
  const ofCard = found !== null && !(device.startsWith("pci:") && found.info.isFallbackAdapter);
  if (names.length === 1 && ofCard) return;
  throw new AgentRLError("DEVICE", "This Vulkan device could not be selected", {
    where: `${option}: ${device}`,
    got: `adapters: ${names.join(", ") || "none"}`,
    expected: "one adapter, that of the device",
    hint: "install Mesa's device selection layer (Debian and Ubuntu: mesa-vulkan-drivers); MESA_VK_DEVICE_SELECT=list vulkaninfo lists the devices",
  });
}

/** @throws AgentRLError DEVICE when there is no adapter. */
export async function requireAdapter(options: AdapterOptions = {}, option = asked): Promise<GPUAdapter> {
  const adapter = await findAdapter(options, option);
  if (adapter !== null) return adapter;
  throw new AgentRLError("DEVICE", "No WebGPU adapter was found", { where: "device: webgpu", hint: noAdapterHint });
}

/** @throws AgentRLError DEVICE when there is no adapter, or it refuses the device. */
export async function openAdapter(options: AdapterOptions = {}): Promise<OpenAdapter> {
  const adapter = await requireAdapter(options);
  const info = describeAdapter(adapter);
  assertStorage(adapter, options);
  const matrixUnits = matrixUnitsOf(adapter, options);
  const available = adapter.features as ReadonlySet<string>;
  const requiredFeatures = wantedFeatures.filter((feature) => available.has(feature)) as GPUFeatureName[];
  try {
    const device = await adapter.requestDevice({
      label: "agentrl",
      requiredFeatures,
      requiredLimits: limitsOf(adapter),
    });
    const { subgroupMinSize = 1, subgroupMaxSize = 1 } = adapter.info as ExtendedInfo;
    return {
      device,
      info,
      profile: options.profile ?? "safe",
      subgroupSizes: { min: subgroupMinSize, max: subgroupMaxSize },
      storage: { weights: options.weights ?? "f32", kvCache: options.kvCache ?? "f32" },
      ...(matrixUnits && { matrixUnits }),
    };
  } catch (cause) {
    throw new AgentRLError("DEVICE", "The WebGPU adapter refused to open a device", {
      where: info.description,
      got: cause instanceof Error ? cause.message : String(cause),
      hint: noAdapterHint,
      cause,
    });
  }
}

/** @throws AgentRLError DEVICE when the adapter lacks what the options ask for. */
export function assertSupports(adapter: GPUAdapter, options: AdapterOptions): void {
  assertStorage(adapter, options);
  matrixUnitsOf(adapter, options);
}

function assertStorage(adapter: GPUAdapter, { weights, kvCache }: AdapterOptions): void {
  if (adapter.features.has("shader-f16")) return;
  const asked = Object.entries({ weights, kvCache }).filter(([, dtype]) => dtype === "f16");
  if (asked.length === 0) return;
  const names = asked.map(([name]) => name);
  throw new AgentRLError("DEVICE", "This adapter has no f16 tensors", {
    where: `${names.map((name) => `webgpu.${name}: f16`).join(", ")}, on ${describeAdapter(adapter).description}`,
    got: "an adapter without shader-f16",
    expected: "the feature shader-f16",
    hint: `leave ${names.map((name) => `webgpu.${name}`).join(" and ")} at f32`,
  });
}

/** The largest matrices that the adapter multiplies in f16 and sums in f32; undefined where products are in f32. */
function matrixUnitsOf(adapter: GPUAdapter, { products }: AdapterOptions): SubgroupMatrixConfig | undefined {
  if (products !== "f16") return undefined;
  const configs = [...((adapter.info as ExtendedInfo).subgroupMatrixConfigs ?? [])];
  const [largest] = configs
    .filter(({ componentType, resultComponentType }) => componentType === "f16" && resultComponentType === "f32")
    .sort((a, b) => b.M * b.N * b.K - a.M * a.N * a.K);
  if (largest !== undefined) return largest;
  throw new AgentRLError("DEVICE", "This adapter has no matrix units that multiply f16 and sum in f32", {
    where: `webgpu.products: f16, on ${describeAdapter(adapter).description}`,
    got: configs.map((c) => `${c.componentType} to ${c.resultComponentType}`).join(", ") || "no matrix units",
    expected: "chromium-experimental-subgroup-matrix with f16 to f32",
    hint: "leave webgpu.products at f32",
  });
}

export function describeAdapter(adapter: GPUAdapter): AdapterInfo {
  const { vendor, architecture, device, description, isFallbackAdapter } = adapter.info;
  return { vendor, architecture, device, description, software: isFallbackAdapter };
}

/** All that the adapter has: the defaults are the specification's minimum, far below any GPU. */
function limitsOf(adapter: GPUAdapter): Record<string, number> {
  const names: (keyof GPUSupportedLimits)[] = [
    "maxStorageBufferBindingSize",
    "maxBufferSize",
    "maxStorageBuffersPerShaderStage",
    "maxComputeWorkgroupStorageSize",
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupSizeX",
    "maxComputeWorkgroupSizeY",
    "maxComputeWorkgroupSizeZ",
    "maxComputeWorkgroupsPerDimension",
    "minStorageBufferOffsetAlignment",
  ];
  const limits: Record<string, number> = { maxImmediateSize: IMMEDIATE_BYTES };
  for (const name of names) limits[name] = adapter.limits[name] as number;
  return limits;
}
