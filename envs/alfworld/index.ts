/**
 * The ALFWorld task of AgentBench: an errand in a household, in text. One tool, 20 turns, reward 1 once the goal is
 * reached.
 */
import { z } from "zod";
import { defineTool } from "../../src/env/define.ts";
import type { Action, Environment, Expert, Message, Session, StepResult } from "../../src/env/environment.ts";
import type { EnvironmentOptions } from "../../src/env/registry.ts";
import { type GeneratedTasks, TaskSource } from "../../src/env/task-source.ts";
import { type Outcome, ToolSession } from "../../src/env/tool-session.ts";
import { AgentRLError } from "../../src/errors.ts";
import { generateTask } from "./generate.ts";
import { type Grammar, grammars, inGrammar } from "./grammar.ts";
import { Household } from "./household.ts";
import { loadGames } from "./load.ts";
import { snap } from "./snap.ts";
import frozen from "./splits.json" with { type: "json" };
import { type AlfworldTask, available, type Game, openGame, promptMessages } from "./task.ts";

const MAX_TURNS = 20;
/** Characters of an action that are read: far more than any command has. */
const LONGEST = 1000;
/** Houses kept at hand. */
const CACHE = 128;

const tools = [
  defineTool("take_action", "Takes one action in the household and tells what it led to.", {
    action: z.string().describe("One of the available actions, word for word."),
  }),
];

const settingsSchema = z.strictObject({
  grammar: z.enum(["alfworld", "agentbench"]).default("alfworld"),
  snap: z.boolean().default(false),
  repeatLimit: z.int().min(0).default(0),
});
type Settings = z.infer<typeof settingsSchema>;

export class AlfworldSession extends ToolSession {
  readonly messages: Message[];
  readonly household: Household;
  readonly #task: AlfworldTask;
  readonly #prompt: "full" | "brief";
  readonly #settings: Settings;
  /** The last action, and how many times in a row it has been taken. */
  #last = { action: "", times: 0 };
  #actions = 0;
  #gaveUp = false;

  constructor(task: AlfworldTask, game: Game, prompt: "full" | "brief", settings: Settings) {
    super(tools, MAX_TURNS);
    const grammar = grammars[settings.grammar];
    this.messages = promptMessages(task, game, prompt, grammar);
    this.household = new Household(game.house, game.goal, grammar);
    this.#task = task;
    this.#prompt = prompt;
    this.#settings = settings;
  }

  override async step(action: Action): Promise<StepResult> {
    const result = await super.step(action);
    return this.#gaveUp && result.endReason === "completed" ? { ...result, endReason: "invalid action" } : result;
  }

  protected override taskMetrics(): Record<string, number> {
    return { level: this.#task.level };
  }

  protected override call(_: string, args: Record<string, unknown>): Outcome {
    const given = (args.action as string).trim().slice(0, LONGEST).toLowerCase().split("\n")[0]!;
    const admissible = this.household.admissible();
    const action = this.#settings.snap ? snap(given, admissible) : given;
    const failed = !admissible.includes(action);
    const observation = this.household.act(action);
    if (this.household.won) return { content: observation, reward: 1 };
    if (this.#isStuck(given)) {
      this.#gaveUp = true;
      return { content: `${observation} The same action was taken too often: the task is over.`, reward: 0, failed };
    }
    if (this.#prompt === "full") return { content: observation + available(this.household), failed };
    // The brief prompt lists the actions only to a policy that has just shown that it needs the list.
    return { content: failed ? `${observation} Actions: ${admissible.join(", ")}` : observation, failed };
  }

  protected override say(): Outcome {
    return { content: "No tool call found. Call take_action with one of the available actions." };
  }

  /** AgentBench's rule: after the first `repeatLimit` actions, that many in a row must not be the same. */
  #isStuck(action: string): boolean {
    const { repeatLimit } = this.#settings;
    this.#actions++;
    this.#last = { action, times: action === this.#last.action ? this.#last.times + 1 : 1 };
    return repeatLimit > 0 && this.#actions > repeatLimit && this.#last.times >= repeatLimit;
  }
}

export const alfworldTasks: GeneratedTasks<AlfworldTask> = {
  environment: "alfworld",
  generate: generateTask,
  key: (task) => promptMessages(task, openGame(task), "brief", grammars.alfworld)[1]!.content,
  frozen: frozen.splits,
};

/** @throws AgentRLError CONFIG for an unknown engine or setting, SAMPLE_FILE for data that is not a set of games. */
export function createAlfworld(options: EnvironmentOptions = {}): Environment {
  const prompt = options.prompt ?? "full";
  const settings = settingsOf(options);
  const samples = options.data === undefined ? undefined : loadGames(options.data);
  const source = new TaskSource({ ...alfworldTasks, samples });
  // A group of episodes plays one task many times: its house is built once.
  const games = new Map<AlfworldTask, Game>();
  const gameOf = (task: AlfworldTask): Game => {
    let game = games.get(task);
    if (game !== undefined) return game;
    game = openGame(task);
    if (games.size >= CACHE) games.delete(games.keys().next().value!);
    games.set(task, game);
    return game;
  };
  return {
    name: "alfworld",
    tools,
    maxTurns: MAX_TURNS,
    split: (name) => source.split(name),
    level: (split, index) => source.level(split, index),
    async start(split, index) {
      const task = source.task(split, index);
      return new AlfworldSession(task, gameOf(task), prompt, settings);
    },
    expert: (split, index) => expert(source.task(split, index), grammars[settings.grammar]),
    randomAction,
    close: async () => {},
  };
}

function settingsOf({ engine = "embedded", endpoint, settings = {} }: EnvironmentOptions): Settings {
  const refuse = (what: string, got: unknown, expected: string): never => {
    throw new AgentRLError("CONFIG", what, { where: "alfworld", got, expected, hint: "see envs/alfworld/README.md" });
  };
  if (engine !== "embedded") refuse(`alfworld: no engine is called "${engine}"`, engine, "embedded");
  if (endpoint !== undefined) refuse("alfworld: endpoint has no effect", endpoint, "no endpoint");
  const parsed = settingsSchema.safeParse(settings);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const place = ["settings", ...issue.path].join(".");
  const names = Object.keys(settingsSchema.shape).join(", ");
  return refuse(`alfworld: ${place}: ${issue.message}`, settings, `settings ${names}`);
}

/** Takes the walkthrough's commands one by one. */
function expert(task: AlfworldTask, grammar: Grammar): Expert {
  if (task.walkthrough.length === 0) {
    throw new AgentRLError("USAGE", "alfworld: this game comes without a walkthrough", {
      ...(task.id !== undefined && { where: task.id }),
      hint: "evaluate another policy on it",
    });
  }
  let turn = 0;
  return {
    act() {
      const command = inGrammar(task.walkthrough[Math.min(turn, task.walkthrough.length - 1)]!, grammar);
      return { text: "", calls: [{ id: `call_${turn++}`, name: "take_action", arguments: { action: command } }] };
    },
  };
}

/** One of the admissible commands. */
function randomAction(session: Session, random: () => number): Action {
  if (!(session instanceof AlfworldSession)) {
    throw new AgentRLError("USAGE", "randomAction needs a session that this environment started");
  }
  const admissible = session.household.admissible();
  const action = admissible[Math.floor(random() * admissible.length)]!;
  return { text: "", calls: [{ id: "call_0", name: "take_action", arguments: { action } }] };
}
