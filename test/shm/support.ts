/** Names and contents for the tests of shared memory. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { segmentName } from "../../src/shm/segment.ts";
import type { ToChild } from "./child.ts";

let names = 0;

/** A name that no other test uses. */
export function freshName(): string {
  return segmentName(`test-${process.pid}`, String(names++));
}

/** `length` bytes that only this `seed` gives. */
export function pattern(seed: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = (seed + 1) * 0x9e3779b1;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + i) | 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

/** Bytes in the record of this number that a producing child pushes. */
export const sizeOf = (number: number) => 4 + ((number * 7919) % 20_000);

export const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
export const bytesOf = (words: string) => new Uint8Array(Buffer.from(words));

export interface TestChild {
  process: ChildProcess;
  ask(message: ToChild): Promise<unknown>;
  kill(): Promise<void>;
}

/** A process that does to a ring or board what it is asked to. */
export async function startTestChild(): Promise<TestChild> {
  const child = fork(fileURLToPath(new URL("./child.ts", import.meta.url)), [], { execArgv: ["--import", "tsx"] });
  await once(child, "message");
  return {
    process: child,
    ask: async (message) => {
      const answer = once(child, "message");
      child.send(message);
      return (await answer)[0];
    },
    kill: async () => {
      const exit = once(child, "exit");
      child.kill("SIGKILL");
      await exit;
    },
  };
}
