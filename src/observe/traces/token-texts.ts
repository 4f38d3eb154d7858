/** The text of single tokens, of which one alone may be no more than a part of a character. */
import type { Tokenizer } from "../../text/tokenizer.ts";

/** UTF-8 bytes of each token, whatever the tokenizer's kind. */
export function tokenBytes(tokenizer: Tokenizer): (id: number) => Uint8Array {
  const known = new Map<number, Uint8Array>();
  return (id) => {
    let bytes = known.get(id);
    if (bytes === undefined) {
      bytes = tokenizer.tokenBytes(id) ?? bytesOfPiece(tokenizer.tokenString(id)!);
      known.set(id, bytes);
    }
    return bytes;
  };
}

/** Of a SentencePiece vocabulary: "▁" is a space, <0x0A> a byte. */
function bytesOfPiece(piece: string): Uint8Array {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(piece);
  if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1]!, 16));
  return new TextEncoder().encode(piece.replaceAll("▁", " "));
}

/**
 * The bytes' text, cut by tokens: a character whose bytes are spread over several stands at the last of them, the others
 * are empty. Joined they are the text, with U+FFFD for bytes that are none.
 * @param lengths [tokens] bytes of each.
 */
export function splitTexts(bytes: Uint8Array, lengths: ArrayLike<number>): string[] {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const texts: string[] = [];
  let at = 0;
  for (let i = 0; i < lengths.length; i++) {
    texts.push(decoder.decode(bytes.subarray(at, at + lengths[i]!), { stream: true }));
    at += lengths[i]!;
  }
  const rest = decoder.decode();
  if (rest !== "") texts[texts.length - 1] += rest;
  return texts;
}
