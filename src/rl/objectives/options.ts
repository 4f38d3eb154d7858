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

/** The range that a ratio is clipped to, [1 - clipLow, 1 + clipHigh]. @throws AgentRLError "CONFIG" */
export function requireClip(method: string, clipLow: number, clipHigh: number): void {
  requireOption(clipLow >= 0 && clipLow <= 1, `${method}.clipLow`, clipLow, "from 0 to 1");
  requireOption(clipHigh >= 0, `${method}.clipHigh`, clipHigh, "0 or more");
}

/** The band of ratios, [low, high], outside which a token or trajectory is left out. @throws AgentRLError "CONFIG" */
export function requireBand(method: string, low: number, high: number): void {
  requireOption(low >= 0, `${method}.low`, low, "0 or more");
  requireOption(high > 0 && high >= low, `${method}.high`, high, `more than 0 and no less than low = ${low}`);
}

/** A constant as it is written in a formula: 1.28, not 1.2799999999999998. */
export function constant(value: number): string {
  return String(Number(value.toPrecision(12)));
}
