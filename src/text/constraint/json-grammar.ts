/** JSON as a grammar: compact, or with one space after `,` and `:`, as Python's json.dumps and this project write it. */
import { formatJson } from "../formats/json-text.ts";
import {
  bytes,
  choice,
  lazy,
  literal,
  many,
  type Node,
  nothing,
  oneOf,
  optional,
  repeat,
  sequence,
} from "./grammar.ts";

const digit = bytes([0x30, 0x39]);
const tail = bytes([0x80, 0xbf]);
/** Well-formed UTF-8 beyond ASCII (Unicode standard, table 3-7). */
const wide = choice(
  sequence(bytes([0xc2, 0xdf]), tail),
  sequence(bytes(0xe0), bytes([0xa0, 0xbf]), tail),
  sequence(bytes([0xe1, 0xec], [0xee, 0xef]), tail, tail),
  sequence(bytes(0xed), bytes([0x80, 0x9f]), tail),
  sequence(bytes(0xf0), bytes([0x90, 0xbf]), tail, tail),
  sequence(bytes([0xf1, 0xf3]), tail, tail, tail),
  sequence(bytes(0xf4), bytes([0x80, 0x8f]), tail, tail),
);
const escaped = sequence(
  oneOf("\\"),
  choice(oneOf('"\\/bfnrt'), sequence(oneOf("u"), repeat(oneOf("0123456789abcdefABCDEF"), 4, 4))),
);
// ASCII but for control characters, the quote, the backslash, and here `<` and `/`.
const plain = bytes([0x20, 0x21], [0x23, 0x2e], [0x30, 0x3b], [0x3d, 0x5b], [0x5d, 0x7f]);
const opening = oneOf("<");

/** A string without `</`, which could close a tag around the JSON; `<\/` is the same. */
export const jsonString = sequence(
  oneOf('"'),
  many(choice(plain, oneOf("/"), wide, escaped, sequence(opening, many(opening), choice(plain, wide, escaped)))),
  many(opening),
  oneOf('"'),
);

/** One value, as this project writes it, with `</` escaped as in jsonString. */
export function jsonLiteral(value: unknown): Node {
  return literal(formatJson(value).replaceAll("</", "<\\/"));
}

export const comma = sequence(oneOf(","), optional(oneOf(" ")));
export const colon = sequence(oneOf(":"), optional(oneOf(" ")));

const natural = choice(oneOf("0"), sequence(bytes([0x31, 0x39]), repeat(digit, 0, 20)));
/** At most 21 digits before the point and 10^279: nothing overflows to an infinity. */
export const jsonNumber = sequence(
  optional(oneOf("-")),
  natural,
  optional(sequence(oneOf("."), digit, many(digit))),
  optional(
    sequence(
      oneOf("eE"),
      choice(
        sequence(optional(oneOf("+-")), repeat(digit, 1, 2)),
        sequence(oneOf("-"), repeat(digit, 3, 3)),
        sequence(
          optional(oneOf("+")),
          choice(sequence(oneOf("1"), digit), sequence(oneOf("2"), bytes([0x30, 0x37]))),
          digit,
        ),
      ),
    ),
  ),
);

export function jsonArray(item: Node, min = 0, max?: number): Node {
  if (max === 0) return literal("[]");
  const rest = repeat(sequence(comma, item), Math.max(0, min - 1), max === undefined ? undefined : max - 1);
  const items = sequence(item, rest);
  return sequence(oneOf("["), min === 0 ? optional(items) : items, oneOf("]"));
}

/** An object of any keys. */
export function jsonMap(value: Node): Node {
  const member = sequence(jsonString, colon, value);
  return sequence(oneOf("{"), optional(sequence(member, many(sequence(comma, member)))), oneOf("}"));
}

/** Members in this order; those that are not required may be left out. */
export function jsonObject(members: readonly { key: string; value: Node; required: boolean }[]): Node {
  /** What may follow after `index` members, of which one was written (or none). */
  const made = new Map<string, Node>();
  const from = (index: number, first: boolean): Node => {
    const id = `${index} ${first}`;
    const known = made.get(id);
    if (known !== undefined) return known;
    const member = members[index];
    let node = nothing;
    if (member !== undefined) {
      const { key, value, required } = member;
      const written = sequence(first ? nothing : comma, jsonLiteral(key), colon, value, from(index + 1, false));
      node = required ? written : choice(written, from(index + 1, first));
    }
    made.set(id, node);
    return node;
  };
  return sequence(oneOf("{"), from(0, true), oneOf("}"));
}

export const anyValue: Node = lazy(() =>
  choice(jsonString, jsonNumber, literal("true"), literal("false"), literal("null"), anyArray, anyObject),
);
export const anyArray: Node = lazy(() => jsonArray(anyValue));
export const anyObject: Node = lazy(() => jsonMap(anyValue));

/** Whole numbers from `min` to `max`, both safe integers. */
export function jsonInteger(min: number, max: number): Node {
  const parts: Node[] = [];
  if (min < 0) parts.push(sequence(oneOf("-"), naturals(max < 0 ? -max : 1, -min)));
  if (max >= 0) parts.push(naturals(Math.max(0, min), max));
  return choice(...parts);
}

/** 0 <= min <= max */
function naturals(min: number, max: number): Node {
  const parts: Node[] = [];
  // One length of digits after the other.
  for (let from = min; from <= max; ) {
    const length = String(from).length;
    const to = Math.min(max, 10 ** length - 1);
    parts.push(sameLength(String(from), String(to)));
    from = to + 1;
  }
  return choice(...parts);
}

/** Digit strings between two of the same length. */
function sameLength(low: string, high: string): Node {
  if (low === "") return nothing;
  const [a, b] = [low.charCodeAt(0), high.charCodeAt(0)];
  if (/^0*$/.test(low) && /^9*$/.test(high)) return repeat(digit, low.length, low.length);
  const [restLow, restHigh] = [low.slice(1), high.slice(1)];
  if (a === b) return sequence(bytes(a), sameLength(restLow, restHigh));
  const parts = [
    sequence(bytes(a), sameLength(restLow, "9".repeat(restLow.length))),
    sequence(bytes(b), sameLength("0".repeat(restLow.length), restHigh)),
  ];
  if (b - a > 1) parts.push(sequence(bytes([a + 1, b - 1]), repeat(digit, restLow.length, restLow.length)));
  return choice(...parts);
}
