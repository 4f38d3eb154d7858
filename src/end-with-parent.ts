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

/** @param graceMs What an orderly end, begun when the channel closes, may take. */
export function endWithParent(graceMs = 10_000): void {
  // The loaders of the main thread are of no use to it.
  new Worker(watch, { eval: true, execArgv: [], workerData: { parent: process.ppid, graceMs } }).unref();
}
