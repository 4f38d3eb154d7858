/**
 * The tools of an MCP server as an environment, with a user's own tasks and reward. Every episode has a connection of its
 * own (over stdio: a fresh server process), so that no episode sees what another one did.
 *
 * @example
 * export default defineMcpEnvironment({
 *   name: "notes",
 *   server: { command: "node", args: ["notes-server.js"] },
 *   tasks: [{ ask: "Write a note called shopping that lists milk.", note: "shopping", text: "milk" }],
 *   start: (task) => [{ role: "user", content: task.ask }],
 *   reward: async ({ task, callTool }) => ((await callTool("read_note", { name: task.note })).text === task.text ? 1 : 0),
 * });
 */
import type { z } from "zod";
import { AgentRLError } from "../../errors.ts";
import { checkName, checkOptions, checkReward, type StartContext } from "../define-environment.ts";
import { defaultStepTimeoutMs, definition, type EnvironmentDefinition, type OpenContext } from "../definition.ts";
import type { Environment, Message, ToolSpec } from "../environment.ts";
import { firstMessages } from "../observation.ts";
import { randomCall } from "../random-action.ts";
import type { EnvironmentOptions } from "../registry.ts";
import { TaskLists, type Tasks } from "../task-lists.ts";
import { type Outcome, ToolSession } from "../tool-session.ts";
import { expertOf, type TurnExpert } from "../turn-expert.ts";
import { McpConnection, type McpServer, type ToolAnswer } from "./connection.ts";

type Awaitable<T> = T | Promise<T>;

/** What a reward may be judged by. */
export interface McpEpisode<Task> {
  readonly task: Task;
  /** The policy's last turn, which called no tool; undefined while it goes on. */
  readonly answer: string | undefined;
  /** Every call that reached the server, in order. */
  readonly calls: readonly { name: string; arguments: Record<string, unknown>; result: ToolAnswer }[];
  /** Asks the episode's own server, for example what state the policy left it in. Not shown to the policy. */
  callTool(name: string, args?: Record<string, unknown>): Promise<ToolAnswer>;
}

export interface McpEnvironmentSpec<Task, Settings extends z.ZodRawShape> {
  name: string;
  /** The server; as a function of the task when each needs its own. The tools are those of the first train task's. */
  server: McpServer | ((task: Task) => McpServer);
  /** Names of the tools that the policy may use; @default all */
  tools?: readonly string[];
  tasks: Tasks<Task>;
  settings?: Settings;
  level?: (task: Task) => number;
  /** @default 10 */
  maxTurns?: number;
  /** Milliseconds for one call, and for the server's start. @default 20000 */
  callTimeoutMs?: number;
  /**
   * Milliseconds that a start, or one turn, may take; one that takes longer loses its thread, and the episode is played
   * anew. Any span is kept to, also one above the minute that environments without it have. In a worker, --step-timeout
   * goes first. @default 30000
   */
  stepTimeoutMs?: number;
  /** The episode's first messages. */
  start: (task: Task, context: StartContext<z.output<z.ZodObject<Settings>>>) => Awaitable<Message[]>;
  /** Ends an episode after a call; by default only a turn without a call does: the policy's answer. */
  done?: (episode: McpEpisode<Task>) => Awaitable<boolean>;
  /** 1 is the full reward. */
  reward: (episode: McpEpisode<Task>) => Awaitable<number>;
  expert?: TurnExpert<Task>;
}

/** @throws AgentRLError CONFIG where the definition cannot be an environment. */
// biome-ignore lint/complexity/noBannedTypes: no settings
export function defineMcpEnvironment<Task, Settings extends z.ZodRawShape = {}>(
  spec: McpEnvironmentSpec<Task, Settings>,
): EnvironmentDefinition {
  checkName(spec.name);
  const lists = new TaskLists(spec.name, spec.tasks);
  return definition({
    name: spec.name,
    stepTimeoutMs: spec.stepTimeoutMs ?? defaultStepTimeoutMs,
    open: (options, context) => open(spec, lists, options, context),
  });
}

async function open<Task, Settings extends z.ZodRawShape>(
  spec: McpEnvironmentSpec<Task, Settings>,
  lists: TaskLists<Task>,
  options: EnvironmentOptions,
  context: OpenContext = {},
): Promise<Environment> {
  const settings = checkOptions(spec.name, spec.settings, options) as z.output<z.ZodObject<Settings>>;
  const { maxTurns = 10, callTimeoutMs = 20_000, expert, level } = spec;
  const serverOf = (task: Task) => (typeof spec.server === "function" ? spec.server(task) : spec.server);
  const connect = (task: Task) => McpConnection.open(serverOf(task), callTimeoutMs);
  const tools = context.tools ?? (await listTools(await connect(lists.first()), spec));
  return {
    name: spec.name,
    tools: [...tools],
    maxTurns,
    stepTimeoutMs: spec.stepTimeoutMs ?? defaultStepTimeoutMs,
    split: (name) => lists.split(name),
    level: (split, index) => level?.(lists.task(split, index)) ?? 0,
    async start(split, index, seed) {
      const task = lists.task(split, index);
      const connection = await connect(task);
      try {
        const begun = await spec.start(task, { seed, prompt: options.prompt ?? "full", settings });
        const messages = firstMessages(begun, `start of ${spec.name}, ${split}[${index}]`);
        return new McpSession(spec, tools, maxTurns, task, messages, connection);
      } catch (error) {
        await connection.close();
        throw error;
      }
    },
    ...(expert && { expert: expertOf(lists, expert) }),
    randomAction: (session, random) => randomCall(tools, session, random),
    close: async () => {},
  };
}

async function listTools(
  connection: McpConnection,
  { name, tools: wanted }: { name: string; tools?: readonly string[] },
): Promise<ToolSpec[]> {
  try {
    const offered = await connection.tools();
    const missing = wanted?.filter((tool) => !offered.some((spec) => spec.name === tool)) ?? [];
    const tools = offered.filter((spec) => wanted?.includes(spec.name) ?? true);
    if (missing.length === 0 && tools.length > 0) return tools;
    throw new AgentRLError("CONFIG", `The MCP server of environment ${name} lacks tools`, {
      got: offered.map((spec) => spec.name).join(", ") || "none",
      expected: missing.join(", ") || "at least one",
      hint: "Correct `tools`, or the server.",
    });
  } finally {
    await connection.close();
  }
}

type Behaviour<Task> = Pick<McpEnvironmentSpec<Task, z.ZodRawShape>, "level" | "done" | "reward">;

class McpSession<Task> extends ToolSession {
  readonly messages: Message[];
  readonly #spec: Behaviour<Task>;
  readonly #task: Task;
  readonly #connection: McpConnection;
  readonly #calls: McpEpisode<Task>["calls"][number][] = [];

  constructor(
    spec: Behaviour<Task>,
    tools: readonly ToolSpec[],
    maxTurns: number,
    task: Task,
    messages: Message[],
    connection: McpConnection,
  ) {
    super(tools, maxTurns);
    this.#spec = spec;
    this.#task = task;
    this.messages = messages;
    this.#connection = connection;
  }

  protected override taskMetrics(): Record<string, number> {
    const level = this.#spec.level?.(this.#task);
    return level === undefined ? {} : { level };
  }

  protected override async call(name: string, args: Record<string, unknown>): Promise<Outcome> {
    const result = await this.#connection.call(name, args);
    this.#calls.push({ name, arguments: args, result });
    const episode = this.#episode(undefined);
    const done = (await this.#spec.done?.(episode)) === true;
    return {
      content: result.text,
      failed: result.isError,
      ...(done && { reward: checkReward(await this.#spec.reward(episode)) }),
    };
  }

  protected override async say(text: string): Promise<Outcome> {
    return { content: "Answer received.", reward: checkReward(await this.#spec.reward(this.#episode(text))) };
  }

  protected override async release(): Promise<void> {
    await this.#connection.close();
  }

  #episode(answer: string | undefined): McpEpisode<Task> {
    return {
      task: this.#task,
      answer,
      calls: this.#calls,
      callTool: (name, args = {}) => this.#connection.call(name, args),
    };
  }
}
