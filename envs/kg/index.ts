/**
 * The KG task of AgentBench: a question over a knowledge graph that is explored with seven tools. 15 turns; the answer is
 * the text "Final Answer: #k"; reward 1 if that variable's set equals the gold set, with F1 as a metric.
 */
import { z } from "zod";
import { defineTool } from "../../src/env/define.ts";
import type { Environment, Expert, Message, Session, ToolCall } from "../../src/env/environment.ts";
import type { EnvironmentOptions } from "../../src/env/registry.ts";
import { type GeneratedTasks, TaskSource } from "../../src/env/task-source.ts";
import { type Outcome, ToolSession } from "../../src/env/tool-session.ts";
import { AgentRLError } from "../../src/errors.ts";
import { createEngine, type KnowledgeGraph, SlowQuery } from "./engine.ts";
import { generateTask } from "./generate.ts";
import { type Program, topics } from "./graph.ts";
import { loadSamples, ontologyOf } from "./load.ts";
import { settingsOf } from "./settings.ts";
import frozen from "./splits.json" with { type: "json" };
import { type KgTask, promptMessages } from "./task.ts";

const MAX_TURNS = 15;

const variable = (what: string) => z.string().describe(`${what}: an entity's name, or a variable such as #0.`);

/** The order of each tool's parameters is the order in AgentBench's gold calls. */
const tools = [
  defineTool("get_relations", "Lists the relations that leave a variable.", { variable: variable("The start") }),
  defineTool("get_neighbors", "Makes a variable of all that a relation leads to. Call get_relations first.", {
    variable: variable("The start"),
    relation: z.string().describe("One of the relations that get_relations listed."),
  }),
  defineTool("intersection", "Makes a variable of what two variables of one type share.", {
    variable1: variable("One set"),
    variable2: variable("The other set"),
  }),
  defineTool("get_attributes", "Lists the numerical attributes of a variable.", { variable: variable("The set") }),
  defineTool("argmax", "Makes a variable of the members with the largest value. Call get_attributes first.", {
    variable: variable("The set"),
    attribute: z.string().describe("One of the attributes that get_attributes listed."),
  }),
  defineTool("argmin", "Makes a variable of the members with the smallest value. Call get_attributes first.", {
    variable: variable("The set"),
    attribute: z.string().describe("One of the attributes that get_attributes listed."),
  }),
  defineTool("count", "Makes a variable of the number of members.", { variable: variable("The set") }),
];

/** Characters of a tool's argument: no name or relation comes near it. */
const MAX_ARGUMENT = 1000;

const COUNT_TYPE = "type.int";

interface Variable {
  program: Program;
  type: string;
}

/** A call that cannot be carried out; the message goes to the policy. */
class CallError extends Error {}

export class KgSession extends ToolSession {
  readonly messages: Message[];
  readonly task: KgTask;
  readonly #graph: KnowledgeGraph;
  readonly #range: (relation: string) => string;
  /** Variables made so far: #0, #1, ... */
  readonly variables: Variable[] = [];
  /** What get_relations and get_attributes listed, by the argument that was asked for. */
  readonly #relations = new Map<string, Set<string>>();
  readonly #attributes = new Map<string, Set<string>>();

  /**
   * @param graph The session closes it.
   * @param range The type of what a relation leads to that the task itself does not know.
   */
  constructor(
    task: KgTask,
    graph: KnowledgeGraph,
    prompt: "full" | "brief",
    range: (relation: string) => string = () => "common.topic",
  ) {
    super(tools, MAX_TURNS);
    this.task = task;
    this.messages = promptMessages(task, prompt);
    this.#graph = graph;
    this.#range = range;
  }

  /** Everything that has been listed so far, for the random policy. */
  listed(): { relations: string[]; attributes: string[] } {
    return { relations: [...flat(this.#relations)], attributes: [...flat(this.#attributes)] };
  }

  protected override taskMetrics(): Record<string, number> {
    return { level: this.task.level };
  }

  protected override async call(name: string, args: Record<string, unknown>): Promise<Outcome> {
    const given = args as Record<string, string>;
    const long = Object.entries(given).find(([, value]) => value.length > MAX_ARGUMENT);
    if (long !== undefined) {
      return { content: `Error: ${name}: ${long[0]} is longer than ${MAX_ARGUMENT} characters.`, failed: true };
    }
    try {
      return { content: await this.#carryOut(name, given) };
    } catch (error) {
      if (!(error instanceof CallError || error instanceof SlowQuery)) throw error;
      const list = Object.values(given).join(", ");
      return { content: `${name}(${list}) cannot be executed: ${error.message}`, failed: true };
    }
  }

  protected override release(): Promise<void> {
    return this.#graph.close();
  }

  protected override async say(text: string): Promise<Outcome> {
    const match = /(?:Final|Find) Answer: *(?:variable )?#(\d+)/.exec(text);
    if (match === null) {
      return { content: 'No tool call found. Call a tool, or write "Final Answer: #k" to finish.' };
    }
    const variable = this.variables[Number(match[1])];
    if (variable === undefined) return { content: `There is no variable #${match[1]}. Check the number.` };
    const got = await this.#graph.members(variable.program, this.#hidden(variable.program));
    const gold = new Set(this.task.answer);
    const shared = [...got].filter((id) => gold.has(id)).length;
    const exact = shared === gold.size && shared === got.size;
    const f1 = shared === 0 ? 0 : (2 * shared) / (got.size + gold.size);
    return { content: "Answer received.", reward: exact ? 1 : 0, metrics: { f1 } };
  }

  async #carryOut(name: string, args: Record<string, string>): Promise<string> {
    if (name === "intersection") return this.#intersect(args.variable1!, args.variable2!);
    const of =
      name === "get_relations" || name === "get_neighbors" ? this.#resolve(args.variable!) : this.#set(args.variable!);
    const { key } = of;
    if (of.type === COUNT_TYPE) throw new CallError("a number has no relations, attributes or members");
    switch (name) {
      case "get_relations": {
        const found = new Set(await this.#graph.relations(of.program));
        this.#relations.set(key, found);
        return list(found);
      }
      case "get_attributes": {
        const found = new Set(await this.#graph.attributes(of.program));
        this.#attributes.set(key, found);
        return list(found);
      }
      case "get_neighbors": {
        const relation = args.relation!.trim();
        const listed = this.#relations.get(key);
        if (listed === undefined) throw new CallError(`call get_relations(${key}) first`);
        if (!listed.has(relation)) throw new CallError(`${relation} is not a relation of ${key}`);
        return this.#make({
          program: { op: "join", of: of.program, relation },
          type: this.task.ranges[relation] ?? this.#range(relation),
        });
      }
      case "count":
        return this.#make({ program: { op: "count", of: of.program }, type: COUNT_TYPE });
      default: {
        const attribute = args.attribute!.trim();
        const listed = this.#attributes.get(key);
        if (listed === undefined) throw new CallError(`call get_attributes(${key}) first`);
        if (!listed.has(attribute)) throw new CallError(`${attribute} is not an attribute of ${key}`);
        return this.#make({ program: { op: name as "argmax" | "argmin", of: of.program, attribute }, type: of.type });
      }
    }
  }

  async #intersect(first: string, second: string): Promise<string> {
    const [left, right] = [this.#set(first), this.#set(second)];
    const program: Program = { op: "and", left: left.program, right: right.program };
    // In Freebase an entity has many types: two sets of different types are at odds only if they share no member.
    if (left.type !== right.type && (await this.#graph.isEmpty(program))) {
      throw new CallError("the two variables are not of the same type");
    }
    return this.#make({ program, type: left.type });
  }

  #make(made: Variable): string {
    const name = `variable #${this.variables.length}`;
    this.variables.push(made);
    return made.type === COUNT_TYPE ? `${name}, which is a number` : `${name}, which are instances of ${made.type}`;
  }

  /** One of the question's entities by name, or a variable by number. */
  #resolve(text: string): Variable & { key: string } {
    const name = [text, text.trim()].find((candidate) => Object.hasOwn(this.task.entities, candidate));
    if (name !== undefined) return { key: name, program: { op: "entity", id: this.task.entities[name]! }, type: "" };
    const key = text.trim().replace(/^variable #/i, "#");
    if (!key.startsWith("#")) {
      throw new CallError(`${key || "an empty name"} is neither an entity of the question nor a variable`);
    }
    const found = /^#\d+$/.test(key) ? this.variables[Number(key.slice(1))] : undefined;
    if (found === undefined) throw new CallError(`there is no variable ${key}`);
    return { key, ...found };
  }

  /** A variable that an earlier call made. */
  #set(text: string): Variable & { key: string } {
    const found = this.#resolve(text);
    if (found.program.op === "entity") throw new CallError(`${found.key} is an entity, not a variable`);
    return found;
  }

  /** A question's own entities are no answers to it, unless the gold says so. */
  #hidden(program: Program): Set<string> {
    const gold = new Set(this.task.answer);
    return new Set(topics(program).filter((id) => !gold.has(id)));
  }
}

function list(names: Set<string>): string {
  return `[${[...names].join(", ")}]`;
}

function flat(sets: Map<string, Set<string>>): Set<string> {
  return new Set([...sets.values()].flatMap((set) => [...set]));
}

export const kgTasks: GeneratedTasks<KgTask> = {
  environment: "kg",
  generate: generateTask,
  key: (task) => promptMessages(task, "brief")[1]!.content,
  frozen: frozen.splits,
};

/** @throws AgentRLError CONFIG for options that it does not know, SAMPLE_FILE for data in another format. */
export function createKg(options: EnvironmentOptions = {}): Environment {
  const prompt = options.prompt ?? "full";
  const settings = settingsOf(options);
  const ontology = options.data === undefined ? undefined : ontologyOf(options.data);
  const samples = options.data === undefined ? undefined : loadSamples(options.data, ontology, settings.distractors);
  const engine = createEngine(settings);
  const range = (relation: string) => ontology?.role(relation).range ?? "common.topic";
  const source = new TaskSource({ ...kgTasks, samples });
  return {
    name: "kg",
    tools,
    maxTurns: MAX_TURNS,
    split: (name) => source.split(name),
    level: (split, index) => source.level(split, index),
    async start(split, index) {
      const task = source.task(split, index);
      return new KgSession(task, await engine.open(task), prompt, range);
    },
    expert: (split, index) => expert(source.task(split, index)),
    randomAction,
    close: async () => {},
  };
}

/** Replays the gold calls, then names the last variable. */
function expert(task: KgTask): Expert {
  const names = new Map(Object.entries(task.entities).map(([name, id]) => [id, name]));
  const made = task.actions.filter(([tool]) => !tool.startsWith("get_") || tool === "get_neighbors").length;
  let turn = 0;
  return {
    act() {
      const action = task.actions[turn++];
      if (action === undefined) return { text: `Final Answer: #${made - 1}`, calls: [] };
      const [name, ...values] = action;
      const parameters = Object.keys(tools.find((tool) => tool.name === name)!.parameters.shape);
      const args = Object.fromEntries(
        parameters.map((parameter, at) => [parameter, names.get(values[at]!) ?? values[at]]),
      );
      return { text: "", calls: [{ id: `call_${turn - 1}`, name, arguments: args }] };
    },
  };
}

/** One of the seven tools or an answer, with arguments out of what the session has named so far. */
function randomAction(session: Session, random: () => number): { text: string; calls: ToolCall[] } {
  if (!(session instanceof KgSession)) {
    throw new AgentRLError("USAGE", "randomAction needs a session that this environment started");
  }
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  const made = session.variables.map((_, at) => `#${at}`);
  const { relations, attributes } = session.listed();
  const tool = pick([...tools, undefined]);
  if (tool === undefined) return { text: `Final Answer: ${pick(made.length > 0 ? made : ["#0"])}`, calls: [] };
  const args = Object.keys(tool.parameters.shape).map((parameter): [string, string] => {
    if (parameter === "relation") return [parameter, pick(relations.length > 0 ? relations : ["type.object.name"])];
    if (parameter === "attribute") return [parameter, pick(attributes.length > 0 ? attributes : ["type.object.id"])];
    return [parameter, pick([...Object.keys(session.task.entities), ...made])];
  });
  return { text: "", calls: [{ id: "call_0", name: tool.name, arguments: Object.fromEntries(args) }] };
}
