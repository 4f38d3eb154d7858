/**
 * Constrained decoding, the text side: which tokens may come next so that the turn is one well-formed call of a tool whose
 * arguments fit the tool's JSON Schema. A constraint belongs to a vocabulary, a set of tools and a format, and is walked
 * by any number of turns at once; masks are kept by state.
 */
import { argumentsSchema } from "../../env/define.ts";
import type { ToolSpec } from "../../env/environment.ts";
import { AgentRLError } from "../../errors.ts";
import type { ToolFormatName } from "../formats/index.ts";
import type { Tokenizer } from "../tokenizer.ts";
import { Automaton, type State } from "./automaton.ts";
import { choice, literal, type Node, oneOf, optional, sequence } from "./grammar.ts";
import { colon, comma, jsonLiteral } from "./json-grammar.ts";
import { schemaGrammar } from "./schema-grammar.ts";
import { type TrieNode, tokenTrie } from "./token-trie.ts";

export interface ConstraintOptions {
  tokenizer: Tokenizer;
  tools: readonly ToolSpec[];
  format: ToolFormatName;
  /** Tokens that end a turn: allowed once the call is complete. */
  stopTokens: readonly number[];
}

export class Constraint {
  readonly #tokenizer: Tokenizer;
  readonly #stopTokens: readonly number[];
  readonly #trie: TrieNode;
  readonly #automaton: Automaton;
  /** By state's id. */
  readonly #masks: Uint32Array[] = [];

  /** @throws AgentRLError CONFIG for a format without JSON, or no tools; TOKENIZER where tokens are not bytes. */
  constructor({ tokenizer, tools, format, stopTokens }: ConstraintOptions) {
    this.#tokenizer = tokenizer;
    this.#stopTokens = stopTokens;
    this.#trie = tokenTrie(tokenizer);
    this.#automaton = new Automaton(callGrammar(tokenizer, tools, format));
  }

  /** Words of a mask: one bit a token, bit id % 32 of word id / 32. */
  get maskWords(): number {
    return Math.ceil(this.#tokenizer.vocabSize / 32);
  }

  start(): ConstraintState {
    return new ConstraintState(this, this.#automaton.start);
  }

  /** @internal */
  maskOf(state: State): Uint32Array {
    let mask = this.#masks[state.id];
    if (mask === undefined) {
      mask = new Uint32Array(this.maskWords);
      this.#allow(this.#trie, state, mask);
      for (const id of this.#automaton.tokens(state)) allow(mask, id);
      if (state.accepting) for (const id of this.#stopTokens) allow(mask, id);
      this.#masks[state.id] = mask;
    }
    return mask;
  }

  /** @internal The state after a token of the mask; null after one that ends the turn. */
  after(state: State, token: number): State | null {
    const mask = this.maskOf(state);
    if (((mask[token >> 5] ?? 0) >>> (token & 31)) % 2 === 0) {
      throw new AgentRLError("USAGE", "A token that the constraint does not allow was sampled.", {
        got: `${token}, ${JSON.stringify(this.#tokenizer.tokenString(token))}`,
        expected: "a token of the state's mask",
        hint: "Apply mask() before sampling.",
      });
    }
    if (this.#tokenizer.isControl(token)) return this.#automaton.token(state, token);
    let next: State | null = state;
    for (const byte of this.#tokenizer.tokenBytes(token)!) next = next && this.#automaton.byte(next, byte);
    return next;
  }

  #allow(node: TrieNode, state: State, mask: Uint32Array): void {
    for (const id of node.ids) allow(mask, id);
    for (const [byte, child] of node.children) {
      const next = this.#automaton.byte(state, byte);
      if (next !== null) this.#allow(child, next, mask);
    }
  }
}

/** Where one turn stands. Immutable. */
export class ConstraintState {
  readonly #constraint: Constraint;
  readonly #state: State | null;

  /** @internal */
  constructor(constraint: Constraint, state: State | null) {
    this.#constraint = constraint;
    this.#state = state;
  }

  /** The turn is complete: it may end here. */
  get complete(): boolean {
    return this.#state === null || this.#state.accepting;
  }

  /** One bit a token. The same array for the same state: not to be written to. */
  mask(): Uint32Array {
    return this.#state === null ? new Uint32Array(this.#constraint.maskWords) : this.#constraint.maskOf(this.#state);
  }

  /** @throws AgentRLError USAGE for a token that the mask does not have. */
  advance(token: number): ConstraintState {
    if (this.#state === null) throw new AgentRLError("USAGE", "The turn has ended.", { got: token });
    return new ConstraintState(this.#constraint, this.#constraint.after(this.#state, token));
  }
}

function allow(mask: Uint32Array, id: number): void {
  mask[id >> 5]! |= 1 << (id & 31);
}

function callGrammar(tokenizer: Tokenizer, tools: readonly ToolSpec[], format: ToolFormatName): Node {
  if (tools.length === 0 || format === "qwen3-coder") {
    throw new AgentRLError("CONFIG", "Decoding cannot be constrained here.", {
      got: tools.length === 0 ? "no tools" : `the tool format ${format}`,
      expected: "tools, and a format that writes calls as JSON: hermes, llama3 or json",
      hint: "Leave the constraint out, or set model.toolFormat.",
    });
  }
  const key = format === "llama3" ? '"parameters"' : '"arguments"';
  const calls = tools.map((tool) =>
    sequence(
      literal('{"name"'),
      colon,
      jsonLiteral(tool.name),
      comma,
      literal(key),
      colon,
      schemaGrammar(argumentsSchema(tool)),
      literal("}"),
    ),
  );
  const line = optional(oneOf("\n"));
  if (format !== "hermes") return choice(...calls);
  return sequence(mark(tokenizer, "<tool_call>"), line, choice(...calls), line, mark(tokenizer, "</tool_call>"));
}

/** A format's own mark: a special token where the vocabulary has it as one. */
function mark(tokenizer: Tokenizer, text: string): Node {
  const id = tokenizer.tokenId(text);
  return id !== undefined && tokenizer.isControl(id) ? { kind: "token", id } : literal(text);
}
