/** The rollout processes of a run: started, given work as they have room for it, and restarted when they crash or hang. */
import { AgentRLError, type ErrorCode } from "../errors.ts";
import { BusyShare } from "./busy-share.ts";
import { type Child, type ChildEnd, endChild, relayed } from "./children.ts";
import type { Clock } from "./clock.ts";
import { addFaults, type FaultCounts, noFaults } from "./faults.ts";
import { Liveness } from "./liveness.ts";
import type { FromRollout, GroupLease, RolloutStats, ToRollout } from "./messages.ts";

/** Errors of the input, of what lies outside, or of the machine: restarting a rollout process would not mend them. */
const finalCodes: readonly string[] = [
  "CONFIG",
  "MODEL_FILE",
  "TOKENIZER",
  "SAMPLE_FILE",
  "ENVIRONMENT",
  "ENDPOINT",
  "MEMORY",
  "NATIVE_ADDON",
] satisfies ErrorCode[];

export interface FleetOptions {
  processes: number;
  clock: Clock;
  start(worker: number): Child<ToRollout, FromRollout>;
  /** Restarts of a process without one of its episodes in between, after which its crash is taken for permanent. */
  maxIdleRestarts: number;
  /** Milliseconds without progress after which a process with work is taken for hung. */
  stallMs: number;
  /** For people: what a process is playing. */
  playing(worker: number): string;
  /** Counts of what goes wrong in and with the processes. */
  faults: FaultCounts;
  events: FleetEvents;
}

export interface FleetEvents {
  /** A process has set itself up. */
  ready(worker: number): void;
  /** A process has room for groups. */
  room(worker: number): void;
  /** All samples of a group are on their way to the learner, or it has faulted. */
  ended(worker: number, group: number): void;
  evaluated(message: Extract<FromRollout, { type: "evaluated" }>): void;
  faulted(message: Extract<FromRollout, { type: "faulted" }>): void;
  /** A process is gone with all that it was playing; another is started in its place. */
  lost(worker: number): void;
  notice(message: string): void;
  /** The run cannot go on. */
  failed(error: unknown): void;
}

export type FleetStats = Omit<RolloutStats, "busyMs">;

interface Member {
  child: Child<ToRollout, FromRollout>;
  liveness: Liveness;
  /** It has set itself up and takes work. */
  ready: boolean;
  room: number;
  /** Groups and evaluations that it has been given and not ended. */
  working: number;
  idleRestarts: number;
  stats: FleetStats;
  engine: BusyShare;
  replaced: boolean;
}

export class RolloutFleet {
  readonly #options: FleetOptions;
  readonly #members: Member[] = [];
  readonly #lost = noStats();
  #ending = false;

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  get workers(): IterableIterator<number> {
    return this.#members.keys();
  }

  /** Sums over the processes, those that are gone included. */
  get stats(): FleetStats {
    return this.#living.reduce((sum, { stats }) => added(sum, stats), added(noStats(), this.#lost));
  }

  /** Share of the time since the last call in which the engines computed, a mean over the processes; null before they tell. */
  takeEngineShare(): number | null {
    const shares = this.#living.map(({ engine }) => engine.take()).filter((share) => share !== null);
    return shares.length === 0 ? null : shares.reduce((sum, share) => sum + share, 0) / shares.length;
  }

  start(): void {
    for (let worker = 0; worker < this.#options.processes; worker++) this.#start(worker, 0);
  }

  /** Groups that the process takes now. A dead one keeps its place until the next starts: what it were given would be lost. */
  roomOf(worker: number): number {
    const member = this.#members[worker]!;
    return member.replaced ? 0 : member.room;
  }

  give(worker: number, leases: GroupLease[]): void {
    const member = this.#members[worker]!;
    member.room -= leases.length;
    member.working += leases.length;
    member.child.send({ type: "lease", leases });
  }

  /** Asks the first process, unless it is being replaced: its successor will be `ready`. */
  evaluate(step: number): void {
    const member = this.#members[0]!;
    if (!member.ready || member.replaced) return;
    member.working++;
    member.child.send({ type: "evaluate", step });
  }

  /** An episode of the process came through: whatever crashes is not a crash at every start. */
  delivered(worker: number): void {
    this.#members[worker]!.idleRestarts = 0;
  }

  /** Time goes by: what hangs is killed, and so restarted. */
  tick(ms: number): void {
    for (const { child, liveness, ready, working, replaced } of this.#members) {
      if (replaced || !liveness.tick(ms, !ready || working > 0)) continue;
      this.#options.faults.hungProcesses++;
      this.#options.events.notice(`${liveness.describe(child.name)}; it is killed`);
      // Until its end is told it is not found hung again.
      liveness.moved();
      child.kill();
    }
  }

  get livenesses(): Liveness[] {
    return this.#members.map(({ liveness }) => liveness);
  }

  /** For people: what each process waits for. */
  describe(): string {
    return this.#members
      .map(({ child, liveness, replaced }) => `${child.name} ${replaced ? "is being restarted" : liveness.doing}`)
      .join("; ");
  }

  async end(): Promise<void> {
    this.#ending = true;
    await Promise.all(this.#members.map(({ child }) => endChild(child, this.#options.clock)));
  }

  get #living(): Member[] {
    return this.#members.filter(({ replaced }) => !replaced);
  }

  #start(worker: number, idleRestarts: number): void {
    const child = this.#options.start(worker);
    const member: Member = {
      child,
      liveness: new Liveness(this.#options.stallMs),
      ready: false,
      room: 0,
      working: 0,
      idleRestarts,
      stats: noStats(),
      engine: new BusyShare(this.#options.clock.now()),
      replaced: false,
    };
    this.#members[worker] = member;
    child.onMessage((message) => this.#receive(worker, member, message));
    child.ended.then((how) => this.#ended(worker, member, how)).catch((error) => this.#options.events.failed(error));
  }

  #receive(worker: number, member: Member, message: FromRollout): void {
    if (this.#ending || member.replaced) return;
    const { events } = this.#options;
    if (message.type === "pulse") {
      member.liveness.pulse(message);
      return;
    }
    if (message.type === "stats") {
      member.stats = message;
      member.engine.report(this.#options.clock.now(), message.busyMs);
      return;
    }
    member.liveness.moved();
    if (message.type === "room") {
      member.room += message.groups;
      if (message.ended !== undefined) {
        member.working--;
        events.ended(worker, message.ended);
      }
      if (!member.ready) {
        member.ready = true;
        events.ready(worker);
      }
      events.room(worker);
    } else if (message.type === "evaluated") {
      member.working--;
      events.evaluated(message);
    } else if (message.type === "faulted") {
      events.faulted(message);
    } else if (message.type === "failed" && finalCodes.includes(message.code)) {
      events.failed(relayed(message, member.child.name));
    }
  }

  #ended(worker: number, member: Member, how: ChildEnd): void {
    if (this.#ending || member.replaced) return;
    member.replaced = true;
    const { child, idleRestarts, stats } = member;
    const { events, clock, maxIdleRestarts, faults } = this.#options;
    const cause = `exit ${how.signal ?? how.code}`;
    const playing = this.#options.playing(worker);
    added(this.#lost, stats);
    events.lost(worker);
    if (idleRestarts >= maxIdleRestarts) {
      events.failed(
        new AgentRLError("PIPELINE", "A rollout process keeps crashing", {
          where: `${child.name}, ${cause}, ${idleRestarts + 1} times without an episode`,
          got: `${child.lastLines() || "not a word on stderr"}${playing && `\n            while it played ${playing}`}`,
          hint:
            how.signal === "SIGKILL"
              ? "look for an environment that kills its process, and for memory that ran out; then go on with --resume"
              : "mend the cause above, then go on with --resume",
        }),
      );
      return;
    }
    faults.rolloutRestarts++;
    events.notice(`${child.name} ended (${cause}) and is restarted ${child.lastLines()}`.trim());
    clock.after(100 * 2 ** idleRestarts, () => {
      if (!this.#ending) this.#start(worker, idleRestarts + 1);
    });
  }
}

function noStats(): FleetStats {
  return { abortedTokens: 0, weightsVerified: 0, faults: noFaults() };
}

/** Adds to `sum`. */
function added(sum: FleetStats, more: FleetStats): FleetStats {
  sum.abortedTokens += more.abortedTokens;
  sum.weightsVerified += more.weightsVerified;
  addFaults(sum.faults, more.faults);
  return sum;
}
