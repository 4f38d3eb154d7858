/** The rollout processes of a run: started, given work as they have room for it, and restarted when they crash. */
import { AgentRLError, type ErrorCode } from "../errors.ts";
import { BusyShare } from "./busy-share.ts";
import { type Child, endChild, relayed, startChild } from "./children.ts";
import type { FromRollout, GroupLease, Setup, ToRollout } from "./messages.ts";

/** Restarts of a process without one episode in between, after which its crash is taken for permanent. */
const maxIdleRestarts = 5;
const finalCodes: readonly ErrorCode[] = [
  "CONFIG",
  "MODEL_FILE",
  "TOKENIZER",
  "SAMPLE_FILE",
  "ENVIRONMENT",
  "ENDPOINT",
  "MEMORY",
  "NATIVE_ADDON",
];

/** Sums over all processes, those that are gone included. */
export interface FleetStats {
  abortedTokens: number;
  /** Tries that an environment failed. */
  retries: number;
}

export interface FleetEvents {
  /** Anything came from a process. */
  alive(): void;
  /** A process has set itself up. */
  ready(worker: number): void;
  /** A process has room for groups. */
  room(worker: number): void;
  evaluated(message: Extract<FromRollout, { type: "evaluated" }>): void;
  faulted(message: Extract<FromRollout, { type: "faulted" }>): void;
  /** A process is gone with all that it was playing; another is started in its place. */
  lost(worker: number): void;
  notice(message: string): void;
  /** The run cannot go on. */
  failed(error: unknown): void;
}

interface Member {
  child: Child<ToRollout, FromRollout>;
  /** It has set itself up and takes work. */
  ready: boolean;
  room: number;
  idleRestarts: number;
  stats: FleetStats;
  engine: BusyShare;
  replaced: boolean;
}

export class RolloutFleet {
  readonly #setup: Setup;
  readonly #module: URL;
  readonly #events: FleetEvents;
  readonly #members: Member[] = [];
  readonly #lostStats: FleetStats = { abortedTokens: 0, retries: 0 };
  #restarts = 0;
  #ending = false;

  /** @param module Entry file of a rollout process. */
  constructor(setup: Setup, module: URL, events: FleetEvents) {
    this.#setup = setup;
    this.#module = module;
    this.#events = events;
  }

  get workers(): IterableIterator<number> {
    return this.#members.keys();
  }

  get restarts(): number {
    return this.#restarts;
  }

  get stats(): FleetStats {
    const all = [this.#lostStats, ...this.#members.filter(({ replaced }) => !replaced).map(({ stats }) => stats)];
    return {
      abortedTokens: all.reduce((sum, { abortedTokens }) => sum + abortedTokens, 0),
      retries: all.reduce((sum, { retries }) => sum + retries, 0),
    };
  }

  /** Share of the time since the last call in which the engines computed, a mean over the processes; null before they tell. */
  takeEngineShare(): number | null {
    const shares = this.#members.map(({ engine }) => engine.take()).filter((share) => share !== null);
    return shares.length === 0 ? null : shares.reduce((sum, share) => sum + share, 0) / shares.length;
  }

  start(processes: number): void {
    for (let worker = 0; worker < processes; worker++) this.#start(worker, 0);
  }

  /** Groups that the process takes now. A dead one keeps its place until the next starts: what it were given would be lost. */
  roomOf(worker: number): number {
    const member = this.#members[worker]!;
    return member.replaced ? 0 : member.room;
  }

  give(worker: number, leases: GroupLease[]): void {
    const member = this.#members[worker]!;
    member.room -= leases.length;
    member.child.send({ type: "lease", leases });
  }

  /** Asks the first process, unless it is being replaced: its successor will be `ready`. */
  evaluate(step: number): void {
    const { child, ready, replaced } = this.#members[0]!;
    if (ready && !replaced) child.send({ type: "evaluate", step });
  }

  /** An episode came through: whatever crashes is not a crash at every start. */
  delivered(): void {
    for (const member of this.#members) member.idleRestarts = 0;
  }

  async end(): Promise<void> {
    this.#ending = true;
    await Promise.all(this.#members.map(({ child }) => endChild(child)));
  }

  #start(worker: number, idleRestarts: number): void {
    const child = startChild<ToRollout, FromRollout>(`rollout ${worker}`, this.#module);
    const stats = { abortedTokens: 0, retries: 0 };
    const engine = new BusyShare(performance.now());
    const member: Member = { child, ready: false, room: 0, idleRestarts, stats, engine, replaced: false };
    this.#members[worker] = member;
    child.onMessage((message) => this.#receive(worker, member, message));
    child.send({ type: "setup", setup: this.#setup });
    child.ended.then((how) => this.#ended(worker, member, how)).catch((error) => this.#events.failed(error));
  }

  #receive(worker: number, member: Member, message: FromRollout): void {
    if (this.#ending || member.replaced) return;
    const events = this.#events;
    events.alive();
    if (message.type === "room") {
      member.room += message.groups;
      if (!member.ready) {
        member.ready = true;
        events.ready(worker);
      }
      events.room(worker);
    } else if (message.type === "stats") {
      member.stats = { abortedTokens: message.abortedTokens, retries: message.retries };
      member.engine.report(performance.now(), message.busyMs);
    } else if (message.type === "evaluated") {
      events.evaluated(message);
    } else if (message.type === "faulted") {
      events.faulted(message);
    } else if (message.type === "failed" && isFinal(message.code)) {
      events.failed(relayed(message, member.child.name));
    }
  }

  #ended(worker: number, member: Member, how: { code: number | null; signal: string | null }): void {
    if (this.#ending || member.replaced) return;
    member.replaced = true;
    const { child, idleRestarts, stats } = member;
    const cause = `exit ${how.signal ?? how.code}`;
    this.#lostStats.abortedTokens += stats.abortedTokens;
    this.#lostStats.retries += stats.retries;
    this.#events.lost(worker);
    if (idleRestarts >= maxIdleRestarts) {
      this.#events.failed(
        new AgentRLError("PIPELINE", "A rollout process keeps crashing", {
          where: `${child.name}, ${cause}, ${idleRestarts + 1} times without an episode`,
          got: child.lastLines(),
          hint: "mend the cause above, then go on with --resume",
        }),
      );
      return;
    }
    this.#restarts++;
    this.#events.notice(`${child.name} ended (${cause}) and is restarted ${child.lastLines()}`.trim());
    setTimeout(
      () => {
        if (!this.#ending) this.#start(worker, idleRestarts + 1);
      },
      100 * 2 ** idleRestarts,
    );
  }
}

/** Errors of the input, of what lies outside, or of the machine end the run: restarting a rollout process would not mend them. */
function isFinal(code: string): boolean {
  return finalCodes.includes(code as ErrorCode);
}
