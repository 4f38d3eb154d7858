/** A process of a simulation: it has messages and time as long as it lives, and none when it hangs or is dead. */
import type { Child, ChildEnd } from "../pipeline/children.ts";
import type { Clock, Timer } from "../pipeline/clock.ts";

/** Milliseconds of a message, and until a process's end is known. */
const messageMs = 1;

export class SimProcess<To extends { type: string }, From> implements Child<To, From> {
  readonly name: string;
  /** Time as this process sees it: what it waits for never comes once it hangs or is dead. */
  readonly clock: Clock;
  readonly ended: Promise<ChildEnd>;
  readonly #world: Clock;
  #state: "alive" | "hung" | "dead" = "alive";
  #end!: (how: ChildEnd) => void;
  #receive: ((message: To) => void) | null = null;
  #toParent: ((message: From) => void) | null = null;
  #lines: string[] = [];

  constructor(name: string, world: Clock) {
    this.name = name;
    this.#world = world;
    this.clock = {
      now: () => world.now(),
      after: (ms, work): Timer =>
        world.after(ms, () => {
          if (this.#state === "alive") work();
        }),
    };
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  get alive(): boolean {
    return this.#state === "alive";
  }

  /** The process's side: what it does with messages. */
  handle(receive: (message: To) => void): void {
    this.#receive = receive;
  }

  /** The process's side: a message to the supervisor. */
  emit(message: From): void {
    if (this.#state !== "alive") return;
    this.#world.after(messageMs, () => this.#toParent?.(message));
  }

  send(message: To): void {
    this.#world.after(messageMs, () => {
      if (this.#state !== "alive") return;
      if (message.type === "stop") this.#die({ code: 0, signal: null });
      else this.#receive?.(message);
    });
  }

  onMessage(handler: (message: From) => void): void {
    this.#toParent = handler;
  }

  kill(): void {
    this.#die({ code: null, signal: "SIGKILL" });
  }

  /** It ends by itself, with a last line. */
  crash(line: string): void {
    this.#lines.push(line);
    this.#die({ code: 1, signal: null });
  }

  hang(): void {
    if (this.#state === "alive") this.#state = "hung";
  }

  lastLines(): string {
    return this.#lines.join("\n");
  }

  #die(how: ChildEnd): void {
    if (this.#state === "dead") return;
    this.#state = "dead";
    this.#world.after(messageMs, () => this.#end(how));
  }
}
