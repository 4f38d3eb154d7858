/**
 * A grammar as a deterministic automaton, built as it is walked: a state is the set of stacks of what may still come, and
 * equal sets are the same state. Stacks make nesting of any depth possible; sharing them makes states few.
 */
import { hasByte, type Node } from "./grammar.ts";

/** What comes next, and what after it. */
interface Stack {
  id: number;
  node: Node & { kind: "byte" | "token" };
  rest: Rest;
}

/** What comes after a node; null: nothing. */
type Rest = { id: number; node: Node; rest: Rest } | null;

export interface State {
  readonly id: number;
  /** Nothing more need come. */
  readonly accepting: boolean;
  readonly stacks: readonly Stack[];
  /** By byte; undefined where it was not asked for yet, null where the byte cannot come. */
  readonly next: (State | null | undefined)[];
}

export class Automaton {
  readonly start: State;
  readonly #nodes = new Map<Node, number>();
  readonly #rests = new Map<string, NonNullable<Rest>>();
  readonly #stacks = new Map<string, Stack>();
  readonly #states = new Map<string, State>();

  constructor(grammar: Node) {
    this.start = this.#stateOf([this.#rest(grammar, null)]);
  }

  /** The state after a byte, or null where the grammar does not allow it. */
  byte(state: State, value: number): State | null {
    let next = state.next[value];
    if (next === undefined) {
      next = this.#after(state, (node) => node.kind === "byte" && hasByte(node.set, value));
      state.next[value] = next;
    }
    return next;
  }

  /** The state after a special token, or null. */
  token(state: State, id: number): State | null {
    return this.#after(state, (node) => node.kind === "token" && node.id === id);
  }

  /** The special tokens that may come. */
  tokens(state: State): number[] {
    return state.stacks.flatMap(({ node }) => (node.kind === "token" ? [node.id] : []));
  }

  #after(state: State, matches: (node: Stack["node"]) => boolean): State | null {
    const rests = state.stacks.filter(({ node }) => matches(node)).map(({ rest }) => rest);
    return rests.length === 0 ? null : this.#stateOf(rests);
  }

  /** The state in which one of these may come. */
  #stateOf(rests: readonly Rest[]): State {
    const stacks = new Map<number, Stack>();
    const seen = new Set<Rest>();
    const open = [...rests];
    while (open.length > 0) {
      const rest = open.pop()!;
      if (seen.has(rest)) continue;
      seen.add(rest);
      if (rest === null) continue;
      const { node, rest: after } = rest;
      if (node.kind === "byte" || node.kind === "token") {
        const stack = this.#stack(node, after);
        stacks.set(stack.id, stack);
      } else if (node.kind === "sequence") {
        open.push(node.items.reduceRight<Rest>((tail, item) => this.#rest(item, tail), after));
      } else if (node.kind === "choice") {
        open.push(...node.items.map((item) => this.#rest(item, after)));
      } else if (node.kind === "many") {
        open.push(after, this.#rest(node.item, rest));
      } else open.push(this.#rest(node.make(), after));
    }
    const accepting = seen.has(null);
    const ids = [...stacks.keys()].sort((a, b) => a - b);
    const key = `${accepting} ${ids.join(" ")}`;
    let state = this.#states.get(key);
    if (state === undefined) {
      state = { id: this.#states.size, accepting, stacks: ids.map((id) => stacks.get(id)!), next: [] };
      this.#states.set(key, state);
    }
    return state;
  }

  #nodeId(node: Node): number {
    let id = this.#nodes.get(node);
    if (id === undefined) {
      id = this.#nodes.size;
      this.#nodes.set(node, id);
    }
    return id;
  }

  #rest(node: Node, rest: Rest): NonNullable<Rest> {
    const key = `${this.#nodeId(node)} ${rest?.id ?? ""}`;
    let made = this.#rests.get(key);
    if (made === undefined) {
      made = { id: this.#rests.size, node, rest };
      this.#rests.set(key, made);
    }
    return made;
  }

  #stack(node: Stack["node"], rest: Rest): Stack {
    const key = `${this.#nodeId(node)} ${rest?.id ?? ""}`;
    let made = this.#stacks.get(key);
    if (made === undefined) {
      made = { id: this.#stacks.size, node, rest };
      this.#stacks.set(key, made);
    }
    return made;
  }
}
