/**
 * Grammars over bytes and special tokens: what a constrained turn may look like. Nodes are plain values; recursion goes
 * through `lazy`.
 */

export type Node =
  /** One byte of a set: bit b of the 256. */
  | { kind: "byte"; set: ByteSet }
  /** A special token by its id. */
  | { kind: "token"; id: number }
  | { kind: "sequence"; items: readonly Node[] }
  | { kind: "choice"; items: readonly Node[] }
  /** Any number of times; the item is never empty. */
  | { kind: "many"; item: Node }
  | { kind: "lazy"; make: () => Node };

/** 256 bits, in eight words. */
export type ByteSet = Uint32Array;

export const nothing: Node = { kind: "sequence", items: [] };

export function sequence(...items: Node[]): Node {
  return items.length === 1 ? items[0]! : { kind: "sequence", items };
}

export function choice(...items: Node[]): Node {
  return items.length === 1 ? items[0]! : { kind: "choice", items };
}

export function optional(item: Node): Node {
  return choice(nothing, item);
}

export function many(item: Node): Node {
  return { kind: "many", item };
}

/** A node that is made when it is first used, and once. */
export function lazy(make: () => Node): Node {
  let made: Node | undefined;
  return {
    kind: "lazy",
    make: () => {
      made ??= make();
      return made;
    },
  };
}

/** At least `min` times and, where given, at most `max` times. */
export function repeat(item: Node, min: number, max?: number): Node {
  const fixed = Array.from({ length: min }, () => item);
  if (max === undefined) return sequence(...fixed, many(item));
  let rest: Node = nothing;
  for (let i = min; i < max; i++) rest = optional(sequence(item, rest));
  return sequence(...fixed, rest);
}

/** The UTF-8 bytes of a text. */
export function literal(text: string): Node {
  return sequence(...Array.from(new TextEncoder().encode(text), (value) => bytes(value)));
}

/** One byte: single values and [from, to] ranges. */
export function bytes(...parts: (number | readonly [number, number])[]): Node {
  const set = new Uint32Array(8);
  for (const part of parts) {
    const [from, to] = typeof part === "number" ? [part, part] : part;
    for (let value = from; value <= to; value++) set[value >> 5]! |= 1 << (value & 31);
  }
  return { kind: "byte", set };
}

/** One of the characters, all ASCII. */
export function oneOf(characters: string): Node {
  return bytes(...Array.from(characters, (character) => character.charCodeAt(0)));
}

export function hasByte(set: ByteSet, value: number): boolean {
  return ((set[value >> 5]! >>> (value & 31)) & 1) === 1;
}
