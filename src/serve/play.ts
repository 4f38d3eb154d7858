/**
 * `agentrl chat --task`: one episode of an environment, shown as it is played, by a model or by a person. The model plays
 * in the loop that training and evaluation run; what is added here only looks on.
 */
import type { Action, Environment, Message, Session, StepResult, ToolCall } from "../env/environment.ts";
import type { Sampling } from "../generate/sampling.ts";
import { deadlineOf, startSession } from "../pipeline/environment-faults.ts";
import { promptTokens, runEpisode } from "../pipeline/episode.ts";
import { converse, RecordedSession } from "../pipeline/eval-episodes.ts";
import type { EngineModel } from "../pipeline/open-engine.ts";
import { EnginePolicy, type TakenTurn, type TurnPolicy, type TurnRequest } from "../pipeline/turn-policy.ts";
import { PolicyId } from "../rl/trajectory.ts";
import type { Terminal } from "./terminal.ts";

export interface Task {
  environment: Environment;
  split: string;
  index: number;
  seed: number;
}

export interface ModelPlay {
  sampling: Sampling;
  maxTokensPerTurn: number;
  /** Go on from turn to turn without waiting. */
  auto: boolean;
}

/** @returns the episode's reward; null where the input ended before the episode did. */
export async function playModel(
  { engine, dialect }: Pick<EngineModel, "engine" | "dialect">,
  task: Task,
  terminal: Terminal,
  { sampling, maxTokensPerTurn, auto }: ModelPlay,
): Promise<number | null> {
  const { environment, split, index, seed } = task;
  const session = new ShownSession(await startSession(environment, split, index, seed), terminal);
  try {
    session.open();
    const prompt = promptTokens(dialect, environment, session.messages);
    if (prompt.length >= engine.contextLimit) return ended(terminal, 0, "context limit");
    const conversation = engine.open(prompt);
    try {
      const inner = new EnginePolicy({
        open: () => conversation,
        policy: PolicyId.current,
        dialect,
        tools: environment.tools,
      });
      const policy = new ShownPolicy(inner, terminal, auto);
      const { reward, endReason } = await runEpisode({
        environment,
        session,
        conversation,
        pool: { choose: () => ({ name: "model", policy }) },
        dialect,
        limits: { maxTurns: environment.maxTurns, maxTokensPerTurn },
        sampling,
        // The draws of `agentrl eval`, for a task that it plays first.
        seed: { group: 0, sample: 0xffff, key: seed },
        identity: { task: environment.name, split, index, group: 0, sample: 0, seed },
      });
      return ended(terminal, reward, endReason);
    } catch (error) {
      if (error instanceof InputEnded) return null;
      throw error;
    } finally {
      conversation.close();
    }
  } finally {
    await session.close();
  }
}

/** The person's turns: a line is a call, as `tool {"argument": "value"}`, or text. */
export async function playPerson(task: Task, terminal: Terminal): Promise<number | null> {
  const { environment, split, index, seed } = task;
  const shown = new ShownSession(await startSession(environment, split, index, seed), terminal);
  const session = new RecordedSession(environment.name, shown, deadlineOf(environment));
  try {
    shown.open();
    terminal.print(terminal.dim(`${toolsHelp(environment)}\n`));
    const ref = { run: 0, position: 0, index };
    const request = { environment, session, split, ref, seed, maxTurns: environment.maxTurns };
    const endReason = await converse(request, async () => {
      for (;;) {
        const line = await terminal.line("> ");
        if (line === null) throw new InputEnded();
        if (line.trim() === "/exit") throw new InputEnded();
        const action = actionOf(line, environment);
        if (typeof action !== "string") return action;
        terminal.print(`${action}\n`);
      }
    });
    return ended(terminal, session.reward, endReason);
  } catch (error) {
    if (error instanceof InputEnded) return null;
    throw error;
  } finally {
    await session.close();
  }
}

/** A turn as it was typed; a string says what is wrong with it. */
export function actionOf(line: string, { tools }: Pick<Environment, "tools">): Action | string {
  const [, name = "", rest = ""] = /^\s*([\w.-]+)\s*(\{[\s\S]*\})?\s*$/.exec(line) ?? [];
  if (line.trim() === "") return 'Type a call, as in: tool {"argument": "value"}, or text.';
  if (!tools.some((tool) => tool.name === name)) return { text: line, calls: [] };
  try {
    const args = rest === "" ? {} : (JSON.parse(rest) as Record<string, unknown>);
    const call: ToolCall = { id: "0", name, arguments: args };
    return { text: "", calls: [call] };
  } catch (error) {
    return `The arguments of ${name} are no JSON object: ${(error as Error).message}`;
  }
}

/** The line that `actionOf` reads as the call. */
export function formatCall({ name, arguments: args }: Pick<ToolCall, "name" | "arguments">): string {
  return `${name} ${JSON.stringify(args)}`;
}

/** The input's end, or /exit, while a turn was asked for. */
class InputEnded extends Error {}

class ShownPolicy implements TurnPolicy {
  readonly #inner: TurnPolicy;
  readonly #terminal: Terminal;
  readonly #auto: boolean;

  constructor(inner: TurnPolicy, terminal: Terminal, auto: boolean) {
    this.#inner = inner;
    this.#terminal = terminal;
    this.#auto = auto;
  }

  async take(request: TurnRequest): Promise<TakenTurn> {
    const terminal = this.#terminal;
    if (!this.#auto) {
      const line = await terminal.line(terminal.dim(`turn ${request.turn + 1}: Enter `));
      if (line === null || line.trim() === "/exit") throw new InputEnded();
    }
    const taken = await this.#inner.take(request);
    if (taken.end === "stop") {
      if (taken.parseFailure) terminal.print(terminal.dim("(not well formed)\n"));
      showAction(taken.action, terminal);
    }
    return taken;
  }
}

/** Shows what a session is asked and answers. */
class ShownSession implements Session {
  readonly #session: Session;
  readonly #terminal: Terminal;

  constructor(session: Session, terminal: Terminal) {
    this.#session = session;
    this.#terminal = terminal;
  }

  get messages(): Message[] {
    return this.#session.messages;
  }

  open(): void {
    for (const message of this.messages) this.#show(message);
  }

  async step(action: Action): Promise<StepResult> {
    const result = await this.#session.step(action);
    for (const message of result.messages) this.#show(message);
    if (result.reward !== 0 && !result.done) this.#terminal.print(`reward of this turn: ${result.reward}\n`);
    return result;
  }

  close(): Promise<void> {
    return this.#session.close();
  }

  #show({ role, content, thinking, toolCalls: calls = [], name }: Message): void {
    if (role === "assistant") {
      showAction({ text: content, calls, ...(thinking !== undefined && { thinking }) }, this.#terminal);
      return;
    }
    this.#terminal.print(`${this.#terminal.dim(`${name ?? role}:`)} ${content}\n`);
  }
}

function showAction({ thinking, text, calls }: Action, terminal: Terminal): void {
  if (thinking !== undefined && thinking !== "") terminal.print(terminal.dim(`thinking: ${thinking}\n`));
  if (text !== "") terminal.print(`${terminal.dim("assistant:")} ${text}\n`);
  for (const call of calls) terminal.print(`${terminal.dim("call:")} ${formatCall(call)}\n`);
}

function toolsHelp({ tools }: Environment): string {
  const listed = tools.map(({ name, parameters }) => `${name}(${Object.keys(parameters.shape).join(", ")})`);
  return `tools: ${listed.join(", ")}\na turn is a call, as in: tool {"argument": "value"}, or text; /exit ends`;
}

function ended(terminal: Terminal, reward: number, endReason: string): number {
  terminal.print(`reward ${reward} (${endReason})\n`);
  return reward;
}
