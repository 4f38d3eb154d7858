/** What computed a run: a line of `sessions.jsonl` in the run folder for each time that it was started or resumed. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { addon } from "../device/addon.ts";
import type { ResolvedDevice } from "./open-device.ts";

export interface SessionRecord {
  /** ISO 8601 */
  started: string;
  /** Steps that had been done. */
  step: number;
  configHash: string;
  node: string;
  platform: string;
  /** The native device's instruction set, or the WebGPU adapter and its profile of toggles. */
  device: { kind: "native"; simd: string } | { kind: "webgpu"; adapter: string; profile: string };
}

export function recordSession(
  out: string,
  session: { step: number; configHash: string; device: ResolvedDevice },
): void {
  const { step, configHash, device } = session;
  const record: SessionRecord = {
    started: new Date().toISOString(),
    step,
    configHash,
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
    device:
      device.kind === "native"
        ? { kind: "native", simd: addon.simd() }
        : { kind: "webgpu", adapter: device.description, profile: device.adapter.profile ?? "safe" },
  };
  appendFileSync(join(out, "sessions.jsonl"), `${JSON.stringify(record)}\n`);
}
