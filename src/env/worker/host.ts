/**
 * The inside of a host process: opens one environment and plays the sessions that the worker sends. What blocks or crashes
 * here takes this process's sessions with it and no others.
 */

import { endWithParent } from "../../end-with-parent.ts";
import { AgentRLError, failure } from "../../errors.ts";
import { toolsAsJson } from "../define.ts";
import type { Environment, Session, StepResult } from "../environment.ts";
import { actionFromWire, statusOf, toWire } from "../wire/messages.ts";
import type { FromHost, HostAnswers, HostedTask, HostOutput, HostRequest, ToHost } from "./host-messages.ts";

export type OpenTask = (task: HostedTask) => Environment | Promise<Environment>;

interface Played {
  session: Session;
  /** Rewards of the turns so far. */
  reward: number;
}

/** Serves the IPC channel until it closes, then ends the process. */
export function serveHost(open: OpenTask): void {
  endWithParent();
  const host = new Host(open);
  const send = (message: FromHost) => void process.send?.(message);
  process.on("message", ({ id, request }: ToHost) => {
    host.answer(request).then(
      (answer) => send({ id, answer }),
      (error: unknown) => send({ id, error: failure(error, "ENVIRONMENT") }),
    );
  });
  process.on("disconnect", () => {
    host.close().finally(() => process.exit());
  });
  // The worker decides when to end: a signal to the whole group must not cut sessions short that it still drains.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
}

class Host {
  readonly #open: OpenTask;
  readonly #sessions = new Map<number, Played>();
  #environment: Environment | undefined;
  #split = "";

  constructor(open: OpenTask) {
    this.#open = open;
  }

  async answer(request: HostRequest): Promise<HostAnswers[keyof HostAnswers]> {
    switch (request.op) {
      case "open":
        return this.#openTask(request.task);
      case "start":
        return this.#start(request);
      case "step":
        return this.#step(request);
      case "close":
        await this.#end(request.session);
        return null;
      case "ping":
        return null;
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#sessions.keys()].map((session) => this.#end(session)));
    await this.#environment?.close();
  }

  async #openTask(task: HostedTask): Promise<HostAnswers["open"]> {
    const environment = await this.#open(task);
    this.#environment = environment;
    this.#split = task.split;
    const { indices } = environment.split(task.split);
    const { tools, maxTurns, stepTimeoutMs } = environment;
    return { indices, tools: toolsAsJson(tools), maxTurns, ...(stepTimeoutMs !== undefined && { stepTimeoutMs }) };
  }

  async #start({ session: id, index, seed }: HostRequest & { op: "start" }): Promise<HostOutput> {
    const session = await this.#environment!.start(this.#split, index, seed);
    this.#sessions.set(id, { session, reward: 0 });
    return { messages: session.messages.map(toWire), status: "running", finish: false, reward: 0, metric: {} };
  }

  async #step({ session: id, messages }: HostRequest & { op: "step" }): Promise<HostOutput> {
    const played = this.#sessions.get(id);
    if (played === undefined) throw new AgentRLError("USAGE", `no session ${id} runs in this process`);
    try {
      const result = await played.session.step(actionFromWire(messages));
      played.reward += result.reward;
      if (result.done) await this.#end(id);
      return outputOf(result, played.reward);
    } catch (error) {
      await this.#end(id);
      throw error;
    }
  }

  async #end(id: number): Promise<void> {
    const played = this.#sessions.get(id);
    this.#sessions.delete(id);
    await played?.session.close();
  }
}

/** The last turn's reward is the whole episode's: clients of the protocol read no other. */
function outputOf(result: StepResult, total: number): HostOutput {
  const messages = result.messages.map(toWire);
  const metric = result.metrics ?? {};
  if (!result.done) return { messages, status: "running", finish: false, reward: result.reward, metric };
  const status = statusOf(result.endReason ?? "completed");
  return { messages, status, finish: true, reward: total, metric: { score: total, ...metric } };
}
