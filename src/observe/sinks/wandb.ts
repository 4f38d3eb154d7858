/**
 * The metrics of a run at Weights & Biases, through the optional package @wandb/sdk. It runs in a thread of its own: it
 * ends the process on Ctrl-C, throws where nobody can catch, and tells of lost data on the console only.
 */
import { createRequire } from "node:module";
import { basename, resolve } from "node:path";
import type { Worker } from "node:worker_threads";
import type { WandbConfig } from "../../config/observe.ts";
import { threadOf } from "../../env/thread-of.ts";
import { AgentRLError } from "../../errors.ts";
import type { RunStep } from "../../pipeline/run-log.ts";
import { evaluationScalars, scalarsOf } from "./scalars.ts";
import type { Sink } from "./sinks.ts";

/** Milliseconds that the end of a run waits for what is under way to be sent. */
const finishMs = 20_000;

export interface WandbOptions extends WandbConfig {
  /** Folder of the run. */
  run: string;
  /** The run's config. */
  settings: object;
  notice(message: string): void;
  /** Something was not sent. */
  fault(error: unknown): void;
}

export type ToWandb =
  /** `step` null: beside the next step's. */
  { type: "log"; step: number | null; scalars: Record<string, number> } | { type: "finish" };
export type FromWandb = { type: "begun"; url: string } | { type: "fault"; message: string } | { type: "finished" };
/** What the thread begins with. */
export type WandbSetup = Pick<WandbOptions, "project" | "entity" | "name" | "settings">;

export class WandbSink implements Sink {
  readonly #thread: Worker;
  readonly #finished: Promise<void>;
  #ended = false;
  #fault: (error: unknown) => void;

  private constructor({ run, project, entity, name = basename(resolve(run)), settings, notice, fault }: WandbOptions) {
    this.#fault = fault;
    const setup: WandbSetup = { project, ...(entity !== undefined && { entity }), name, settings };
    this.#thread = threadOf(new URL("./wandb-thread", import.meta.url), {
      workerData: setup,
      stdout: true,
      stderr: true,
    });
    // A run that ends does not wait for it beyond `finishMs`.
    this.#thread.unref();
    this.#thread.stdout.resume();
    this.#thread.stderr.on("data", (text: Buffer) => {
      const [first] = text.toString().split("\n");
      if (first !== undefined && first.trim() !== "") fault(first.slice(0, 200));
    });
    this.#finished = new Promise((resolve) => {
      this.#thread.on("message", (message: FromWandb) => {
        if (message.type === "begun") notice(`Weights & Biases: ${message.url}`);
        else if (message.type === "fault") fault(message.message);
        else resolve();
      });
      this.#thread.on("error", fault);
      this.#thread.on("exit", () => {
        this.#ended = true;
        resolve();
      });
    });
  }

  /** @throws AgentRLError USAGE where the package or the key is missing. */
  static assertUsable(): void {
    try {
      createRequire(import.meta.url).resolve("@wandb/sdk");
    } catch {
      throw new AgentRLError("USAGE", "observe.wandb needs the package @wandb/sdk", { hint: "npm install @wandb/sdk" });
    }
    if (process.env.WANDB_API_KEY) return;
    throw new AgentRLError("USAGE", "observe.wandb needs an API key", {
      expected: "the environment variable WANDB_API_KEY",
      hint: "The key is at https://wandb.ai/authorize. For a server of your own set WANDB_BASE_URL as well.",
    });
  }

  static open(options: WandbOptions): WandbSink {
    return new WandbSink(options);
  }

  line(line: RunStep): void {
    if (this.#ended) {
      this.#fault("its thread has ended");
      return;
    }
    const { step } = line;
    if (line.evaluation === undefined)
      this.#send({ type: "log", step, scalars: { step, ...fromMap(scalarsOf(line)) } });
    else {
      const scalars = { "heldOut/step": step, ...fromMap(evaluationScalars(line)) };
      this.#send({ type: "log", step: null, scalars });
    }
  }

  async close(): Promise<void> {
    if (!this.#ended) this.#send({ type: "finish" });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(true), finishMs);
    });
    const timedOut = await Promise.race([this.#finished.then(() => false), late]);
    clearTimeout(timer);
    await this.#thread.terminate();
    if (timedOut) throw new Error(`what was left could not be sent in ${finishMs / 1000} s`);
  }

  #send(message: ToWandb): void {
    this.#thread.postMessage(message);
  }
}

function fromMap(map: ReadonlyMap<string, number>): Record<string, number> {
  return Object.fromEntries(map);
}
