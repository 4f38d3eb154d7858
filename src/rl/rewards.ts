/**
 * The reward that is trained on. An episode that the policy itself failed to complete (a turn, context or length limit,
 * an invalid action) gets the penalty instead of its reward, as AgentRL does; faults of the infrastructure never reach
 * a batch, so they cannot be taken for a reward.
 */
import { AgentRLError } from "../errors.ts";
import type { Trajectory } from "./trajectory.ts";

export function trainedReward(trajectory: Trajectory, incompletePenalty: number): number {
  switch (trajectory.endReason) {
    case "completed":
      return trajectory.reward;
    case "turn limit":
    case "context limit":
    case "length limit":
    case "invalid action":
      return incompletePenalty;
    default:
      throw new AgentRLError("PIPELINE", "An infrastructure fault reached a training batch", {
        where: `group ${trajectory.group}, sample ${trajectory.sample}`,
        got: trajectory.endReason,
        expected: "an ending of the policy's own",
      });
  }
}
