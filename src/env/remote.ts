/**
 * An environment behind a controller: the same interface as one in this process, so that training and evaluation need not
 * know where sessions run. What goes wrong on the way is thrown as ENVIRONMENT, for the sample to be played anew; it is
 * never a reward.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { z } from "zod";
import { AgentRLError } from "../errors.ts";
import type { Action, Environment, Message, Session, StepResult, ToolSpec } from "./environment.ts";
import { toolFromJsonSchema } from "./json-schema-tool.ts";
import { splitHash } from "./split-hash.ts";
import { controllerUrl } from "./wire/controller-url.ts";
import { type JsonAnswer, JsonClient, NoAnswer } from "./wire/json-client.ts";
import { actionToWire, endReasonOf, fromWire } from "./wire/messages.ts";
import {
  customIndex,
  indicesAnswer,
  interactAnswer,
  sessionHeader,
  startAnswer,
  type TaskIndex,
  turnHeader,
} from "./wire/schemas.ts";
import { deploymentOf } from "./worker/task-name.ts";

export interface RemoteOptions {
  /** The controller's API, as http://host:5020/api; or http://host:5020. */
  controller: string;
  /** The task's name there. */
  task: string;
  token?: string;
  /** Turns of an episode. @default what the original deploys the task with, else 30 */
  maxTurns?: number;
  /** How long to wait, in milliseconds, while no worker is free or the controller is being restarted. @default 600000 */
  patienceMs?: number;
  /** Longest that one turn may take, in milliseconds. @default 250000: the controller gives up after 240000 */
  turnTimeoutMs?: number;
}

/** The one split of a remote task: whatever its workers serve. */
const onlySplit = "data";
const patience = 600_000;
/** A controller that is not there when a run begins is a wrong address sooner than a restart. */
const openingPatience = 20_000;
const turnTimeout = 250_000;
const listTimeoutMs = 10_000;
const cancelTimeoutMs = 10_000;

/**
 * Opens a task of a controller. Starts one sample and cancels it: only its answer tells the tools.
 * @throws AgentRLError CONFIG for a task that no worker serves or a wrong token, ENVIRONMENT where the controller cannot be reached.
 */
export async function openRemoteEnvironment(options: RemoteOptions): Promise<Environment> {
  const remote = new RemoteController(options);
  try {
    const indices = await remote.indices();
    const first = indices.find((index) => index !== customIndex);
    if (first === undefined) {
      throw new AgentRLError("CONFIG", `Task ${options.task} has no samples`, { where: options.controller });
    }
    const probe = await remote.start(first, 0);
    await probe.close();
    return new RemoteEnvironment(remote, options, indices, probe.tools).asEnvironment();
  } catch (error) {
    remote.close();
    throw error;
  }
}

class RemoteEnvironment {
  readonly #remote: RemoteController;
  readonly #options: RemoteOptions;
  readonly #wire: readonly TaskIndex[];
  readonly #indices: number[];
  readonly #tools: ToolSpec[];

  constructor(remote: RemoteController, options: RemoteOptions, wire: readonly TaskIndex[], tools: ToolSpec[]) {
    this.#remote = remote;
    this.#options = options;
    this.#wire = wire.filter((index) => index !== customIndex);
    const whole = this.#wire.every((index) => typeof index === "number" && index >= 0);
    // Names are counted: the position in the list stands for the name.
    this.#indices = whole ? (this.#wire as number[]) : this.#wire.map((_, position) => position);
    this.#tools = tools;
  }

  asEnvironment(): Environment {
    const { task, maxTurns, patienceMs = patience, turnTimeoutMs = turnTimeout } = this.#options;
    const hash = splitHash([{ task, indices: this.#wire }]);
    const known = new Map(this.#indices.map((index, position) => [index, this.#wire[position]!]));
    const require = (split: string, index?: number) => {
      if (split === onlySplit && (index === undefined || known.has(index))) return;
      throw new AgentRLError("USAGE", `${task}: no such ${split === onlySplit ? "index" : "split"}`, {
        got: split === onlySplit ? index : split,
        expected: split === onlySplit ? "one of split(name).indices" : `"${onlySplit}"`,
        hint: "A remote task has the one split that its workers serve.",
      });
    };
    return {
      name: task,
      tools: this.#tools,
      maxTurns: maxTurns ?? deploymentOf(task).maxTurns,
      // A start may have to wait until a worker is free.
      stepTimeoutMs: patienceMs + turnTimeoutMs,
      split: (name) => {
        require(name);
        return { name, indices: [...this.#indices], hash };
      },
      level: (split, index) => {
        require(split, index);
        return 0;
      },
      start: async (split, index, seed) => {
        require(split, index);
        return this.#remote.start(known.get(index)!, seed);
      },
      close: async () => this.#remote.close(),
    };
  }
}

class RemoteController {
  readonly task: string;
  readonly #client: JsonClient;
  readonly #patienceMs: number;
  readonly #turnTimeoutMs: number;
  #tools: { source: string; specs: ToolSpec[] } | undefined;
  /** The controller has had workers of the task. */
  #served = false;

  constructor(options: RemoteOptions) {
    this.task = options.task;
    this.#client = new JsonClient(controllerUrl(options.controller), options.token);
    this.#patienceMs = options.patienceMs ?? patience;
    this.#turnTimeoutMs = options.turnTimeoutMs ?? turnTimeout;
  }

  async indices(): Promise<TaskIndex[]> {
    const path = `/get_indices?name=${encodeURIComponent(this.task)}`;
    const answer = await this.#patiently(
      "get_indices",
      () => this.#client.request({ method: "GET", path, timeoutMs: listTimeoutMs }),
      Math.min(this.#patienceMs, openingPatience),
    );
    return this.#parse(indicesAnswer, answer, "get_indices");
  }

  async start(index: TaskIndex, seed: number): Promise<RemoteSession> {
    const body = { name: this.task, index, custom_task: null, seed };
    const answer = await this.#patiently("start_sample", () =>
      this.#client.request({ method: "POST", path: "/start_sample", body, timeoutMs: this.#turnTimeoutMs }),
    );
    const { messages, tools } = this.#parse(startAnswer, answer, "start_sample");
    const id = answer.headers[sessionHeader];
    if (typeof id !== "string") throw this.#fault("start_sample", "the answer names no session", answer);
    return new RemoteSession(this, id, messages.map(fromWire), this.#specs(tools ?? []));
  }

  /** Compiled once: every start brings the same tools. */
  #specs(tools: NonNullable<z.output<typeof startAnswer>["tools"]>): ToolSpec[] {
    const source = JSON.stringify(tools);
    if (source !== this.#tools?.source) {
      const specs = tools.map(({ function: { name, description, parameters } }) =>
        toolFromJsonSchema(name, description ?? "", parameters ?? { type: "object", properties: {} }),
      );
      this.#tools = { source, specs };
    }
    return this.#tools.specs;
  }

  async interact(session: string, turn: number, action: Action): Promise<z.output<typeof interactAnswer>> {
    const answer = await this.#patiently("interact", () =>
      this.#client.request({
        method: "POST",
        path: "/interact",
        headers: { [sessionHeader]: session, [turnHeader]: String(turn) },
        body: { messages: [actionToWire(action)] },
        timeoutMs: this.#turnTimeoutMs,
      }),
    );
    return this.#parse(interactAnswer, answer, "interact");
  }

  /** Best effort: a session that is not cancelled expires. */
  async cancel(session: string): Promise<void> {
    const headers = { [sessionHeader]: session };
    await this.#client
      .request({ method: "POST", path: "/cancel", headers, timeoutMs: cancelTimeoutMs })
      .catch(() => undefined);
  }

  close(): void {
    this.#client.close();
  }

  /** Waits where waiting helps: no worker free, none there any more, or a controller that is not (yet, or again) there. */
  async #patiently(what: string, ask: () => Promise<JsonAnswer>, patienceMs = this.#patienceMs): Promise<JsonAnswer> {
    const deadline = performance.now() + patienceMs;
    for (;;) {
      let why: string;
      let wait: number;
      try {
        const answer = await ask();
        const again = Number(answer.headers["retry-after"]);
        if (answer.status < 400) this.#served = true;
        // Workers find a controller that was restarted at their next heartbeat.
        const returning = this.#served && isUnknownTask(answer);
        if (!returning && (answer.status < 400 || !(again >= 0))) return answer;
        why = reasonOf(answer);
        wait = returning ? 1000 : again * 1000;
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
        // Only a request that the controller never saw may be sent again.
        if (error.reason !== "refused") throw this.#fault(what, error.message);
        why = error.message;
        wait = 500;
      }
      if (performance.now() + wait > deadline) {
        throw this.#fault(what, `gave up after ${patienceMs} ms: ${why}`);
      }
      // Spread out, so that those who wait do not all come back in the same moment.
      await sleep(wait * (0.5 + Math.random()));
    }
  }

  #parse<S extends z.ZodType>(schema: S, answer: JsonAnswer, what: string): z.output<S> {
    if (answer.status !== 200) throw this.#refused(what, answer);
    const parsed = schema.safeParse(answer.body);
    if (parsed.success) return parsed.data;
    throw this.#fault(what, `the answer is not of the protocol: ${parsed.error.issues[0]?.message}`, answer);
  }

  #refused(what: string, answer: JsonAnswer): AgentRLError {
    if (answer.status === 401 || isUnknownTask(answer)) {
      return new AgentRLError("CONFIG", `The controller refuses task ${this.task}`, {
        where: this.#client.base,
        got: reasonOf(answer),
        hint:
          answer.status === 401
            ? "Give the controller's token."
            : "Start a worker for it, or correct the name: NAME-std is what `agentrl worker NAME` serves.",
      });
    }
    return this.#fault(what, reasonOf(answer));
  }

  #fault(what: string, why: string, answer?: JsonAnswer): AgentRLError {
    return new AgentRLError("ENVIRONMENT", `Task ${this.task} failed at its controller: ${why}`, {
      where: `${this.#client.base}/${what}`,
      ...(answer && { got: answer.body }),
    });
  }
}

class RemoteSession implements Session {
  readonly messages: Message[];
  readonly tools: ToolSpec[];
  readonly #remote: RemoteController;
  readonly #id: string;
  #turns = 0;
  #reward = 0;
  #over = false;

  constructor(remote: RemoteController, id: string, messages: Message[], tools: ToolSpec[]) {
    this.#remote = remote;
    this.#id = id;
    this.messages = messages;
    this.tools = tools;
  }

  async step(action: Action): Promise<StepResult> {
    if (this.#over) {
      throw new AgentRLError("USAGE", "step on a session that is over", {
        hint: "start a new session for another episode",
      });
    }
    const answer = await this.#remote.interact(this.#id, ++this.#turns, action);
    const messages = (answer.messages ?? []).map(fromWire);
    // The last turn's reward is the episode's; here an episode's reward is the sum of its steps'.
    const reward = answer.finish ? (answer.reward ?? 0) - this.#reward : (answer.reward ?? 0);
    this.#reward += reward;
    const metrics = numbersOf(answer.metrics ?? {});
    if (!answer.finish) return { messages, reward, done: false, metrics };
    this.#over = true;
    const endReason = endReasonOf(answer.status);
    if (endReason === "env error" || endReason === "cancelled") {
      throw new AgentRLError("ENVIRONMENT", `Task ${this.#remote.task} ended a session with '${answer.status}'`, {
        got: messages.at(-1)?.content,
      });
    }
    return { messages, reward, done: true, endReason, metrics };
  }

  async close(): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    await this.#remote.cancel(this.#id);
  }
}

function numbersOf(metrics: Record<string, unknown>): Record<string, number> {
  const numbers = Object.entries(metrics).filter((entry): entry is [string, number] => typeof entry[1] === "number");
  return Object.fromEntries(numbers);
}

function isUnknownTask({ body }: JsonAnswer): boolean {
  return typeof body === "object" && body !== null && (body as { code?: unknown }).code === "unknown_task";
}

function reasonOf({ status, body }: JsonAnswer): string {
  const { error, detail } = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const said = error ?? detail ?? body;
  return `${status} ${(typeof said === "string" ? said : JSON.stringify(said)).slice(0, 500)}`;
}
