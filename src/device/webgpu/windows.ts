/**
 * Tensors larger than one binding may be: parameters, their gradients and moments, the embedding table. An operator
 * goes over such a tensor in windows; where they are cut changes no result.
 */
import { AgentRLError } from "../../errors.ts";
import type { Gpu } from "./gpu.ts";
import { VIEW_ALIGNMENT } from "./tensor.ts";

export interface Window {
  /** First element, or first row. */
  first: number;
  count: number;
}

/**
 * Windows over `count` rows of `width` elements that each fit a binding and start where a view may start; one where all
 * fit. `multiple`: rows of every window but the last are a multiple of it (a power of two).
 * @throws AgentRLError DEVICE when not even the fewest rows fit.
 */
export function windowsOf(gpu: Gpu, what: string, count: number, width = 1, multiple = VIEW_ALIGNMENT): Window[] {
  if (count * width <= gpu.maxBindingElements) return [{ first: 0, count }];
  const step = Math.max(multiple, VIEW_ALIGNMENT);
  const most = Math.floor(gpu.maxBindingElements / (width * step)) * step;
  if (most === 0) {
    throw new AgentRLError("DEVICE", "Rows are too wide for this adapter's bindings", {
      where: what,
      got: `${width} elements a row`,
      expected: `at most ${Math.floor(gpu.maxBindingElements / step)} (maxStorageBufferBindingSize)`,
    });
  }
  const windows: Window[] = [];
  for (let first = 0; first < count; first += most) windows.push({ first, count: Math.min(most, count - first) });
  return windows;
}
