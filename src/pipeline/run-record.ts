/** What computed a run: a line of `sessions.jsonl` in the run folder for each time that it was started or resumed. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { addon } from "../device/addon.ts";
import type { ResolvedDevice } from "./open-device.ts";
import type { RunDevices } from "./run-devices.ts";

export interface SessionRecord {
  /** ISO 8601 */
  started: string;
  /** Steps that had been done. */
  step: number;
  configHash: string;
  node: string;
  platform: string;
  /** The learner's. */
  device: DeviceRecord;
  /** Of the rollout processes: process i has entry i modulo their number. */
  rolloutDevices: DeviceRecord[];
}

/** The native device's instruction set, or the WebGPU adapter, as what it was asked for, and its profile of toggles. */
export type DeviceRecord =
  | { kind: "native"; simd: string }
  | { kind: "webgpu"; adapter: string; asked?: string; profile: string };

export function recordSession(out: string, session: { step: number; configHash: string; devices: RunDevices }): void {
  const { step, configHash, devices } = session;
  const record: SessionRecord = {
    started: new Date().toISOString(),
    step,
    configHash,
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
    device: recordOf(devices.learner),
    rolloutDevices: devices.rollouts.map(recordOf),
  };
  appendFileSync(join(out, "sessions.jsonl"), `${JSON.stringify(record)}\n`);
}

function recordOf(device: ResolvedDevice): DeviceRecord {
  if (device.kind === "native") return { kind: "native", simd: addon.simd() };
  const { adapter: asked, profile = "safe" } = device.adapter;
  return { kind: "webgpu", adapter: device.description, ...(asked !== undefined && { asked }), profile };
}
