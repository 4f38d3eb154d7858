import { AgentRLError } from "../../../errors.ts";
import type { WebGpuTensor } from "../tensor.ts";

/**
 * Whether an input is the output itself: a buffer must not be bound for reading and for writing at once, so such a
 * kernel reads it through the output's binding.
 * @throws AgentRLError DEVICE when the two are different parts of one allocation.
 */
export function isInPlace(operator: string, input: WebGpuTensor, output: WebGpuTensor): boolean {
  if (input.allocation !== output.allocation) return false;
  if (input.offset === output.offset) return true;
  throw new AgentRLError("DEVICE", `${operator}: an input and an output are different parts of one allocation`, {
    where: `${operator}, ${input.label || "tensor"}`,
    got: `elements from ${input.offset} and from ${output.offset}`,
    expected: "the same tensor, or tensors allocated apart",
  });
}
