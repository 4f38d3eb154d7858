/**
 * Dawn instances. Dawn's event loop keeps a bare pointer to the instance, which V8 frees once no JavaScript object holds
 * it, under a device that still lives: every instance is therefore held for the life of the process.
 */
import { AgentRLError } from "../../errors.ts";

export interface InstanceOptions {
  /** `null` compiles and validates shaders without any driver. */
  backend?: "null" | "vulkan" | "metal" | "d3d12";
  /** Part of the name of the adapter to take. */
  adapter?: string;
  enabledToggles?: readonly string[];
  disabledToggles?: readonly string[];
}

const held = new Set<GPU>();

/** @throws AgentRLError DEVICE when the package has no build for this system, or the backend or adapter is unknown. */
export async function openInstance(options: InstanceOptions = {}): Promise<GPU> {
  const { create } = await loadPackage();
  const flags: string[] = [];
  if (options.backend !== undefined) flags.push(`backend=${options.backend}`);
  if (options.adapter !== undefined) flags.push(`adapter=${options.adapter}`);
  if (options.enabledToggles?.length) flags.push(`enable-dawn-features=${options.enabledToggles.join(",")}`);
  if (options.disabledToggles?.length) flags.push(`disable-dawn-features=${options.disabledToggles.join(",")}`);
  try {
    const instance = create(flags);
    held.add(instance);
    return instance;
  } catch (cause) {
    throw new AgentRLError("DEVICE", "WebGPU could not be started with these options", {
      where: flags.join(" "),
      got: cause instanceof Error ? cause.message : String(cause),
      hint: "see the names that the message lists",
      cause,
    });
  }
}

async function loadPackage(): Promise<typeof import("webgpu")> {
  try {
    return await import("webgpu");
  } catch (cause) {
    throw new AgentRLError("DEVICE", "The WebGPU implementation (npm package `webgpu`) cannot be loaded here", {
      where: `${process.platform}-${process.arch}`,
      got: cause instanceof Error ? cause.message : String(cause),
      expected: "Linux, macOS or Windows on x64 or arm64",
      hint: "use --device native",
      cause,
    });
  }
}
