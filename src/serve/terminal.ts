/** A person at a terminal, or a script behind a pipe: lines in, text out. */
import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";

export class Terminal {
  readonly interactive: boolean;
  readonly #output: Writable;
  readonly #interface: Interface;
  readonly #lines: AsyncIterator<string>;
  #onInterrupt: (() => void) | undefined;

  constructor(input: Readable & { isTTY?: boolean } = process.stdin, output: Writable = process.stdout) {
    this.interactive = input.isTTY === true;
    this.#output = output;
    this.#interface = createInterface(
      this.interactive ? { input, output, terminal: true } : { input, terminal: false },
    );
    // From the start: lines that come before they are asked for are kept.
    this.#lines = this.#interface[Symbol.asyncIterator]();
    this.#interface.on("SIGINT", () => {
      if (this.#onInterrupt === undefined) this.close();
      else this.#onInterrupt();
    });
  }

  print(text: string): void {
    this.#output.write(text);
  }

  /** For what is not the main thing: dimmed where there are colours. */
  dim(text: string): string {
    return this.interactive ? `\x1b[2m${text}\x1b[22m` : text;
  }

  /** The next line; null at the input's end, or after Ctrl-C. Behind a pipe the line is shown, as if it were typed. */
  async line(prompt: string): Promise<string | null> {
    if (this.interactive) {
      this.#interface.setPrompt(prompt);
      this.#interface.prompt();
    }
    const { done, value } = await this.#lines.next();
    if (done) {
      if (this.interactive) this.print("\n");
      return null;
    }
    if (!this.interactive) this.print(`${prompt}${value}\n`);
    return value;
  }

  /** While `work` is done, Ctrl-C aborts its signal and nothing else. */
  async interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    this.#onInterrupt = () => controller.abort();
    try {
      return await work(controller.signal);
    } finally {
      this.#onInterrupt = undefined;
    }
  }

  close(): void {
    this.#interface.close();
  }
}
