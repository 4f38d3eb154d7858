/**
 * Kernels of the CPU device are done when their call returns, so a pass over many rows of a large model holds the event loop
 * for minutes: between two layers messages and timers get their turn, and how many layers this process has computed says that
 * it moves.
 */
import { setImmediate as nextTurn } from "node:timers/promises";

/** Milliseconds that a pass may hold the event loop, but for one layer. */
const longestHoldMs = 50;

let layers = 0;
let lastTurn = 0;

export function layersComputed(): number {
  return layers;
}

/** Called after every layer, forward or backward. */
export async function layerDone(): Promise<void> {
  layers++;
  if (performance.now() - lastTurn < longestHoldMs) return;
  await nextTurn();
  lastTurn = performance.now();
}
