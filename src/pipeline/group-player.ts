/**
 * What a rollout process makes of the groups that it is given, whatever plays them: samples of a group side by side, a fault
 * of the environment met with another try of that sample alone, a deadline over every try, and every sample into the ring.
 * The simulator runs this same code over models of engine and environment.
 */
import { AgentRLError } from "../errors.ts";
import { mix32 } from "../rl/sampler.ts";
import { type Clock, sleep, within } from "./clock.ts";
import { isEnvironmentFault, isTimeout } from "./environment-faults.ts";
import { type FaultCounts, type FaultName, noFaults } from "./faults.ts";
import type { FromRollout, GroupLease } from "./messages.ts";
import type { Waits } from "./waits.ts";

/** A group whose prompt is known and held. */
export interface OpenGroup {
  /**
   * Plays a sample and returns its record. Ends soon once the signal is given, with whatever outcome.
   * @throws AgentRLError ENVIRONMENT or ENDPOINT for what another try may mend.
   */
  play(sample: number, attempt: number, signal: AbortSignal): Promise<Uint8Array>;
  close(): void;
}

export interface GroupPlayerOptions {
  clock: Clock;
  /** Tries for a sample, or for a group's first messages, before the group is given up. */
  tries: number;
  /** Milliseconds that one try may take. */
  tryMs: number;
  /** @throws AgentRLError ENVIRONMENT */
  open(lease: GroupLease): Promise<OpenGroup>;
  /** Into the ring; resolves when it is in, and rejects after a time of its own. */
  deliver(record: Uint8Array): Promise<void>;
  send(message: FromRollout): void;
  /** Where the phases of samples are noted. */
  waits: Waits;
  /** A bug or a broken machine: this process ends. */
  fail(error: unknown): void;
}

export class GroupPlayer {
  readonly faults: FaultCounts = noFaults();
  readonly #options: GroupPlayerOptions;

  constructor(options: GroupPlayerOptions) {
    this.#options = options;
  }

  take(leases: readonly GroupLease[]): void {
    for (const lease of leases) this.#take(lease).catch((error) => this.#options.fail(error));
  }

  async #take(lease: GroupLease): Promise<void> {
    const { send } = this.#options;
    try {
      await this.#play(lease);
    } catch (error) {
      if (!isEnvironmentFault(error)) throw error;
      send({ type: "faulted", group: lease.group, index: lease.index, error: error.message });
    }
    send({ type: "room", groups: 1, ended: lease.group });
  }

  /** @throws AgentRLError ENVIRONMENT where a sample failed in every try. */
  async #play(lease: GroupLease): Promise<void> {
    const { open, tryMs } = this.#options;
    const group = await this.#retried(lease, () => {
      const opening = open(lease);
      return this.#within(tryMs, opening, lease, () => {
        opening.then(
          (late) => late.close(),
          () => {},
        );
      });
    });
    try {
      const faults = await Promise.all(
        lease.samples.map((sample) =>
          this.#retried(lease, (attempt) => this.#playSample(group, lease, sample, attempt)).catch((error: unknown) => {
            // The others end first: their tokens go on being sampled under the root.
            if (isEnvironmentFault(error)) return error;
            throw error;
          }),
        ),
      );
      for (const fault of faults) if (fault !== undefined) throw fault;
    } finally {
      group.close();
    }
  }

  async #playSample(group: OpenGroup, lease: GroupLease, sample: number, attempt: number): Promise<void> {
    const { deliver, tryMs, waits } = this.#options;
    const abort = new AbortController();
    const record = await this.#within(tryMs, group.play(sample, attempt, abort.signal), lease, () => abort.abort());
    await waits.during("the ring", () => deliver(record));
  }

  /** Does anew, after a pause that grows, what the environment or an endpoint fails in. @throws the last fault. */
  async #retried<T>(lease: GroupLease, work: (attempt: number) => Promise<T>): Promise<T> {
    const { clock, tries, waits } = this.#options;
    for (let attempt = 1; ; attempt++) {
      try {
        return await work(attempt);
      } catch (error) {
        const fault = faultOf(error);
        if (fault === null) throw error;
        this.faults[fault]++;
        if (attempt >= tries) throw error;
        const pause = 50 * 2 ** attempt * (1 + mix32(lease.seed, attempt) / 2 ** 32);
        await waits.during("a pause before another try", () => sleep(clock, pause));
      }
    }
  }

  async #within<T>(ms: number, work: Promise<T>, { group, index }: GroupLease, late: () => void): Promise<T> {
    return await within(this.#options.clock, ms, work, () => {
      late();
      // Its own rejection, now or later, has nobody else to hear it.
      work.catch(() => {});
      return new EpisodeTimeout(group, index, ms);
    });
  }
}

/** A fault of whatever the episode hung in: the sample is played anew like after any other. */
class EpisodeTimeout extends AgentRLError {
  constructor(group: number, index: number, ms: number) {
    super("ENVIRONMENT", "An episode did not end in time", {
      where: `group ${group}, task ${index}`,
      expected: `an end within ${ms / 1000} s (recovery.episodeSeconds)`,
    });
  }
}

/** What it counts as where another try may mend it; null for a bug or a broken machine. */
function faultOf(error: unknown): FaultName | null {
  if (!(error instanceof AgentRLError)) return null;
  if (error instanceof EpisodeTimeout) return "episodeTimeouts";
  if (error.code === "ENDPOINT") return "endpointFaults";
  if (!isEnvironmentFault(error)) return null;
  return isTimeout(error) ? "environmentTimeouts" : "environmentFaults";
}
