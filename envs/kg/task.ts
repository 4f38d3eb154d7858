/** What a KG task is, wherever it came from: a question, its entities, a graph, and the gold answer. Also the two prompts. */
import type { Message } from "../../src/env/environment.ts";
import type { Triple } from "./graph.ts";

/** A tool call with its arguments in the order of the tool's parameters; `#k` is the k-th variable made. */
export type KgAction = readonly [tool: string, ...args: string[]];

export interface KgTask {
  /** 1 (easiest) to 5; 0 for samples read from a file. */
  level: number;
  question: string;
  /** Name in the question → id in the graph. */
  entities: Record<string, string>;
  triples: Triple[];
  attributes: [subject: string, attribute: string, value: number][];
  /** The type of what each relation leads to. */
  ranges: Record<string, string>;
  /** A gold sequence of calls; its last variable is the answer. */
  actions: KgAction[];
  /** The gold set: entity ids, or one number. */
  answer: string[];
}

const EXPLANATION = `You answer a question from a knowledge graph. You cannot see the graph; you explore it with tools.
A variable is an entity named in the question, or a set found by an earlier call. Sets are numbered in the order they are made: #0, #1, #2 and so on.
- get_relations lists the relations that leave a variable. Call it before get_neighbors.
- get_neighbors makes a new variable: all that one of those relations leads to.
- intersection makes a new variable: what two variables of the same type have in common.
- get_attributes lists the numerical attributes of a variable. Call it before argmax or argmin.
- argmax and argmin make a new variable: the members with the largest or smallest value of an attribute.
- count makes a new variable: the number of members.
Call one tool a turn. When a variable holds the answer, write "Final Answer: #k" with its number, and call no tool. You have at most 15 turns.`;

const BRIEF = "Answer from the graph.";

/** The first messages of an episode. */
export function promptMessages(task: KgTask, prompt: "full" | "brief"): Message[] {
  const names = Object.keys(task.entities);
  if (prompt === "brief") {
    return [
      { role: "system", content: BRIEF },
      { role: "user", content: `${task.question}\nEntities: [${names.join(",")}]` },
    ];
  }
  return [
    { role: "system", content: EXPLANATION },
    { role: "user", content: `Question: ${task.question}\nEntities: [${names.join(", ")}]` },
  ];
}
