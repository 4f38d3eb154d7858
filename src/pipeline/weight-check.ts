/**
 * The proof that what a rollout process samples with is what the learner trained: the checksum of the weights that it takes,
 * computed here, against the one that the learner published with them. Once a version, whichever engine takes it first.
 */
import { AgentRLError } from "../errors.ts";
import type { HeldWeights, WeightBoard } from "../shm/weight-board.ts";

export class WeightCheck {
  readonly #versions = new Set<number>();

  /** Versions found to be the learner's. */
  get verified(): number {
    return this.#versions.size;
  }

  /**
   * Call before the first step with weights that were taken from the board.
   * @throws AgentRLError SHARED_MEMORY when they are not what was published.
   */
  check(board: WeightBoard, { version, data, checksum }: HeldWeights): void {
    if (this.#versions.has(version)) return;
    const got = board.checksum(data);
    if (got !== checksum) {
      throw new AgentRLError("SHARED_MEMORY", "The weights to sample with are not those that the learner published", {
        where: `weight board ${board.name}, version ${version}`,
        got: `checksum ${got}`,
        expected: `checksum ${checksum}`,
        hint: "something else writes to this shared memory, or memory is faulty; go on from the last checkpoint with --resume",
      });
    }
    this.#versions.add(version);
  }
}
