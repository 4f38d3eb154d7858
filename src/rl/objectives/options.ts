/** Checks and prints the constants of objectives and corrections. */
import { AgentRLError } from "../../errors.ts";

/**
 * @param where the option's name, as in "ppo.clipLow".
 * @throws AgentRLError "CONFIG" naming the option when it does not hold.
 */
export function requireOption(holds: boolean, where: string, got: unknown, expected: string): void {
  if (holds) return;
  throw new AgentRLError("CONFIG", "An option of the learning method is out of range", { where, got, expected });
}

/** A constant as it is written in a formula: 1.28, not 1.2799999999999998. */
export function constant(value: number): string {
  return String(Number(value.toPrecision(12)));
}
