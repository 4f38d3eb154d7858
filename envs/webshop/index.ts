/**
 * The WebShop task: an instruction says what to buy, and the shop is searched and clicked through as pages of text. Two
 * tools, 20 turns; the purchase ends the task with a reward between 0 and 1.
 */
import { z } from "zod";
import { defineTool } from "../../src/env/define.ts";
import type { Action, Environment, Message, Session, ToolCall } from "../../src/env/environment.ts";
import type { EnvironmentOptions } from "../../src/env/registry.ts";
import { Rng } from "../../src/env/rng.ts";
import { type GeneratedTasks, TaskSource } from "../../src/env/task-source.ts";
import { type Outcome, ToolSession } from "../../src/env/tool-session.ts";
import { AgentRLError } from "../../src/errors.ts";
import { Catalogue } from "./catalogue.ts";
import { expert } from "./expert.ts";
import { generateTask } from "./generate.ts";
import { loadLanguage } from "./language.ts";
import { loadShop } from "./load.ts";
import { availableActions, briefPage, fullPage } from "./pages.ts";
import { scorePurchase } from "./reward.ts";
import { checkOptions } from "./settings.ts";
import frozen from "./splits.json" with { type: "json" };
import { BRIEF_PROMPT, briefInstruction, FULL_PROMPT, type WebshopTask } from "./task.ts";
import { Visit } from "./visit.ts";

const MAX_TURNS = 20;

/** Longer arguments are refused; in characters. The longest title in the original catalogue is far shorter. */
const MAX_ARGUMENT = 1000;

const tools = [
  defineTool("search_action", "Searches the shop.", {
    keywords: z.string().describe("What to look for."),
  }),
  defineTool("click_action", "Clicks one thing on the page.", {
    value: z.string().describe("One of the available clickables."),
  }),
];

export class WebshopSession extends ToolSession {
  readonly messages: Message[];
  readonly task: WebshopTask;
  readonly visit: Visit;
  readonly #brief: boolean;

  constructor(task: WebshopTask, catalogue: Catalogue, { brief, seed }: { brief: boolean; seed: number }) {
    super(tools, MAX_TURNS);
    this.task = task;
    this.visit = new Visit(catalogue, new Rng("webshop session", seed));
    this.#brief = brief;
    this.messages = brief
      ? [
          { role: "system", content: BRIEF_PROMPT },
          { role: "user", content: briefInstruction(task.goal) },
        ]
      : [
          { role: "system", content: FULL_PROMPT },
          { role: "user", content: `The initial observation:\n${this.#page()}\n\n${this.#actions()}` },
        ];
  }

  protected override taskMetrics(): Record<string, number> {
    return { level: this.task.level };
  }

  /** A bare number, such as a shoe size, means its text. */
  protected override mend(call: ToolCall): ToolCall {
    const value = call.arguments?.value;
    return typeof value === "number" ? { ...call, arguments: { value: String(value) } } : call;
  }

  protected override call(name: string, args: Record<string, unknown>): Outcome | Promise<Outcome> {
    const [verb, argument] =
      name === "search_action" ? (["search", args.keywords] as const) : (["click", args.value] as const);
    const text = argument as string;
    const refusal = this.#carryOut(verb, text);
    const action = `${verb}[${text.length > MAX_ARGUMENT ? `${text.slice(0, 40)}…` : text}]`;
    if (refusal !== undefined) return { content: this.#observation(action, refusal), failed: true };
    return this.visit.page === "done" ? this.#purchase(action) : { content: this.#observation(action, this.#page()) };
  }

  protected override say(): Outcome {
    return { content: "No tool call found. Call search_action or click_action." };
  }

  /** Why the action cannot be carried out; undefined if it was. */
  #carryOut(verb: "search" | "click", text: string): string | undefined {
    if (text.length > MAX_ARGUMENT) return `Too long: at most ${MAX_ARGUMENT} characters.`;
    if (verb === "search") {
      if (text.trim() === "") return "Give keywords to search for.";
      this.visit.search(text);
      return undefined;
    }
    return this.visit.click(text) ? undefined : `There is no "${text}" to click on this page.`;
  }

  async #purchase(action: string): Promise<Outcome> {
    const product = this.visit.product!;
    const score = scorePurchase(product, this.task.goal, {
      price: product.price,
      options: [...this.visit.chosen.values()],
      language: await loadLanguage(),
    });
    const { reward, ...parts } = score;
    return { content: this.#observation(action, this.#page(reward)), reward, metrics: parts };
  }

  #page(reward?: number): string {
    return this.#brief ? briefPage(this.visit, reward) : fullPage(this.visit, this.task.goal.instruction, reward);
  }

  #actions(): string {
    return `Available Actions:\n${availableActions(this.visit)}`;
  }

  #observation(action: string, text: string): string {
    return this.#brief ? text : `Action: ${action}\n\nObservation:\n${text}\n\n${this.#actions()}`;
  }
}

export const webshopTasks: GeneratedTasks<WebshopTask> = {
  environment: "webshop",
  generate: generateTask,
  key: ({ goal }) => goal.instruction,
  frozen: frozen.splits,
};

export function createWebshop(options: EnvironmentOptions = {}): Environment {
  const { brief, products } = checkOptions(options);
  const loaded = options.data === undefined ? undefined : loadShop(options.data, products);
  const source = new TaskSource({ ...webshopTasks, samples: loaded?.tasks });
  const catalogues = new WeakMap<WebshopTask, Catalogue>();
  const catalogueOf = (task: WebshopTask): Catalogue => {
    if (loaded !== undefined) return loaded.catalogue;
    let catalogue = catalogues.get(task);
    if (catalogue === undefined) {
      catalogue = Catalogue.of(task.items!);
      catalogues.set(task, catalogue);
    }
    return catalogue;
  };
  return {
    name: "webshop",
    tools,
    maxTurns: MAX_TURNS,
    split: (name) => source.split(name),
    level: (split, index) => source.level(split, index),
    async start(split, index, seed) {
      const task = source.task(split, index);
      return new WebshopSession(task, catalogueOf(task), { brief, seed });
    },
    expert(split, index) {
      const task = source.task(split, index);
      return expert(task.goal, catalogueOf(task));
    },
    randomAction,
    close: async () => {},
  };
}

/** A click on something that is there, or a search for a word of the instruction. */
function randomAction(session: Session, random: () => number): Action {
  if (!(session instanceof WebshopSession)) {
    throw new AgentRLError("USAGE", "randomAction needs a session that this environment started");
  }
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  const { visit, task } = session;
  const call = (name: string, args: Record<string, string>): Action => ({
    text: "",
    calls: [{ id: "call_0", name, arguments: args }],
  });
  return visit.page === "search"
    ? call("search_action", { keywords: pick(task.goal.request.split(/\s+/)) })
    : call("click_action", { value: pick(visit.clickables) });
}
