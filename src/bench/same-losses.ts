import { AgentRLError } from "../errors.ts";

/** Times can be compared where both sides computed the same: the losses of every step agree. @throws AgentRLError DEVICE */
export function expectSameLosses({ ours, theirs }: { ours: number[]; theirs: number[] }): void {
  const at = ours.findIndex((loss, step) => !(Math.abs(loss - theirs[step]!) <= 2e-3 * loss));
  if (at < 0) return;
  throw new AgentRLError("DEVICE", "the two sides do not train the same model", {
    where: `loss of step ${at + 1}`,
    got: ours[at],
    expected: `${theirs[at]} within 0.2 %`,
  });
}
