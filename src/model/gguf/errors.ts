/** The error of a GGUF file that is damaged, or that holds what is not supported. */
import { AgentRLError } from "../../errors.ts";

export const fetchAgain = "Fetch the file again; compare its size and checksum with the source's.";

export function ggufError(where: string, what: string, got: unknown, expected: string, hint: string): AgentRLError {
  return new AgentRLError("MODEL_FILE", what, { where, got, expected, hint });
}
