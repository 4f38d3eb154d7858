/** The devices of a run: the learner's and those of the rollout processes, all found before a process starts. */
import type { DeviceSection } from "../config/sections.ts";
import type { TrainConfig } from "../config/train.ts";
import { isVulkanDevice } from "../device/webgpu/vulkan-device.ts";
import { AgentRLError } from "../errors.ts";
import { ownModule } from "../own-files.ts";
import { endChild, relayed, startChild } from "./children.ts";
import { type ResolvedDevice, resolveDevice } from "./open-device.ts";

export interface RunDevices {
  learner: ResolvedDevice;
  /** Rollout process i computes on entry i modulo their number. */
  rollouts: ResolvedDevice[];
}

type Config = DeviceSection & Pick<TrainConfig, "learner" | "rollout">;

/** @throws AgentRLError DEVICE as `resolveDevice` does, and where a name fits several adapters that bear it alike. */
export async function resolveDevices(config: Config): Promise<RunDevices> {
  const { webgpu, learner, rollout } = config;
  const found = new Map<string | undefined, Promise<ResolvedDevice>>();
  const resolve = (adapter: string | undefined, option: string): Promise<ResolvedDevice> => {
    const known = found.get(adapter) ?? resolveOne(withAdapter(config, adapter), option);
    found.set(adapter, known);
    return known;
  };
  const byRole = async (adapter: string | undefined, option: string): Promise<ResolvedDevice> => {
    if (adapter === undefined) return resolve(webgpu.adapter, "webgpu.adapter");
    const device = await resolve(adapter, option);
    if (!isVulkanDevice(adapter)) await assertOneOfItsName(adapter, option);
    return device;
  };
  const resolved = await byRole(learner.adapter, "learner.adapter");
  const rollouts: ResolvedDevice[] = [];
  for (const [i, adapter] of (rollout.adapters ?? [undefined]).entries()) {
    rollouts.push(await byRole(adapter, `rollout.adapters.${i}`));
  }
  return { learner: resolved, rollouts };
}

export function rolloutDevice({ rollouts }: RunDevices, worker: number): ResolvedDevice {
  return rollouts[worker % rollouts.length]!;
}

/** The learner's own part of a config, for what computes as it does. */
export function learnerSection(config: Config): DeviceSection {
  return withAdapter(config, config.learner.adapter ?? config.webgpu.adapter);
}

function withAdapter({ device, native, webgpu: { adapter: _, ...webgpu } }: DeviceSection, adapter?: string) {
  return { device, native, webgpu: { ...webgpu, ...(adapter !== undefined && { adapter }) } };
}

/** What a process sees of Vulkan devices is settled when it first asks: one by its address is looked for in another. */
async function resolveOne(section: DeviceSection, option: string): Promise<ResolvedDevice> {
  const { adapter } = section.webgpu;
  if (section.device === "native" || adapter === undefined || !isVulkanDevice(adapter)) {
    return resolveDevice(section, option);
  }
  const child = startChild<ToProbe, FromProbe>(option, ownModule("./device-probe", import.meta.url));
  try {
    const answered = new Promise<FromProbe>((answer) => child.onMessage(answer));
    child.send({ type: "resolve", section, option });
    const answer = await Promise.race([answered, child.ended]);
    if ("device" in answer) return answer.device;
    if ("message" in answer) throw relayed(answer, option);
    throw new AgentRLError("DEVICE", "The process that looked for the adapter ended", {
      where: `${option}: ${adapter}`,
      got: `exit ${answer.signal ?? answer.code} ${child.lastLines()}`.trim(),
    });
  } finally {
    await endChild(child);
  }
}

export type ToProbe = { type: "resolve"; section: DeviceSection; option: string } | { type: "stop" };
export type FromProbe = { device: ResolvedDevice } | { message: string; code: string };

/** Dawn takes the first adapter that a name fits: whoever spreads a run over several would get one of them twice. */
async function assertOneOfItsName(adapter: string, option: string): Promise<void> {
  const { adapterNames } = await import("../device/webgpu/adapter.ts");
  const names = (await adapterNames()).filter((name) => name.includes(adapter));
  if (names.length <= 1) return;
  throw new AgentRLError("DEVICE", "Several adapters have this name", {
    where: `${option}: ${adapter}`,
    got: names.join(", "),
    expected: "a name, or part of one, that a single adapter has",
    hint: "adapters of one name are told apart by their PCI address, as in pci:0000:41:00.0 (Linux; lspci -D lists them)",
  });
}
