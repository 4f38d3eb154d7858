/** The rollout process of a simulation: the real player of groups over models of the engine and the environment. */
import { drawDelay } from "../env/delayed.ts";
import type { Environment } from "../env/environment.ts";
import { Rng } from "../env/rng.ts";
import { every, sleep } from "../pipeline/clock.ts";
import { assertNoFault, closeSession, deadlineOf, startSession, withDeadline } from "../pipeline/environment-faults.ts";
import { GroupPlayer, type OpenGroup } from "../pipeline/group-player.ts";
import { type FromRollout, type GroupLease, pulseMs, type ToRollout } from "../pipeline/messages.ts";
import { Waits } from "../pipeline/waits.ts";
import { encodeTrajectory } from "../rl/record.ts";
import { mix32 } from "../rl/sampler.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import type { FaultPlan } from "./fault-plan.ts";
import type { Lineage, SimBoard } from "./sim-board.ts";
import { simEnvironment } from "./sim-environment.ts";
import type { SimProcess } from "./sim-process.ts";
import type { SimRing } from "./sim-ring.ts";
import type { Timing } from "./timing.ts";

export interface SimRolloutOptions {
  process: SimProcess<ToRollout, FromRollout>;
  ring: SimRing;
  board: SimBoard;
  faults: FaultPlan;
  timing: Timing;
  /** Groups that it plays at once. */
  places: number;
  tries: number;
  tryMs: number;
  fatalEvery: number;
  seed: number;
  name: string;
}

const ringTimeoutMs = 120_000;

export function startSimRollout(options: SimRolloutOptions): void {
  const rollout = new SimRollout(options);
  options.process.handle((message) => rollout.receive(message));
}

class SimRollout {
  readonly #options: SimRolloutOptions;
  readonly #rng: Rng;
  readonly #environment: Environment;
  readonly #waits: Waits;
  readonly #player: GroupPlayer;
  #turns = 0;

  constructor(options: SimRolloutOptions) {
    const { process, ring, tries, tryMs, seed, faults, timing, name } = options;
    const { clock } = process;
    this.#options = options;
    this.#rng = new Rng("rollout", seed);
    this.#environment = simEnvironment({ name, clock, faults, timing, rng: this.#rng });
    this.#waits = new Waits(clock);
    this.#player = new GroupPlayer({
      clock,
      tries,
      tryMs,
      open: (lease) => this.#open(lease),
      deliver: (record) => ring.push(record, clock, ringTimeoutMs),
      send: (message) => {
        this.#report();
        process.emit(message);
      },
      waits: this.#waits,
      fail: (error) => process.crash(String(error)),
    });
  }

  receive(message: ToRollout): void {
    if (message.type === "setup") this.#setUp().catch((error) => this.#options.process.crash(String(error)));
    else if (message.type === "lease") this.#player.take(message.leases);
  }

  async #setUp(): Promise<void> {
    const { process, board, timing, places } = this.#options;
    await sleep(process.clock, timing.setUp);
    while (board.newest === null) await sleep(process.clock, 10);
    every(process.clock, pulseMs, () => {
      this.#report();
      const progress = this.#turns + this.#waits.ended;
      process.emit({ type: "pulse", progress, doing: `waits for ${this.#waits.describe()}` });
    });
    process.emit({ type: "room", groups: places });
  }

  #report(): void {
    const unmodelled = { abortedTokens: 0, weightsVerified: 0, busyMs: 0 };
    this.#options.process.emit({ type: "stats", ...unmodelled, faults: { ...this.#player.faults } });
  }

  async #open(lease: GroupLease): Promise<OpenGroup> {
    const { process, fatalEvery } = this.#options;
    const { clock } = process;
    const environment = this.#environment;
    if ((lease.index + 1) % fatalEvery === 0) {
      await sleep(clock, 100);
      process.crash(`task ${lease.index} ended the process`);
    }
    const first = await this.#waits.during(`environment ${environment.name}`, () =>
      startSession(environment, "train", lease.index, lease.seed, clock),
    );
    await closeSession(first, environment, clock);
    return { play: (sample, attempt) => this.#play(lease, sample, attempt), close: () => {} };
  }

  /** What is sampled depends on the weights, the group, the sample and the try: never on when or where. */
  async #play(lease: GroupLease, sample: number, attempt: number): Promise<Uint8Array> {
    const { process, timing } = this.#options;
    const { clock } = process;
    const environment = this.#environment;
    const session = await this.#waits.during(`environment ${environment.name}`, () =>
      startSession(environment, "train", lease.index, lease.seed, clock),
    );
    try {
      const key = mix32(mix32(lease.group, sample), attempt);
      const versions: Lineage[] = [];
      for (let left = key % timing.turns; ; left--) {
        versions.push(await this.#waits.during("generation", () => this.#turn()));
        const step = session.step({ text: `${left} ${sample}`, calls: [] });
        const result = await this.#waits.during(`environment ${environment.name}`, () =>
          withDeadline(step, deadlineOf(environment), `${environment.name} step`, clock),
        );
        assertNoFault(result, environment.name);
        if (result.done)
          return encodeTrajectory(this.#trajectory(lease, sample, { key, versions, reward: result.reward }));
      }
    } finally {
      await closeSession(session, environment, clock);
    }
  }

  /** @returns the weights that it ends with. */
  async #turn(): Promise<Lineage> {
    const { process, board, timing, faults } = this.#options;
    if (faults.strikes("engineStall")) await new Promise<never>(() => {});
    await sleep(process.clock, drawDelay(timing.turn, this.#rng));
    this.#turns++;
    return board.newest!;
  }

  #trajectory(
    { group, index, seed }: GroupLease,
    sample: number,
    { key, versions, reward }: { key: number; versions: Lineage[]; reward: number },
  ): Trajectory {
    const n = versions.length;
    const end = { start: 0, end: n, reward, parseFailure: false };
    return {
      task: this.#options.name,
      split: "train",
      index,
      group,
      sample,
      seed,
      tokens: Uint32Array.from(versions, ({ weights }, turn) =>
        mix32(key + turn, Number.parseInt(weights || "0", 16) >>> 0),
      ),
      sampled: new Uint8Array(n).fill(1),
      logProbs: new Float32Array(n).fill(-1),
      keptMass: new Float32Array(n).fill(1),
      policy: new Uint8Array(n),
      version: Uint32Array.from(versions, ({ version }) => version),
      oldestVersion: new Uint32Array(n).fill(versions[0]!.version),
      temperature: 1,
      turns: [end],
      reward,
      endReason: "completed",
      metrics: {},
      timings: { ended: 0, total: 0, environment: 0, generation: 0 },
    };
  }
}
