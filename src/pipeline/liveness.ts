/** Whether something moves in a child process: its pulses tell, and every other message from it. */
import type { Pulse } from "./messages.ts";

export class Liveness {
  readonly #stallMs: number;
  #progress = -1;
  /** Milliseconds of work without progress, and since anything was heard at all. */
  #still = 0;
  #silent = 0;
  #moved = true;
  #doing = "sets itself up";

  /** @param stallMs Milliseconds without progress after which a process that has work, or is silent, is taken for hung. */
  constructor(stallMs: number) {
    this.#stallMs = stallMs;
  }

  /** What it last said that it does. */
  get doing(): string {
    return this.#doing;
  }

  pulse({ progress, doing }: Pulse): void {
    this.#doing = doing;
    this.#silent = 0;
    if (progress === this.#progress) return;
    this.#progress = progress;
    this.moved();
  }

  moved(): void {
    this.#silent = 0;
    this.#still = 0;
    this.#moved = true;
  }

  /** Whether anything moved since the last call. */
  takeMoved(): boolean {
    const moved = this.#moved;
    this.#moved = false;
    return moved;
  }

  /** @returns whether it is hung: it has had work and has not moved, or its event loop has not turned, for too long. */
  tick(ms: number, busy: boolean): boolean {
    this.#still = busy ? this.#still + ms : 0;
    this.#silent += ms;
    return Math.max(this.#still, this.#silent) >= this.#stallMs;
  }

  /** As in "rollout 0 has not moved for 180 s; it last said that it waits for 3 for kg (the longest 181 s)". */
  describe(name: string): string {
    return `${name} has not moved for ${Math.round(Math.max(this.#still, this.#silent) / 1000)} s; it last said that it ${this.#doing}`;
  }
}
