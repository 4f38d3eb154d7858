/**
 * The gradient of a batch, task by task: each task's own gradient is accumulated apart, its norm taken, and added to the
 * total. So the share of the step that a task has is known for what it is,
 *
 *     gradientShare_k = |g_k| / Σ_j |g_j|,        g_k: the gradient of the loss's terms that are tokens of task k
 *
 * and not guessed from rewards or token counts. The first task's gradient is the total while it is alone; one arena beside
 * the gradient's serves all others. A batch of one task needs none of it.
 */
import type { Device } from "../device/device.ts";
import { groupBy } from "../group-by.ts";
import type { GradientArena } from "../model/trained.ts";
import type { Arena } from "../model/weights.ts";
import type { Trajectory } from "../rl/trajectory.ts";

export class TaskGradients {
  readonly #device: Device;
  readonly #total: GradientArena;
  /** Of the task in progress, after the first. */
  readonly #part: GradientArena | null;

  /** @param part null in a run of one task. */
  constructor(device: Device, total: GradientArena, part: GradientArena | null) {
    this.#device = device;
    this.#total = total;
    this.#part = part;
  }

  /**
   * Leaves the sum of all tasks' gradients in the total.
   * @param accumulate adds the gradient of some trajectories to an arena.
   * @returns each task's share; the sum is 1, where there is any gradient.
   */
  async compute(
    trajectories: readonly Trajectory[],
    accumulate: (trajectories: readonly Trajectory[], into: GradientArena) => Promise<void>,
  ): Promise<Record<string, number>> {
    this.#device.fill(this.#total.arena, 0);
    const byTask = groupBy(trajectories, ({ task }) => task);
    const norms: [task: string, norm: number][] = [];
    for (const [task, ofTask] of byTask) {
      const into = norms.length === 0 ? this.#total : this.#part!;
      if (into !== this.#total) this.#device.fill(into.arena, 0);
      await accumulate(ofTask, into);
      norms.push([task, byTask.size === 1 ? 1 : await this.#norm(into)]);
      if (into === this.#total) continue;
      this.#device.add({ a: this.#total.arena, b: into.arena, out: this.#total.arena, length: into.layout.length });
    }
    const sum = norms.reduce((all, [, norm]) => all + norm, 0);
    return Object.fromEntries(norms.map(([task, norm]) => [task, sum > 0 ? norm / sum : 0]));
  }

  async #norm({ arena, layout }: Arena): Promise<number> {
    return Math.sqrt(await this.#device.sumSquares(arena, layout.length));
  }
}
