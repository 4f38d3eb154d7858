/**
 * A child process of ours outlives its parent by a moment at most, whatever its code is doing. That the channel to the parent
 * has closed is seen by the event loop alone, which an endless loop never reaches; so a thread looks who the parent is.
 */
import { Worker } from "node:worker_threads";

const watch = `
const { parent, graceMs } = require("node:worker_threads").workerData;
const timer = setInterval(() => {
  if (process.ppid === parent) return;
  clearInterval(timer);
  setTimeout(() => process.kill(process.pid, "SIGKILL"), graceMs);
}, 500);
`;

let parent: number | undefined;

/** @param graceMs What an orderly end, begun when the channel closes, may take. */
export function endWithParent(graceMs = 10_000): void {
  parent = process.ppid;
  // The loaders of the main thread are of no use to it.
  new Worker(watch, { eval: true, execArgv: [], workerData: { parent, graceMs } }).unref();
}

/** True in a child whose parent has ended, also before its event loop has heard of it. */
export function isOrphaned(): boolean {
  return parent !== undefined && process.ppid !== parent;
}
