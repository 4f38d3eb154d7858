/** A program that a test runs, and what it says: lines are waited for, never time. */
import { type ChildProcess, spawn } from "node:child_process";

export class Program {
  readonly process: ChildProcess;
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** Standard output and error together. */
  said = "";
  readonly #waiting = new Set<() => void>();

  constructor(command: string, args: readonly string[], options: { env?: NodeJS.ProcessEnv; cwd?: string } = {}) {
    this.process = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"], ...options });
    for (const stream of [this.process.stdout!, this.process.stderr!]) {
      stream.on("data", (part: Buffer) => {
        this.said += part.toString();
        for (const look of this.#waiting) look();
      });
    }
    this.ended = new Promise((resolve) => {
      this.process.once("close", (code, signal) => {
        resolve(code ?? signal!);
        for (const look of this.#waiting) look();
      });
    });
  }

  /** Resolves with the match. Rejects when the program ends without saying it. */
  says(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(this.said);
        if (match !== null) resolve(match);
        else if (this.process.exitCode === null && this.process.signalCode === null) return;
        else reject(new Error(`the program ended without saying ${pattern}: ${this.said}`));
        this.#waiting.delete(look);
      };
      this.#waiting.add(look);
      look();
    });
  }
}
