/**
 * An environment in a few dozen lines of a user's own file: tasks, typed tools, where an episode starts and what it earns.
 * Everything else (turns, wrong calls, splits and their hashes, metrics, a random policy) is the same as for the
 * environments that ship with AgentRL.
 *
 * @example
 * export default defineEnvironment({
 *   name: "guess",
 *   tasks: { count: 500, generate: (index, random) => ({ secret: random.between(1, 9) }) },
 *   start: (task) => ({ state: { right: false }, messages: [{ role: "user", content: "Guess a number from 1 to 9." }] }),
 *   tools: {
 *     guess: {
 *       description: "Guesses the number.",
 *       parameters: { number: z.int() },
 *       run: ({ number }, { task, state }) => {
 *         state.right = number === task.secret;
 *         return state.right ? { content: "Right.", done: true } : number < task.secret ? "Higher." : "Lower.";
 *       },
 *     },
 *   },
 *   reward: ({ state }) => (state.right ? 1 : 0),
 * });
 */
import { inspect } from "node:util";
import { z } from "zod";
import { AgentRLError } from "../errors.ts";
import { defineTool } from "./define.ts";
import { defaultStepTimeoutMs, definition, type EnvironmentDefinition } from "./definition.ts";
import type { Action, Environment, Message, ToolSpec } from "./environment.ts";
import { firstMessages } from "./observation.ts";
import { randomCall } from "./random-action.ts";
import type { EnvironmentOptions } from "./registry.ts";
import { TaskLists, type Tasks } from "./task-lists.ts";
import { type Outcome, ToolSession } from "./tool-session.ts";
import { expertOf, type TurnExpert } from "./turn-expert.ts";

type Awaitable<T> = T | Promise<T>;

/** What an episode's functions see. `state` is the session's own; nothing else may be changed. */
export interface Episode<Task, State> {
  readonly task: Task;
  state: State;
  /** For whatever the episode draws at random. */
  readonly seed: number;
}

/** What a tool, or a turn without a call, answers: the text alone, or more. */
export type Reply =
  | string
  | {
      content: string;
      /** Ends the episode; `reward` is then asked. */
      done?: boolean;
      /** The call was well-formed but could not be carried out. */
      failed?: boolean;
      metrics?: Record<string, number>;
    };

export interface ToolDefinition<Task, State, Shape extends z.ZodRawShape> {
  description: string;
  /** zod types by argument name; `.describe()` is what the policy reads about each. */
  parameters: Shape;
  /** Carries out a call that fits `parameters`. A throw is a fault of the environment: the episode is played anew. */
  run: (args: z.output<z.ZodObject<Shape>>, episode: Episode<Task, State>) => Awaitable<Reply>;
}

export interface StartContext<Settings> {
  seed: number;
  /** Which system prompt is asked for; an environment may have only one. */
  prompt: "full" | "brief";
  settings: Settings;
}

export interface EnvironmentSpec<
  Task,
  State,
  Tools extends Record<string, z.ZodRawShape>,
  Settings extends z.ZodRawShape,
> {
  /** Letters, digits, dashes and underscores: metrics are reported under it. */
  name: string;
  tasks: Tasks<Task>;
  /** Options that a config or `--setting` may give. */
  settings?: Settings;
  /** Difficulty of a task, 1 the easiest; default 0, ungraded. */
  level?: (task: Task) => number;
  /** Turns an episode may take; @default 10 */
  maxTurns?: number;
  /**
   * Milliseconds that a start, or one turn, may take; one that takes longer loses its thread, and the episode is played
   * anew. Any span is kept to, also one above the minute that environments without it have. In a worker, --step-timeout
   * goes first. @default 30000
   */
  stepTimeoutMs?: number;
  start: (
    task: Task,
    context: StartContext<z.output<z.ZodObject<Settings>>>,
  ) => Awaitable<{ state: State; messages: Message[] }>;
  tools: { [Name in keyof Tools]: ToolDefinition<Task, State, Tools[Name]> };
  /** Answers a turn without any call; by default it is reminded of the tools. */
  say?: (text: string, episode: Episode<Task, State>) => Awaitable<Reply>;
  /** Reward of an episode that ended by `done`, 1 the full one. An episode that runs out of turns earns 0. */
  reward: (episode: Episode<Task, State>) => Awaitable<number>;
  /** The next action of a scripted policy with the answer in hand; `call` makes one. */
  expert?: TurnExpert<Task>;
  /** Frees what `state` holds. */
  close?: (state: State) => Awaitable<void>;
}

/** An action of one call, for experts. */
export function call(name: string, args: Record<string, unknown> = {}): Action {
  return { text: "", calls: [{ id: "call_0", name, arguments: args }] };
}

/** @throws AgentRLError CONFIG where the definition cannot be an environment. */
export function defineEnvironment<
  Task,
  State,
  Tools extends Record<string, z.ZodRawShape>,
  // biome-ignore lint/complexity/noBannedTypes: no settings
  Settings extends z.ZodRawShape = {},
>(spec: EnvironmentSpec<Task, State, Tools, Settings>): EnvironmentDefinition {
  checkName(spec.name);
  const tools = Object.entries(spec.tools).map(([name, tool]) => defineTool(name, tool.description, tool.parameters));
  if (tools.length === 0) {
    throw new AgentRLError("CONFIG", `Environment ${spec.name} has no tools`, {
      where: "tools",
      expected: "at least one",
      hint: "Give the policy a tool to act with.",
    });
  }
  const lists = new TaskLists(spec.name, spec.tasks);
  return definition({
    name: spec.name,
    stepTimeoutMs: spec.stepTimeoutMs ?? defaultStepTimeoutMs,
    open: (options) => open(spec, tools, lists, options),
  });
}

function open<Task, State, Tools extends Record<string, z.ZodRawShape>, Settings extends z.ZodRawShape>(
  spec: EnvironmentSpec<Task, State, Tools, Settings>,
  tools: ToolSpec[],
  lists: TaskLists<Task>,
  options: EnvironmentOptions,
): Environment {
  const settings = checkOptions(spec.name, spec.settings, options) as z.output<z.ZodObject<Settings>>;
  const maxTurns = spec.maxTurns ?? 10;
  const { expert, level } = spec;
  return {
    name: spec.name,
    tools,
    maxTurns,
    stepTimeoutMs: spec.stepTimeoutMs ?? defaultStepTimeoutMs,
    split: (name) => lists.split(name),
    level: (split, index) => level?.(lists.task(split, index)) ?? 0,
    async start(split, index, seed) {
      const task = lists.task(split, index);
      const begun = await spec.start(task, { seed, prompt: options.prompt ?? "full", settings });
      const messages = firstMessages(begun?.messages, `start of ${spec.name}, ${split}[${index}]`);
      return new DefinedSession(spec, tools, maxTurns, { task, state: begun.state, seed }, messages);
    },
    ...(expert && { expert: expertOf(lists, expert) }),
    randomAction: (session, random) => randomCall(tools, session, random),
    close: async () => {},
  };
}

type Behaviour<Task, State> = Pick<
  EnvironmentSpec<Task, State, Record<string, z.ZodRawShape>, z.ZodRawShape>,
  "level" | "say" | "reward" | "close"
> & { tools: Record<string, { run: (args: never, episode: Episode<Task, State>) => Awaitable<Reply> }> };

class DefinedSession<Task, State> extends ToolSession {
  readonly messages: Message[];
  readonly #spec: Behaviour<Task, State>;
  readonly #episode: Episode<Task, State>;

  constructor(
    spec: Behaviour<Task, State>,
    tools: readonly ToolSpec[],
    maxTurns: number,
    episode: Episode<Task, State>,
    messages: Message[],
  ) {
    super(tools, maxTurns);
    this.#spec = spec;
    this.#episode = episode;
    this.messages = messages;
  }

  protected override taskMetrics(): Record<string, number> {
    const level = this.#spec.level?.(this.#episode.task);
    return level === undefined ? {} : { level };
  }

  protected override async call(name: string, args: Record<string, unknown>): Promise<Outcome> {
    return this.#outcome(await this.#spec.tools[name]!.run(args as never, this.#episode));
  }

  protected override async say(text: string): Promise<Outcome> {
    const { say } = this.#spec;
    if (say !== undefined) return this.#outcome(await say(text, this.#episode));
    return { content: `No tool call found. Tools: ${this.tools.map((tool) => tool.name).join(", ")}.` };
  }

  protected override async release(): Promise<void> {
    await this.#spec.close?.(this.#episode.state);
  }

  async #outcome(reply: Reply): Promise<Outcome> {
    // Text; what else an untyped file may have given, `observation` refuses.
    if (typeof reply !== "object" || reply === null) return { content: reply };
    const { content, done = false, failed = false, metrics } = reply;
    return {
      content,
      failed,
      ...(metrics && { metrics }),
      ...(done && { reward: checkReward(await this.#spec.reward(this.#episode)) }),
    };
  }
}

/** @throws AgentRLError ENVIRONMENT: a reward that is no number would poison the gradient. */
export function checkReward(reward: unknown): number {
  if (typeof reward === "number" && Number.isFinite(reward)) return reward;
  throw new AgentRLError("ENVIRONMENT", "The reward function gave no finite number", {
    got: inspect(reward, { depth: 0 }),
    expected: "a number, 1 for full success and 0 for none",
    hint: "Correct the environment's `reward`.",
  });
}

export function checkName(name: unknown): void {
  if (typeof name === "string" && /^[\w-]+$/.test(name)) return;
  throw new AgentRLError("CONFIG", "An environment needs a name", {
    where: "name",
    got: name,
    expected: "letters, digits, dashes and underscores",
    hint: "Give `name` in the environment's definition.",
  });
}

/** Options that a user's environment cannot use are refused: what is given must have an effect. */
export function checkOptions(
  name: string,
  shape: z.ZodRawShape | undefined,
  options: EnvironmentOptions,
): Record<string, unknown> {
  for (const option of ["data", "engine", "endpoint"] as const) {
    if (options[option] === undefined || (option === "engine" && options.engine === "embedded")) continue;
    throw new AgentRLError("CONFIG", `Option ${option} has no effect on environment ${name}`, {
      got: options[option],
      expected: "settings only",
      hint: `Remove ${option}; the file's own \`tasks\` and \`settings\` say what it plays.`,
    });
  }
  const parsed = z.strictObject(shape ?? {}).safeParse(options.settings ?? {});
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  throw new AgentRLError("CONFIG", `Environment ${name}: ${issue.message}`, {
    where: ["settings", ...issue.path].join("."),
    got: JSON.stringify(options.settings),
    expected: shape === undefined ? "no settings" : `settings ${Object.keys(shape).join(", ")}`,
    hint: "Correct the setting, or add it to the environment's `settings`.",
  });
}
