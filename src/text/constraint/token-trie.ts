/** A vocabulary's tokens by their bytes, without the special ones: shared by all constraints over it. */
import { AgentRLError } from "../../errors.ts";
import type { Tokenizer } from "../tokenizer.ts";

export interface TrieNode {
  /** Tokens that end here. */
  ids: number[];
  children: [byte: number, node: TrieNode][];
}

const tries = new WeakMap<Tokenizer, TrieNode>();

/** @throws AgentRLError TOKENIZER for a tokenizer whose tokens are not bytes. */
export function tokenTrie(tokenizer: Tokenizer): TrieNode {
  let root = tries.get(tokenizer);
  if (root === undefined) {
    root = build(tokenizer);
    tries.set(tokenizer, root);
  }
  return root;
}

function build(tokenizer: Tokenizer): TrieNode {
  const root: TrieNode = { ids: [], children: [] };
  for (let id = 0; id < tokenizer.vocabSize; id++) {
    if (tokenizer.tokenString(id) === undefined || tokenizer.isControl(id)) continue;
    const bytes = tokenizer.tokenBytes(id);
    if (bytes === undefined) {
      throw new AgentRLError("TOKENIZER", "Decoding cannot be constrained with this tokenizer.", {
        got: "tokens that are not bytes",
        expected: "a byte-level tokenizer",
        hint: "Leave the constraint out, or use a model with a byte-level tokenizer.",
      });
    }
    let node = root;
    for (const byte of bytes) {
      let child = node.children.find(([value]) => value === byte)?.[1];
      if (child === undefined) {
        child = { ids: [], children: [] };
        node.children.push([byte, child]);
      }
      node = child;
    }
    if (node !== root) node.ids.push(id);
  }
  return root;
}
