/** A child process of ours outlives its parent by a moment at most, whatever its JavaScript is doing (native/parent.cc). */
import { loadAddon } from "./device/addon.ts";

/** @param graceMs What an orderly end, begun when the channel to the parent closes, may take. */
export function endWithParent(graceMs = 10_000): void {
  (loadAddon().endWithParent as (graceMs: number) => void)(graceMs);
}
