/**
 * The embedded triple index and the programs that run on it. A variable is a program, as in AgentBench: nothing is
 * evaluated until the graph must be asked, and a policy only ever sees relation names and types.
 */
export type Triple = readonly [subject: string, relation: string, object: string];

export class TripleIndex {
  /** subject → relation → objects. */
  readonly #out = new Map<string, Map<string, Set<string>>>();
  /** subject → attribute → value. */
  readonly #values = new Map<string, Map<string, number>>();

  add([subject, relation, object]: Triple): void {
    const relations = this.#out.get(subject) ?? new Map<string, Set<string>>();
    this.#out.set(subject, relations);
    const objects = relations.get(relation);
    if (objects === undefined) relations.set(relation, new Set([object]));
    else objects.add(object);
  }

  setValue(subject: string, attribute: string, value: number): void {
    const values = this.#values.get(subject) ?? new Map<string, number>();
    this.#values.set(subject, values.set(attribute, value));
  }

  neighbors(subjects: Iterable<string>, relation: string): Set<string> {
    const found = new Set<string>();
    for (const subject of subjects) {
      for (const object of this.#out.get(subject)?.get(relation) ?? []) found.add(object);
    }
    return found;
  }

  /** All relations that leave any of the subjects. */
  relations(subjects: Iterable<string>): Set<string> {
    const found = new Set<string>();
    for (const subject of subjects) for (const relation of this.#out.get(subject)?.keys() ?? []) found.add(relation);
    return found;
  }

  attributes(subjects: Iterable<string>): Set<string> {
    const found = new Set<string>();
    for (const subject of subjects) for (const name of this.#values.get(subject)?.keys() ?? []) found.add(name);
    return found;
  }

  value(subject: string, attribute: string): number | undefined {
    return this.#values.get(subject)?.get(attribute);
  }
}

export type Program =
  | { op: "entity"; id: string }
  | { op: "join"; of: Program; relation: string }
  | { op: "and"; left: Program; right: Program }
  | { op: "argmax" | "argmin"; of: Program; attribute: string }
  | { op: "count"; of: Program };

/** The set that a program stands for. `hidden` entities (the question's own) are no answers of the outermost set. */
export function evaluate(graph: TripleIndex, program: Program, hidden: ReadonlySet<string> = new Set()): Set<string> {
  switch (program.op) {
    case "entity":
      return new Set([program.id]);
    case "join":
      return without(graph.neighbors(evaluate(graph, program.of), program.relation), hidden);
    case "and": {
      const right = evaluate(graph, program.right);
      return without(
        [...evaluate(graph, program.left)].filter((id) => right.has(id)),
        hidden,
      );
    }
    case "count":
      return new Set([String(evaluate(graph, program.of, hidden).size)]);
    default:
      return extreme(graph, evaluate(graph, program.of, hidden), program.attribute, program.op === "argmax" ? 1 : -1);
  }
}

function without(ids: Iterable<string>, hidden: ReadonlySet<string>): Set<string> {
  return new Set([...ids].filter((id) => !hidden.has(id)));
}

/** Every id that shares the extreme value; ids without the attribute do not take part. */
function extreme(graph: TripleIndex, ids: Set<string>, attribute: string, sign: 1 | -1): Set<string> {
  let best = -Infinity;
  let found: string[] = [];
  for (const id of ids) {
    const value = graph.value(id, attribute);
    if (value === undefined || sign * value < best) continue;
    if (sign * value > best) found = [];
    best = sign * value;
    found.push(id);
  }
  return new Set(found);
}

/** The question's entities that a program starts from. */
export function topics(program: Program): string[] {
  switch (program.op) {
    case "entity":
      return [program.id];
    case "and":
      return [...topics(program.left), ...topics(program.right)];
    default:
      return topics(program.of);
  }
}
