/** From a sequence of gold calls to the program of its last variable. */
import { type Program, topics } from "./graph.ts";
import type { KgAction } from "./task.ts";

export interface GoldProgram {
  /** The last variable's program. */
  program: Program;
  /** The programs of all variables, in the order they are made. */
  variables: Program[];
  /** The topics, which are never answers themselves. */
  hidden: Set<string>;
}

/** Entities in `actions` are ids. Throws a RangeError where a call refers to a variable that is not there yet. */
export function programsOf(actions: readonly KgAction[]): GoldProgram {
  const variables: Program[] = [];
  const argument = (text: string): Program => {
    if (!text.startsWith("#")) return { op: "entity", id: text };
    const found = variables[Number(text.slice(1))];
    if (found === undefined) throw new RangeError(`no variable ${text} yet`);
    return found;
  };
  for (const [tool, first = "", second = ""] of actions) {
    if (tool === "get_neighbors") variables.push({ op: "join", of: argument(first), relation: second });
    else if (tool === "intersection") variables.push({ op: "and", left: argument(first), right: argument(second) });
    else if (tool === "count") variables.push({ op: "count", of: argument(first) });
    else if (tool === "argmax" || tool === "argmin")
      variables.push({ op: tool, of: argument(first), attribute: second });
    else argument(first);
  }
  const program = variables.at(-1);
  if (program === undefined) throw new RangeError("these calls make no variable");
  return { program, variables, hidden: new Set(topics(program)) };
}
